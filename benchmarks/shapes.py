"""Networks of published shapes with random weights: speed does not depend on what the weights say."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.cache_settings import CacheSettings
from diffusion_engine.model import STARTER, model_of

UNET_SD15: dict[str, Any] = {
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": (320, 640, 1280, 1280),
    "layers_per_block": 2,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
}
VAE_SD15: dict[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "layers_per_block": 2,
    "latent_channels": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
}


def sd15_unet() -> UNet2DConditionModel:
    torch.manual_seed(0)
    return UNet2DConditionModel(**UNET_SD15).eval().requires_grad_(False)


def sd15_vae() -> AutoencoderKL:
    torch.manual_seed(0)
    return AutoencoderKL(**VAE_SD15).eval().requires_grad_(False)


def sd15_engine(caches: CacheSettings | None = None) -> EditableDiffusionEngine:
    """An engine over a whole SD 1.5-shaped model, with the starter's tokenizer and a narrow text encoder."""
    config = CLIPTextConfig(vocab_size=2048, hidden_size=768, num_hidden_layers=2, bos_token_id=0, eos_token_id=1)
    pipeline = StableDiffusionPipeline(
        vae=sd15_vae(),
        unet=sd15_unet(),
        text_encoder=CLIPTextModel(config).eval(),
        tokenizer=CLIPTokenizer.from_pretrained(STARTER / "tokenizer", model_max_length=77),
        scheduler=DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False),  # pyright: ignore[reportArgumentType]
        safety_checker=None,  # pyright: ignore[reportArgumentType]
        feature_extractor=None,  # pyright: ignore[reportArgumentType]
        requires_safety_checker=False,
    )
    model = model_of(pipeline, "sd15-shape", torch.device("cpu"), torch.float32)
    return EditableDiffusionEngine.of_model(model, caches)
