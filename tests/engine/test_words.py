"""Words: which the starter model knows, how many tokens a prompt takes, and what of it is not read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from transformers import CLIPTokenizer

from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.model import STARTER
from diffusion_engine.words import Words, taught_words

LIMIT = json.loads((STARTER / "tokenizer" / "tokenizer_config.json").read_text())["model_max_length"] - 2  # marks


def test_words_the_model_cannot_use(starter: EditableDiffusionEngine) -> None:
    assert starter.unknown_words("a red balloon and a zyxophone") == ["zyxophone"]
    assert starter.unknown_words("A Red T-shirt, two cats: 3 zyxophones, zyxophones!") == ["zyxophones"]
    assert starter.unknown_words("each ach of the beach") == ["each", "ach"], "the end of a word is not a word"
    assert starter.unknown_words("仙人掌") == ["仙人掌"]


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("", 0), ("  \n", 0), ("a red balloon", 3), ("a red balloon, a cat", 6), ("balloon " * 60, 60)],
)
def test_tokens_are_counted_without_marks(starter: EditableDiffusionEngine, prompt: str, tokens: int) -> None:
    assert starter.token_count(prompt) == (tokens, LIMIT)
    pipeline = starter._bench.model.pipeline  # pyright: ignore[reportPrivateUsage]
    assert tokens == len(pipeline.tokenizer(prompt, add_special_tokens=False).input_ids)


def test_the_end_of_a_prompt_that_is_not_read(starter: EditableDiffusionEngine) -> None:
    exactly = "Red balloon " * (LIMIT // 2)
    assert starter.truncated_words("") == starter.truncated_words(exactly) == ""
    assert starter.truncated_words(exactly + "and a  Großer Zyxophone ") == "and a  Großer Zyxophone"


def test_suggested_words_are_whole_known_and_singular(starter: EditableDiffusionEngine) -> None:
    words = starter.vocabulary
    assert list(words) == sorted(set(words)) and 200 < len(words) < 800
    assert all(re.fullmatch("[a-z]{2,}", word) for word in words)
    assert {"cat", "balloon", "cactus", "grapes", "bus", "red", "sky", "dunes", "northern", "flower"} <= set(words)
    assert not set(words) & {"a", "t", "cats", "butterflys", "buses", "ach", "ing", "erry", "wit", "startoftext"}
    assert starter.unknown_words(" ".join(words)) == []
    assert all(starter.token_count(word)[0] == 1 for word in words)


def test_other_models_have_no_known_words(folders: dict[str, Path]) -> None:
    engine = EditableDiffusionEngine.from_pretrained(str(folders["sd1"]), offline=True)
    assert engine.vocabulary == () and engine.unknown_words("a zyxophone") == []
    assert engine.token_count("a red balloon") == (3, LIMIT)
    engine.close()


def test_a_model_folder_may_list_its_words(tmp_path: Path) -> None:
    assert taught_words(tmp_path) is None
    (tmp_path / "vocabulary.txt").write_text("a\ncat\ncats\ncherries\ncherry\nbus\n")
    taught = taught_words(tmp_path)
    assert taught == {"a", "cat", "cats", "cherry", "cherries", "bus"}
    words = Words(CLIPTokenizer.from_pretrained(STARTER / "tokenizer"), taught)
    assert words.vocabulary == ("bus", "cat", "cherry")
    assert words.unknown("Cats, a cat with dogs") == ["with", "dogs"]


def test_questions_leave_the_pipelines_tokenizer_alone(starter: EditableDiffusionEngine) -> None:
    """It is set to pad and to truncate while the compute thread encodes a prompt."""
    tokenizer = starter._bench.model.pipeline.tokenizer  # pyright: ignore[reportPrivateUsage]
    expected = tokenizer("a cat", padding="max_length", truncation=True, max_length=LIMIT + 2).input_ids
    before = tokenizer.backend_tokenizer.padding, tokenizer.backend_tokenizer.truncation
    starter.token_count("a cat"), starter.truncated_words("a cat"), starter.unknown_words("a cat")
    assert (tokenizer.backend_tokenizer.padding, tokenizer.backend_tokenizer.truncation) == before != (None, None)
    assert len(expected) == LIMIT + 2
