"""Small networks of the shapes that the engine supports, with random weights made from a seed."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor

_SD_BLOCKS: dict[str, Any] = {
    "block_out_channels": (32, 64, 64, 64),
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
}
UNETS: dict[str, dict[str, Any]] = {
    "sd1": {**_SD_BLOCKS, "cross_attention_dim": 32, "attention_head_dim": 4},
    "sd2": {
        **_SD_BLOCKS,
        "cross_attention_dim": 48,
        "attention_head_dim": (2, 4, 4, 4),
        "use_linear_projection": True,
        "upcast_attention": True,
    },
    "sdxl": {
        "block_out_channels": (32, 64, 64),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": 48,
        "attention_head_dim": (2, 4, 4),
        "use_linear_projection": True,
        "transformer_layers_per_block": (1, 2, 3),
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 6 * 8 + 20,
    },
}


def small_unet(kind: str, **changes: Any) -> UNet2DConditionModel:
    """A UNet of the kind, in eval mode. Odd channel counts per group make norm groups straddle the concatenations."""
    torch.manual_seed(1)
    config = {"sample_size": 32, "norm_num_groups": 16, "layers_per_block": 2, **UNETS[kind], **changes}
    return UNet2DConditionModel(**config).eval().requires_grad_(False)


def small_vae(**changes: Any) -> AutoencoderKL:
    """An f8 KL autoencoder, in eval mode."""
    torch.manual_seed(2)
    config: dict[str, Any] = {
        "block_out_channels": (16, 32, 32, 32),
        "norm_num_groups": 8,
        "layers_per_block": 2,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "latent_channels": 4,
    }
    return AutoencoderKL(**{**config, **changes}).eval().requires_grad_(False)


def unet_inputs(unet: Any, shape: tuple[int, int], batch: int = 2) -> tuple[Tensor, Tensor, dict[str, Tensor] | None]:
    """Latents, text states and added condition."""
    torch.manual_seed(3)
    latents = torch.randn(batch, 4, *shape)
    text = torch.randn(batch, 7, unet.config["cross_attention_dim"])
    if unet.config["addition_embed_type"] is None:
        return latents, text, None
    return latents, text, {"text_embeds": torch.randn(batch, 20), "time_ids": torch.rand(batch, 6) * 100}


def masks(shape: tuple[int, int]) -> dict[str, Tensor]:
    """The hard masks of the exactness tables, bool [h, w]."""
    height, width = shape
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None]
    corners = {
        "top-left": (rows < 2) & (columns < 2),
        "top-right": (rows < 2) & (columns >= width - 2),
        "bottom-left": (rows >= height - 2) & (columns < 2),
        "bottom-right": (rows >= height - 2) & (columns >= width - 2),
    }
    torch.manual_seed(4)
    return {
        "one row": (rows == height // 3) & (columns == width // 3),
        "border": (rows == 0) | (rows == height - 1) | (columns == 0) | (columns == width - 1),
        **corners,
        "scattered strokes": torch.rand(shape) < 0.03,
        "two blobs": ((rows - 8) ** 2 + (columns - 7) ** 2 < 12) | ((rows - 22) ** 2 + (columns - 24) ** 2 < 20),
        "full": torch.ones(shape, dtype=torch.bool),
    }


def relative_rms(value: Tensor, reference: Tensor) -> float:
    """Root mean square of the difference over that of the reference."""
    return ((value - reference).pow(2).mean() / reference.pow(2).mean()).sqrt().item()
