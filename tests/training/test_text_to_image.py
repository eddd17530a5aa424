"""Training of the UNet: its loss, and a run from a model folder to one that stock diffusers loads."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionPipeline
from torch import nn
from transformers import CLIPTokenizer

from tests.training.small_pipeline import RandomPool, small_pipeline
from training import checkpoints, diffusion_run, run, text_to_image
from training.latent_pool import Batch
from training.run import Plan
from training.text_to_image import MOST_SNR, TextToImage


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    monkeypatch.setattr(RandomPool, "asked", [], raising=False)
    monkeypatch.setattr(diffusion_run, "LatentPool", RandomPool)
    monkeypatch.setattr(diffusion_run, "LATENTS_PER_STEP", 4 * 16**2)
    monkeypatch.setattr(text_to_image, "CURRICULUM", ((0.0, {8: 1.0}), (0.5, {8: 0.5, 16: 0.5})))
    return RandomPool.asked


class Silent(nn.Module):
    """A UNet that predicts nothing, so that its errors are the weighted squares of the target."""

    def forward(self, noisy: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor]:
        return (torch.zeros_like(noisy),)


def silent(tokenizer: CLIPTokenizer, folder: Path) -> TextToImage:
    made = TextToImage(small_pipeline(tokenizer), Plan(1, 0.01), folder)
    made.modules["unet"] = Silent()
    return made


@pytest.mark.parametrize("time", [5, 300, 990], ids=["little noise", "some", "nearly all"])
def test_clear_pictures_weigh_less(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: int
) -> None:
    """Held back from MOST_SNR on. The target of blank latents is the noise times sqrt(kept)."""
    kept = float(np.prod(1 - np.linspace(0.0001**0.5, 0.02**0.5, 1000)[: time + 1] ** 2))
    ratio = kept / (1 - kept)
    made = silent(tokenizer, tmp_path)
    monkeypatch.setattr(made, "_times", lambda count, frame: torch.full((count,), time))
    errors = made.errors(Batch(torch.zeros(64, 4, 8, 8), torch.zeros(64, 8, 8), ["a cat"] * 64))
    assert errors.shape == (64, 8, 8)
    right = kept * (1 if ratio < MOST_SNR else (MOST_SNR + 1) / (ratio + 1))
    assert abs(float(errors.mean()) / right - 1) < 0.05
    assert (ratio > MOST_SNR) == (time == 5)


def test_the_target_is_the_velocity(tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A UNet that sees through the noise is not wrong at all."""
    made = silent(tokenizer, tmp_path)
    latents = torch.randn(6, 4, 8, 8)

    class Knowing(nn.Module):
        def forward(self, noisy: torch.Tensor, times: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor]:
            signal, noise = made.kept[times].sqrt()[:, None, None, None], (1 - made.kept[times]).sqrt()
            noise = noise[:, None, None, None]
            return ((signal * noisy - latents) / noise,)

    made.modules["unet"] = Knowing()
    monkeypatch.setattr(made, "_times", lambda count, frame: torch.linspace(100, 999, count).long())
    assert made.errors(Batch(latents, torch.zeros(6, 8, 8), ["a cat"] * 6)).max() < 1e-3


@pytest.mark.parametrize("chance", [0.0, 0.5, 1 - 2**-24], ids=["least", "middle", "most"])
@pytest.mark.parametrize("count", [1, 6, 96])
def test_times_are_one_from_each_part_of_the_schedule(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, chance: float
) -> None:
    made = silent(tokenizer, tmp_path)
    monkeypatch.setattr(torch, "rand", lambda size: torch.full((size,), chance))
    times = made._times(count, 16)
    assert times.shape == (count,) and times.min() >= 0 and times.max() < 1000
    shares = NormalDist().inv_cdf
    parts = ((i + chance) / count for i in range(count))
    middles = [1000 / (1 + math.exp(-shares(min(max(part, 1e-6), 1 - 1e-6)))) for part in parts]
    assert np.abs(times.numpy() - middles).max() <= 1


