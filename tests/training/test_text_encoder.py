"""The text encoder's training: thumbnails of what a caption names, each in its own slots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers import StableDiffusionPipeline
from torch import nn
from transformers import CLIPTokenizer

from tests.training.conftest import put
from tests.training.small_pipeline import small_encoder, small_pipeline
from training import text_encoder
from training.backgrounds import draw_background
from training.captions import Description
from training.layouts import Arranger
from training.objects import objects
from training.run import Plan
from training.text_encoder import (
    ACROSS,
    ALPHA,
    BATCH,
    CAPTIONS_IN_LONG,
    OBJECTS,
    PART,
    PART_BEHIND,
    THUMBNAIL,
    TextEncoderRun,
    background_parts,
    object_parts,
    widened,
)
from training.tokenizer import POSITIONS, SLOTS, WORDS

FEW = tuple(thing for thing in objects() if thing.name in ("cat", "rocket", "apple", "fish"))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_encoder, "objects", lambda: FEW)
    monkeypatch.setattr(text_encoder, "BACKGROUNDS", 6)
    monkeypatch.setattr(text_encoder, "Arranger", lambda: Arranger(FEW))


def made(tokenizer: CLIPTokenizer, folder: Path, steps: int = 4, seed: int = 0) -> TextEncoderRun:
    return TextEncoderRun(small_pipeline(tokenizer), Plan(steps, 0.01, seed), folder)


class Answers(nn.Module):
    """In place of encoder and head: answers every prompt with the same thumbnails."""

    def __init__(self, thumbnails: torch.Tensor) -> None:
        super().__init__()
        self.thumbnails = thumbnails

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.thumbnails.expand(len(tokens), POSITIONS, -1),)


def test_a_thumbnail_shows_the_object_and_nothing_around_it(tokenizer: CLIPTokenizer) -> None:
    found = object_parts(small_pipeline(tokenizer).vae)
    assert {name for name, _ in found} == {"cat", "rocket", "apple", "fish"}
    for name in ("cat", "rocket"):
        parts = found[name, None]
        assert parts.shape == (SLOTS, PART)
        side = THUMBNAIL // ACROSS
        picture = F.fold(parts.T[None], (THUMBNAIL, THUMBNAIL), side, stride=side)[0]  # [4 + ALPHA, 16, 16]
        latents, alpha = picture[:-ALPHA], picture[-1]
        assert 0.15 < float((alpha > 0.5).float().mean()) < 0.95
        assert not latents[:, alpha <= 0.1].any() and latents[:, alpha > 0.1].any(0).all()
    assert not torch.allclose(found["cat", None], found["rocket", None])


def test_other_paints_are_other_thumbnails_of_the_same_outline(tokenizer: CLIPTokenizer) -> None:
    found = object_parts(small_pipeline(tokenizer).vae)
    painted = {paint: parts for (name, paint), parts in found.items() if name == "cat"}
    assert len(painted) > 5
    alphas = torch.stack([parts.view(SLOTS, 4 + ALPHA, -1)[:, -1] for parts in painted.values()])
    assert (alphas - alphas[0]).abs().max() < 0.05
    assert not torch.allclose(painted["red"], painted["blue"])


def test_what_is_named_first_is_in_the_first_place(tokenizer: CLIPTokenizer, tmp_path: Path) -> None:
    run = made(tokenizer, tmp_path)
    cat, red_cat, apple = put("cat"), put("cat", paint="red"), put("apple")
    looked_up = object_parts(small_pipeline(tokenizer).vae)
    cases = {
        "nothing": ((), (None, None)),
        "one": ((cat,), (("cat", None), None)),
        "two": ((red_cat, cat), (("cat", "red"), ("cat", None))),
        "three": ((apple, cat, red_cat), (("apple", None), ("cat", None))),
    }
    for label, (named, wanted) in cases.items():
        parts = run._objects(Description("words", named, False))
        expected = [torch.zeros(SLOTS, PART) if key is None else looked_up[key] for key in wanted]
        assert torch.allclose(parts, torch.cat(expected, 1), atol=1e-5), label


@pytest.mark.parametrize("names_place", [True, False])
def test_the_loss_counts_a_place_only_where_it_is_named(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_place: bool
) -> None:
    told = Description("a cat", (put("cat"),), names_place)
    monkeypatch.setattr(text_encoder, "describe", lambda *_: told)
    monkeypatch.setattr(text_encoder, "LONG", 0)
    run = made(tokenizer, tmp_path)
    right = torch.zeros(POSITIONS, OBJECTS * PART + PART_BEHIND)
    right[-SLOTS:, : OBJECTS * PART] = run._objects(told)
    run.modules["text_encoder"], run.modules["head"] = Answers(right), nn.Identity()
    missed = float(run._behind.square().mean())
    assert float(run.loss()) == pytest.approx(missed if names_place else 0, rel=0.5, abs=1e-3)


def test_a_long_prompt_begins_with_what_it_is_about(tokenizer: CLIPTokenizer, tmp_path: Path) -> None:
    run = made(tokenizer, tmp_path)
    first = Description("a cat by the sea", (put("cat"),), True)
    others = [Description(f"words {i}", (put("apple"),), False) for i in range(9)]
    longer = run._longer(first, others)
    assert longer.words.startswith("a cat by the sea, words ") and longer.names_place
    assert [one.thing.name for one in longer.named] == ["cat", *["apple"] * (CAPTIONS_IN_LONG - 1)]


def test_a_tenth_of_the_prompts_goes_on_into_the_slots(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, lengths = made(tokenizer, tmp_path), list[int]()
    forward = run.modules["text_encoder"].forward

    def listening(tokens: torch.Tensor) -> Any:
        lengths.extend((tokens != 1).sum(1).tolist())
        return forward(tokens)

    monkeypatch.setattr(run.modules["text_encoder"], "forward", listening)
    for _ in range(3):
        run.loss()
    assert len(lengths) == 3 * BATCH
    assert 0.02 < np.mean(np.array(lengths) > WORDS) < 0.15


def test_backgrounds_are_thumbnails_too(tokenizer: CLIPTokenizer) -> None:
    grounds = [draw_background(np.random.default_rng(seed), 64) for seed in range(70)]
    parts = background_parts(small_pipeline(tokenizer).vae, grounds)
    assert parts.shape == (70, SLOTS, PART_BEHIND)
    assert len({one.numpy().tobytes() for one in parts}) == 70


def test_a_wider_encoder_reads_words_as_before() -> None:
    narrow = small_encoder(positions=WORDS)
    tokens = torch.randint(64, (3, WORDS))
    wide = widened(narrow)
    assert wide.config.max_position_embeddings == POSITIONS
    assert torch.allclose(wide.eval()(tokens)[0], narrow(tokens)[0], atol=1e-6)
    assert widened(wide) is wide


def test_it_learns_and_writes_a_model_that_diffusers_loads(
    tokenizer: CLIPTokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tokenizer, tmp_path / "learning", steps=30)
    before = np.mean([float(run.loss().detach()) for _ in range(3)])
    run.train()
    assert np.mean([float(run.loss().detach()) for _ in range(3)]) < 0.98 * before
    small_pipeline(tokenizer).save_pretrained(tmp_path / "start")
    arguments = [part for name in ("start", "work", "output") for part in (f"--{name}", str(tmp_path / name))]
    text_encoder.main([*arguments, "--steps", "6"])
    assert str(tmp_path) not in (tmp_path / "output" / "model_index.json").read_text()
    exported: Any = StableDiffusionPipeline.from_pretrained(tmp_path / "output", torch_dtype=torch.float32)
    started: Any = StableDiffusionPipeline.from_pretrained(tmp_path / "start", torch_dtype=torch.float32)
    assert exported.tokenizer.model_max_length == POSITIONS == exported.text_encoder.config.max_position_embeddings
    for part, same in (("unet", True), ("vae", True), ("text_encoder", False)):
        weights, old = getattr(exported, part).state_dict(), getattr(started, part).state_dict()
        equal = all(torch.equal(weights[name], old[name].half().float()) for name in old)
        assert equal is same, part
