"""The shipped starter model, through stock diffusers and through the engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, StableDiffusionPipeline

from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.model import STARTER
from diffusion_engine.noise import tile_noise

ASSETS = STARTER.parent
SIZE, STEPS, SEED = 256, 6, 11


@pytest.mark.parametrize(
    ("sampler", "scheduler", "guidance"),
    [
        ("dpm++ 2m", DPMSolverMultistepScheduler, 4.0),
        ("ddim", DDIMScheduler, 4.0),
        ("ddim", DDIMScheduler, 1.0),
    ],
    ids=["its own sampler", "DDIM", "without guidance"],
)
def test_stock_diffusers_paints_the_same_picture(
    starter: EditableDiffusionEngine, sampler: str, scheduler: type, guidance: float
) -> None:
    prompt = "a red balloon, green hills under a clear blue sky"
    pipeline = StableDiffusionPipeline.from_pretrained(STARTER, torch_dtype=torch.float32, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.scheduler = scheduler.from_config(
        pipeline.scheduler.config, **({"clip_sample": False} if scheduler is DDIMScheduler else {})
    )
    side = SIZE // 8
    stock = pipeline(
        prompt,
        latents=tile_noise(SEED, (side, side)),
        num_inference_steps=STEPS,
        guidance_scale=guidance,
        output_type="np",
    ).images[0]
    ours = starter.generate(prompt, size=(SIZE, SIZE), steps=STEPS, seed=SEED, guidance=guidance, sampler=sampler)
    starter.forget(ours.id)
    difference = np.abs(np.asarray(ours.image).astype(int) - np.round(stock * 255).astype(int))
    assert difference.max() <= 2, "levels of 255"
    assert np.asarray(ours.image).std() > 5, "a picture, not a flat colour"


def test_what_ships_is_small_and_never_runs_code() -> None:
    files = [file for file in ASSETS.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 60e6
    assert {file.suffix for file in STARTER.rglob("*") if file.is_file()} <= {".safetensors", ".json", ".txt", ".md"}


def test_it_comes_with_its_words() -> None:
    words = (STARTER / "vocabulary.txt").read_text(encoding="utf-8").split()
    assert words == sorted(set(words)) and {"balloon", "cat", "dunes", "purple"} <= set(words)


def test_it_is_a_plain_pipeline() -> None:
    parts = json.loads((Path(STARTER) / "model_index.json").read_text())
    assert parts["_class_name"] == "StableDiffusionPipeline"
    assert {name for name, kind in parts.items() if isinstance(kind, list) and kind[0]} == {
        "scheduler",
        "text_encoder",
        "tokenizer",
        "unet",
        "vae",
    }