@pytest.mark.parametrize("frame", [8, 16, 32, 64])
def test_larger_frames_are_seen_through_more_noise(tokenizer: CLIPTokenizer, tmp_path: Path, frame: int) -> None:
    """The signal to noise ratio is divided by (frame / 16) to a power between 0 and 2, drawn anew for each picture."""
    made = silent(tokenizer, tmp_path)
    ratio = (made.kept / (1 - made.kept)).log()
    torch.manual_seed(5)
    usual, times = made._times(4000, 16), made._times(4000, frame)
    assert times.min() >= 0 and times.max() < 1000
    assert (ratio[usual].mean() - ratio[times].mean() - max(math.log(frame / 16), 0)).abs() < 0.15
    shift = ratio[usual] - ratio[times]  # both are in the order of the parts of the schedule
    within = (usual > 100) & (usual < 700)
    assert shift[within].min() > -0.1 and shift[within].max() < 2 * max(math.log(frame / 16), 0) + 0.1


@pytest.mark.parametrize("grown", [False, True])
def test_a_model_that_knows_small_frames_trains_on_the_last_mix(
    tokenizer: CLIPTokenizer, tmp_path: Path, asked: list[tuple[int, int]], grown: bool
) -> None:
    TextToImage(small_pipeline(tokenizer), Plan(40, 0.01), tmp_path, grown=grown).train()
    first = {frame for frame, _ in asked[:20]}
    assert first == ({8, 16} if grown else {8}) and {frame for frame, _ in asked[20:]} == {8, 16}


def test_a_tenth_of_the_captions_is_dropped(
    tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, told = silent(tokenizer, tmp_path), list[str]()

    def listening(captions: list[str], **options: Any) -> Any:
        told.extend(captions)
        return tokenizer(captions, **options)

    monkeypatch.setattr(made.pipeline, "tokenizer", listening)
    for _ in range(20):
        made.errors(RandomPool(None, 8).draw(50))
    assert set(told) == {"", "a cat", "two dogs"} and 70 < told.count("") < 130


def test_it_learns_on_one_batch(tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(torch.randn(8, 4, 8, 8), torch.ones(8, 8, 8), ["a cat"] * 8)
    monkeypatch.setattr(RandomPool, "draw", lambda *_: batch)
    made = TextToImage(small_pipeline(tokenizer), Plan(8, 0.02), tmp_path)
    with torch.no_grad():
        before = np.mean([float(made.loss()) for _ in range(3)])
    made.train()
    with torch.no_grad():
        assert np.mean([float(made.loss()) for _ in range(3)]) < 0.97 * before


def arguments(folder: Path) -> list[str]:
    return [part for name in ("start", "work", "output") for part in (f"--{name}", str(folder / name))]


def test_the_export_is_what_diffusers_loads(
    tokenizer: CLIPTokenizer, tmp_path: Path, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a kill: the averaged UNet in fp16, and everything else as it was."""
    monkeypatch.setattr(run, "SAVE_SECONDS", -1)  # at every step
    small_pipeline(tokenizer).save_pretrained(tmp_path / "start")
    errors = TextToImage.errors

    def killed(self: TextToImage, batch: Batch) -> torch.Tensor:
        if len(asked) == 2:
            raise KeyboardInterrupt
        return errors(self, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TextToImage, "errors", killed)
        text_to_image.main([*arguments(tmp_path), "--steps", "3"])
    assert not (tmp_path / "output").exists()
    text_to_image.main([*arguments(tmp_path), "--steps", "3"])
    assert len(asked) == 2 + 2, "one was saved, the second was lost"

    exported = StableDiffusionPipeline.from_pretrained(tmp_path / "output", torch_dtype=torch.float16)
    started = StableDiffusionPipeline.from_pretrained(tmp_path / "start", torch_dtype=torch.float32)
    found = checkpoints.load(tmp_path / "work")
    assert found is not None and found[1]["step"] == 3
    weights = exported.unet.state_dict()
    assert not torch.equal(weights["conv_in.weight"], started.unet.state_dict()["conv_in.weight"].half())
    for name, weight in weights.items():
        assert weight.dtype == torch.float16
        assert torch.equal(weight, found[0]["average"][f"module.unet.{name}"].half()), name
    for part in ("vae", "text_encoder"):
        before = getattr(started, part).state_dict()
        assert all(
            torch.equal(weight, before[name].half()) for name, weight in getattr(exported, part).state_dict().items()
        )
    assert exported.tokenizer.get_vocab() == tokenizer.get_vocab()
    assert exported.scheduler.config["prediction_type"] == "v_prediction"
