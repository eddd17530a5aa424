"""The stream of training samples: a pool of latents, renewed a little with every batch.

Composing and encoding a picture costs about as much as training on it, so each is used a few times, with other noise
and another caption ("data echoing", Choi et al. 2019, arXiv:1907.05550).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL

from training.backgrounds import Background, draw_background
from training.captions import caption
from training.compositor import Compositor
from training.layouts import Arranger, Layout
from training.starter import encoded, mixed_precision

PIXELS_PER_LATENT = 8
BACKGROUNDS = 512
PICTURES_PER_BACKGROUND = 8  # after so many a new background is drawn
FIRST_FRAME = 16  # the frame that the sizes of layouts are meant for
MOST_PIXELS = 512  # of a background
ENCODED_AT_ONCE = 32


@dataclass(frozen=True)
class Batch:
    """latents: [B, 4, f, f], scaled. objects: [B, f, f], 1 where a latent shows an object. captions: B."""

    latents: torch.Tensor
    objects: torch.Tensor
    captions: list[str]


class LatentPool:
    """Samples of one frame size. frame: latents a side. size: samples kept, a multiple of ENCODED_AT_ONCE. reuse: how
    often each is drawn on average. things: chooses the objects."""

    def __init__(
        self,
        vae: AutoencoderKL,
        frame: int,
        seed: int,
        size: int = 8192,
        reuse: float = 4,
        things: Arranger | None = None,
    ) -> None:
        self._vae, self._frame, self._reuse = vae, frame, reuse
        self._random = np.random.default_rng([seed, frame])
        self._arranger = things or Arranger(smaller=min(1.0, (FIRST_FRAME / frame) ** 0.5))
        self._pixels = min(MOST_PIXELS, 2 * frame * PIXELS_PER_LATENT)
        drawn = [draw_background(self._random, self._pixels) for _ in range(BACKGROUNDS)]
        self._compositor = Compositor(drawn, vae.device)
        self._backgrounds = [_facts(background) for background in drawn]
        self._latents = torch.zeros(size, 4, frame, frame, dtype=torch.float16)
        self._objects = torch.zeros(size, frame, frame, dtype=torch.uint8)
        self._made: list[tuple[Layout, Background] | None] = [None] * size
        self._next, self._due, self._composed = 0, 0.0, 0
        while self._next or not self._composed:
            self._renew(ENCODED_AT_ONCE)

    def draw(self, batch: int) -> Batch:
        """A batch drawn at random; renews a part of the pool."""
        self._due += batch / self._reuse
        while self._due >= ENCODED_AT_ONCE:
            self._renew(ENCODED_AT_ONCE)
            self._due -= ENCODED_AT_ONCE
        rows = self._random.choice(len(self._made), batch, replace=False)
        device = self._vae.device
        made = [entry for entry in (self._made[row] for row in rows) if entry]
        captions = [caption(self._random, layout, background) for layout, background in made]
        return Batch(self._latents[rows].float().to(device), self._objects[rows].float().to(device) / 255, captions)

    def _renew(self, count: int) -> None:
        """Replaces the `count` oldest samples."""
        for _ in range(count // PICTURES_PER_BACKGROUND):
            index = int(self._random.integers(BACKGROUNDS))
            drawn = draw_background(self._random, self._pixels)
            self._compositor.replace(index, drawn)
            self._backgrounds[index] = _facts(drawn)
        chosen = self._random.integers(BACKGROUNDS, size=count)
        grounds = [self._backgrounds[index] for index in chosen]
        layouts = [self._arranger.arrange(self._random, ground.place, ground.horizon) for ground in grounds]
        pictures = self._compositor.compose(chosen.tolist(), layouts, self._frame * PIXELS_PER_LATENT)
        rows = [(self._next + i) % len(self._made) for i in range(count)]
        self._latents[rows] = encode(self._vae, pictures.images).half().cpu()
        seen = F.max_pool2d(pictures.alphas.amax(1, keepdim=True), PIXELS_PER_LATENT)[:, 0]
        self._objects[rows] = (seen * 255).to(torch.uint8).cpu()
        for row, layout, ground in zip(rows, layouts, grounds, strict=True):
            self._made[row] = layout, ground
        self._next = (self._next + count) % len(self._made)
        self._composed += count


def _facts(background: Background) -> Background:
    """What captions need of it; the pixels are the compositor's."""
    return replace(background, image=background.image[:0])


@torch.no_grad()
def encode(vae: AutoencoderKL, images: torch.Tensor) -> torch.Tensor:
    """Scaled latents [B, 4, h/8, w/8] of images [B, 3, h, w], 0..1."""
    images = (images * 2 - 1).contiguous(memory_format=torch.channels_last)
    with mixed_precision(images.device):
        latents = encoded(vae, images)
    return latents.float() * vae.config["scaling_factor"]
