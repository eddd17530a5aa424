"""What trainings of a UNet share: frames that grow, latents with captions, noise."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from diffusers import DDPMScheduler, StableDiffusionPipeline
from diffusers.models.attention_processor import AttnProcessor
from torch import nn

from training.latent_pool import Batch, LatentPool
from training.run import Plan, Run
from training.starter import computes_bf16, mixed_precision

OBJECT_WEIGHT = 2.0  # added to the loss of latents that show an object: shapes are the hard part
LATENTS_PER_STEP = 96 * 16**2  # larger frames come in smaller batches, so every step costs about the same
POOL_LATENTS = 4096 * 16**2
REUSE = 8.0  # how often each encoded sample is seen
Curriculum = tuple[tuple[float, dict[int, float]], ...]
"""From which share of the steps on, how often which frame (latents a side) is drawn."""


class DiffusionRun(Run):
    """Trains modules of a pipeline on composed scenes; its text encoder stays as it is."""

    def __init__(
        self,
        pipeline: StableDiffusionPipeline,
        modules: dict[str, nn.Module],
        curriculum: Curriculum,
        plan: Plan,
        folder: Path,
    ) -> None:
        self.pipeline: Any = pipeline
        self.noising: Any = DDPMScheduler.from_config(pipeline.scheduler.config)
        self.kept = self.noising.alphas_cumprod.to(pipeline.device)  # alpha squared, at each time
        if pipeline.device.type == "cpu" and computes_bf16(pipeline.device):
            pipeline.unet.set_attn_processor(AttnProcessor())  # there the fused one is slow backwards in bf16
        pipeline.text_encoder.eval().requires_grad_(False)
        self._curriculum, self._pools = curriculum, dict[int, LatentPool]()
        super().__init__(modules, plan, folder)
        self.modules.train()

    @abstractmethod
    def errors(self, batch: Batch) -> torch.Tensor:
        """Of each latent, [B, f, f]."""

    def loss(self) -> torch.Tensor:
        frames = next(mix for start, mix in reversed(self._curriculum) if self.share >= start)
        frame = int(self.random.choice(list(frames), p=list(frames.values())))
        batch = self._pool(frame).draw(LATENTS_PER_STEP // frame**2)
        return (self.errors(batch) * (1 + OBJECT_WEIGHT * batch.objects)).mean()

    @torch.no_grad()
    def text(self, captions: list[str]) -> torch.Tensor:
        """Encoded captions, [B, positions, C]."""
        tokens = self.pipeline.tokenizer(captions, padding="max_length", truncation=True, return_tensors="pt")
        with mixed_precision(self.pipeline.device):
            return self.pipeline.text_encoder(tokens.input_ids.to(self.pipeline.device))[0].float()

    def _pool(self, frame: int) -> LatentPool:
        if frame not in self._pools:
            seed, size = self.plan.seed + self.step, POOL_LATENTS // frame**2
            self._pools[frame] = LatentPool(self.pipeline.vae, frame, seed, size, REUSE)
        return self._pools[frame]
