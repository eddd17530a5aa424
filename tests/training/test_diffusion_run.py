"""What trainings of a UNet share: frames that grow, objects that weigh more, a text encoder that stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import CLIPTokenizer

from tests.training.small_pipeline import RandomPool, small_pipeline
from training import diffusion_run, latent_pool
from training.diffusion_run import OBJECT_WEIGHT, DiffusionRun
from training.latent_pool import Batch
from training.run import Plan

CURRICULUM = ((0.0, {8: 1.0}), (0.5, {8: 0.5, 16: 0.5}))


class Even(DiffusionRun):
    """Is equally wrong everywhere, or only where there is an object, or only where there is none."""

    wrong = "everywhere"

    def errors(self, batch: Batch) -> torch.Tensor:
        weight = sum(parameter.sum() for parameter in self.modules["unet"].parameters())
        shown = {"everywhere": 1.0, "on objects": batch.objects, "elsewhere": 1 - batch.objects}[self.wrong]
        return shown * torch.ones_like(batch.objects) + 0 * weight


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    monkeypatch.setattr(RandomPool, "asked", [], raising=False)
    monkeypatch.setattr(diffusion_run, "LatentPool", RandomPool)
    monkeypatch.setattr(diffusion_run, "LATENTS_PER_STEP", 4 * 16**2)
    return RandomPool.asked


def even(tokenizer: CLIPTokenizer, folder: Path, steps: int = 4) -> Even:
    pipeline = small_pipeline(tokenizer)
    return Even(pipeline, {"unet": pipeline.unet}, CURRICULUM, Plan(steps, 0.01), folder)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("everywhere", 1 + OBJECT_WEIGHT / 2), ("on objects", (1 + OBJECT_WEIGHT) / 2), ("elsewhere", 0.5)],
)
def test_errors_on_objects_weigh_more(
    tokenizer: CLIPTokenizer,
    tmp_path: Path,
    asked: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
    right: float,
) -> None:
    monkeypatch.setattr(Even, "wrong", wrong)
    assert float(even(tokenizer, tmp_path).loss().detach()) == pytest.approx(right)


def test_frames_grow_at_the_same_cost(tokenizer: CLIPTokenizer, tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    one = even(tokenizer, tmp_path, steps=100)
    for one.step in range(100):
        one.loss()
    frames = [frame for frame, _ in asked]
    assert set(frames[:50]) == {8} and 10 < frames[50:].count(16) < 40
    assert {frame**2 * batch for frame, batch in asked} == {4 * 16**2}


def test_the_text_encoder_stays(tokenizer: CLIPTokenizer, tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    pipeline = small_pipeline(tokenizer)
    before = {name: weight.clone() for name, weight in pipeline.text_encoder.state_dict().items()}
    one = Even(pipeline, {"unet": pipeline.unet}, CURRICULUM, Plan(2, 0.01), tmp_path)
    one.train()
    assert all(torch.equal(weight, before[name]) for name, weight in pipeline.text_encoder.state_dict().items())
    text = one.text(["a red balloon", ""])
    assert text.shape == (2, tokenizer.model_max_length, 32) and text.dtype == torch.float32
    assert not text.requires_grad and not torch.allclose(text[0], text[1])


def test_it_draws_from_composed_scenes(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latent_pool, "BACKGROUNDS", 6)
    monkeypatch.setattr(diffusion_run, "LATENTS_PER_STEP", 4 * 16**2)
    monkeypatch.setattr(diffusion_run, "POOL_LATENTS", 32 * 16**2)
    one = even(tokenizer, tmp_path)
    one.step = 3
    losses = [float(one.loss().detach()) for _ in range(6)]
    assert all(1 <= loss < 1 + OBJECT_WEIGHT for loss in losses) and np.std(losses) > 0
