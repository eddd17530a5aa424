"""Shared engines and pipelines for the engine tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline, StableDiffusionXLPipeline
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.model import STARTER
from tests.engine.small_models import small_unet, small_vae


@pytest.fixture(scope="session")
def starter() -> Generator[EditableDiffusionEngine]:
    engine = EditableDiffusionEngine.from_pretrained("starter")
    engine.refresh_at = None  # tests count dense passes; test_refresh.py has engines of its own
    yield engine
    engine.close()


Make = Callable[..., EditableDiffusionEngine]


@pytest.fixture
def make(tmp_path: Path) -> Generator[Make]:
    """Makes engines over the starter model with their files below `tmp_path`; they refresh nothing by themselves."""
    engines: list[EditableDiffusionEngine] = []

    def made(**options: Any) -> EditableDiffusionEngine:
        engines.append(EditableDiffusionEngine.from_pretrained("starter", **{"cache_dir": tmp_path, **options}))
        engines[-1].refresh_at = None
        return engines[-1]

    yield made
    for engine in engines:
        engine.close()


def _text_encoder(tokenizer: CLIPTokenizer, width: int, projected: bool = False) -> Any:
    torch.manual_seed(8)
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=tokenizer.model_max_length,
        projection_dim=20,
        bos_token_id=0,
        eos_token_id=1,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config).eval()


def save_pipeline(kind: str, folder: Path, **unet_changes: Any) -> Path:
    """A small pipeline of the kind ("sd1", "sd2", "sdxl"), saved as a diffusers folder."""
    tokenizer = CLIPTokenizer.from_pretrained(STARTER / "tokenizer")
    prediction = "v_prediction" if kind == "sd2" else "epsilon"
    scheduler = DDIMScheduler(prediction_type=prediction, clip_sample=False, beta_schedule="scaled_linear")
    parts = {
        "vae": small_vae(),
        "unet": small_unet(kind, **unet_changes),
        "scheduler": scheduler,
        "tokenizer": tokenizer,
    }
    if kind == "sdxl":
        pipeline: Any = StableDiffusionXLPipeline(
            **parts,
            text_encoder=_text_encoder(tokenizer, 16),
            text_encoder_2=_text_encoder(tokenizer, 32, projected=True),
            tokenizer_2=tokenizer,
        )
    else:
        pipeline = StableDiffusionPipeline(
            **parts,
            text_encoder=_text_encoder(tokenizer, 32 if kind == "sd1" else 48),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
    pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: save_pipeline(kind, root / kind) for kind in ("sd1", "sd2", "sdxl")}


def square(size: tuple[int, int], left: int, top: int, side: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """uint8 mask [H, W] for a picture of size (width, height)."""
    mask = np.zeros((size[1], size[0]), np.uint8)
    mask[top : top + side, left : left + side] = 255
    return mask
