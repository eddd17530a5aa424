"""Networks of published shapes with random weights: speed does not depend on what the weights say."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel

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
