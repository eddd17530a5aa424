"""Noise keyed by place: the same on every device, for every mask, and when a canvas grows."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from diffusion_engine.errors import UserError

TILE = 8  # latent rows and columns per tile
SEEDS = 2**63


def checked_seed(seed: object) -> int:
    """The seed itself; raises UserError unless it is an integer in 0 .. 2**63 - 1."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEEDS:
        raise UserError(f"The seed must be a whole number from 0 to 2^63 - 1, not {seed!r}.")
    return seed


def tile_noise(seed: int, shape: tuple[int, int], channels: int = 4) -> Tensor:
    """Standard normal noise, fp32 [1, C, h, w], drawn on the CPU per 8x8 tile from (seed, tile row, tile column).

    A tile's noise depends on nothing else, so a larger canvas begins with the smaller one's noise.
    """
    height, width = shape
    down, across = -(-height // TILE), -(-width // TILE)
    noise = np.empty((channels, down * TILE, across * TILE), np.float32)
    for row in range(down):
        for column in range(across):
            key = hashlib.blake2b(f"{seed}/{row}/{column}".encode(), digest_size=16).digest()
            draw = np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))
            tile = draw.standard_normal((channels, TILE, TILE), np.float32)
            noise[:, row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] = tile
    return torch.from_numpy(noise[None, :, :height, :width].copy())


def step_generator(seed: int) -> torch.Generator:
    """Generator for samplers that draw noise at every step (ancestral ones); on the CPU, for any device."""
    key = hashlib.blake2b(f"{seed}/steps".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
