"""The starter model's folder: loading it for training, writing it for diffusers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline

from diffusion_engine.words import VOCABULARY
from training.captions import vocabulary

STARTER = Path(__file__).resolve().parents[1] / "assets" / "starter-model"
LOADED_FROM = "_name_or_path"
LETTERS = re.compile(r"[a-z]+")


def device() -> torch.device:
    """The accelerator, where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def computes_bf16(on: torch.device) -> bool:
    """Whether the device has instructions for it. A processor without them takes ten times as long as in fp32."""
    able = torch.cpu.get_capabilities()
    return on.type != "cpu" or bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def mixed_precision(on: torch.device) -> torch.autocast:
    """Products in bf16, where that is fast."""
    return torch.autocast(on.type, torch.bfloat16, enabled=computes_bf16(on))


def load(folder: Path = STARTER) -> StableDiffusionPipeline:
    """The pipeline in fp32, convolutions in channels-last memory, on an accelerator where there is one."""
    pipeline = StableDiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32, local_files_only=True)
    for part in (pipeline.unet, pipeline.vae):
        part.to(device(), memory_format=torch.channels_last)
    pipeline.text_encoder.to(device())
    return pipeline


def export(pipeline: StableDiffusionPipeline, folder: Path) -> None:
    """Writes the pipeline in fp16 as safetensors, as stock diffusers loads it, and the words that it knows."""
    pipeline.to(torch.float16).save_pretrained(folder, safe_serialization=True)
    for config in folder.rglob("*.json"):
        facts = json.loads(config.read_text(encoding="utf-8"))
        if facts.pop(LOADED_FROM, None) is not None:  # a folder of whoever trained it
            config.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    words = sorted({word for phrase in vocabulary() for word in LETTERS.findall(phrase)})
    (folder / VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")


def encoded(vae: AutoencoderKL, images: torch.Tensor) -> torch.Tensor:
    """The means of the latents [B, 4, h/8, w/8], not scaled, of images [B, 3, h, w], -1..1."""
    return cast(Any, vae).encode(images).latent_dist.mode()


def decoded(vae: AutoencoderKL, latents: torch.Tensor) -> torch.Tensor:
    """Images [B, 3, h, w], about -1..1, of latents [B, 4, h/8, w/8] that are not scaled."""
    return cast(Any, vae).decode(latents).sample
