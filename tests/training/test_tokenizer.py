"""The tokenizer: our words are whole, other words fall into pieces, and a trained encoder keeps what it knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import CLIPTextModel, CLIPTokenizer

from tests.training.small_pipeline import small_encoder
from training.captions import vocabulary
from training.tokenizer import ENTRIES, POSITIONS, adopt_tokenizer, make_tokenizer


def table(encoder: CLIPTextModel) -> torch.Tensor:
    return encoder.get_input_embeddings().weight.detach()


@pytest.fixture
def encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    made = small_encoder()
    made.resize_token_embeddings(len(tokenizer))
    torch.manual_seed(3)
    made.get_input_embeddings().weight.data.normal_()
    return made


def test_its_special_tokens_are_what_the_encoder_expects(tokenizer: CLIPTokenizer) -> None:
    ids = tokenizer("a red balloon", padding="max_length", truncation=True)["input_ids"]
    assert len(ids) == POSITIONS == tokenizer.model_max_length
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 1, 1)
    assert ids[0] == 0 and ids[4:] == [1] * (POSITIONS - 4)
    assert tokenizer("")["input_ids"] == [0, 1]


def test_it_has_room_for_all_our_words(tokenizer: CLIPTokenizer) -> None:
    assert len(tokenizer) < ENTRIES, "full: some words may be left in pieces"


@pytest.mark.parametrize("word", ["two", "next", "underwater", "shark", "balloons", "lilies", ",", "turquoise"])
def test_our_words_are_one_token(tokenizer: CLIPTokenizer, word: str) -> None:
    assert tokenizer.tokenize(word) == [f"{word}</w>"]


@pytest.mark.parametrize(
    ("text", "same"),
    [("A Red BALLOON", "a red balloon"), ("  a   red\nballoon ", "a red balloon"), ("cat,dog", "cat , dog")],
    ids=["capitals", "spaces", "commas"],
)
def test_how_it_is_typed_does_not_matter(tokenizer: CLIPTokenizer, text: str, same: str) -> None:
    assert tokenizer(text)["input_ids"] == tokenizer(same)["input_ids"]


@pytest.mark.parametrize("word", ["zeppelin", "xylophone", "éclair", "猫", "🎈", "2026", "balloonist"])
def test_unknown_words_fall_into_pieces(tokenizer: CLIPTokenizer, word: str) -> None:
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    assert len(ids) > 1 and not {0, 1} & set(ids), "an unknown letter would end the prompt"
    assert tokenizer.decode(ids).strip().replace(" ", "") == word


def test_it_comes_back_from_a_folder(tokenizer: CLIPTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    again = CLIPTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == tokenizer.get_vocab() and again.model_max_length == POSITIONS
    for text in ("a red balloon, two kittens", "A zeppelin in 1937! 🎈"):
        assert again(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_the_same_words_make_the_same_tokenizer(tokenizer: CLIPTokenizer) -> None:
    """A resumed run makes its own again, and finds each word where its embedding is."""
    for phrases in (vocabulary(), [*reversed(vocabulary()), *vocabulary()[:50]]):
        assert make_tokenizer(phrases).get_vocab() == tokenizer.get_vocab()


def test_known_tokens_keep_their_embeddings(tokenizer: CLIPTokenizer, encoder: CLIPTextModel) -> None:
    before = table(encoder).clone()
    new = make_tokenizer([*vocabulary(), "a zeppelin", "two zeppelins", "three xylophones"])
    adopt_tokenizer(encoder, tokenizer, new)
    old, rows = tokenizer.get_vocab(), new.get_vocab()
    kept = [token for token in rows if token in old]
    assert len(kept) > 0.95 * len(rows)
    assert any(old[token] != rows[token] for token in kept), "the test needs tokens that move"
    assert all(torch.equal(table(encoder)[rows[token]], before[old[token]]) for token in kept)


def test_new_tokens_begin_as_the_mean_of_their_pieces(tokenizer: CLIPTokenizer, encoder: CLIPTextModel) -> None:
    before = table(encoder).clone()
    new = make_tokenizer([*vocabulary(), "zeppelin", "zeppelin balloon"])
    adopt_tokenizer(encoder, tokenizer, new)
    (row,) = new("zeppelin", add_special_tokens=False)["input_ids"]
    pieces = tokenizer("zeppelin", add_special_tokens=False)["input_ids"]
    assert len(pieces) > 1
    assert torch.allclose(table(encoder)[row], before[torch.tensor(pieces)].mean(0))


def test_adopting_ones_own_tokenizer_changes_nothing(tokenizer: CLIPTokenizer, encoder: CLIPTextModel) -> None:
    before = table(encoder).clone()
    adopt_tokenizer(encoder, tokenizer, tokenizer)
    assert torch.equal(table(encoder), before)


@pytest.mark.parametrize("phrases", [["a cat"], [*vocabulary(), "zeppelins over saskatchewan"]], ids=["fewer", "more"])
def test_the_encoder_takes_every_token(tokenizer: CLIPTokenizer, encoder: CLIPTextModel, phrases: list[str]) -> None:
    new = make_tokenizer(phrases)
    adopt_tokenizer(encoder, tokenizer, new)
    assert len(new) == len(table(encoder)) == encoder.config.vocab_size != len(tokenizer)
    with torch.no_grad():
        states = encoder(torch.tensor([[0, len(new) - 1, 1]]))[0]
    assert states.isfinite().all()
