"""A small text-to-image pipeline with random weights, and a pool of noise in place of pictures."""

from __future__ import annotations

import torch
from diffusers import DPMSolverMultistepScheduler, StableDiffusionPipeline
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from tests.engine.small_models import small_unet, small_vae
from training.latent_pool import Batch
from training.tokenizer import POSITIONS


def small_encoder(entries: int = 64, positions: int = POSITIONS) -> CLIPTextModel:
    torch.manual_seed(5)
    config = CLIPTextConfig(
        vocab_size=entries,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=positions,
        bos_token_id=0,
        eos_token_id=1,
    )
    return CLIPTextModel(config).eval()


def small_pipeline(tokenizer: CLIPTokenizer) -> StableDiffusionPipeline:
    return StableDiffusionPipeline(
        vae=small_vae(),
        unet=small_unet("sd1", layers_per_block=1).requires_grad_(True),
        text_encoder=small_encoder(len(tokenizer)),
        tokenizer=tokenizer,
        scheduler=DPMSolverMultistepScheduler(prediction_type="v_prediction", beta_schedule="scaled_linear"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


class RandomPool:
    """Batches of noise; in the left half of each an object. `asked`: the frames and batches that were asked for."""

    asked: list[tuple[int, int]]

    def __init__(self, vae: object, frame: int, *_: object) -> None:
        self._frame = frame

    def draw(self, batch: int) -> Batch:
        self.asked.append((self._frame, batch))
        objects = torch.zeros(batch, self._frame, self._frame)
        objects[:, :, : self._frame // 2] = 1
        return Batch(torch.randn(batch, 4, self._frame, self._frame), objects, ["a cat", "two dogs"] * (batch // 2))
