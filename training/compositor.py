"""Draws layouts into pictures, many at once, on the CPU or on an accelerator.

Backgrounds and cut-outs are tensors on the device: a picture costs a few bilinear samplings and no Python drawing.
Colours are composited with premultiplied alpha, from a pyramid of halved cut-outs so that small ones do not flicker.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from training.backgrounds import Background
from training.colours import PAINTS, recoloured
from training.layouts import Layout, Placed
from training.objects import cutouts, objects

SIDE = 160  # pixels of a cut-out's longest side
MARGIN = 8
LEVELS = 4
SHADOW = (0.06, 0.07, 0.1)
SHADOW_STRENGTH = 0.42


@dataclass(frozen=True)
class Pictures:
    """images: [B, 3, s, s], 0..1. alphas: [B, n, s, s], how much of each object is seen; zeros where there is none."""

    images: torch.Tensor
    alphas: torch.Tensor


class Compositor:
    """Composes on one device. backgrounds: those that a layout's index may name, all of one size."""

    def __init__(self, backgrounds: Sequence[Background], device: torch.device | str = "cpu") -> None:
        self._backgrounds = torch.stack([_pixels(background) for background in backgrounds]).to(device)  # [K, 3, S, S]
        self._lights = torch.tensor(np.stack([background.light for background in backgrounds]), device=device)
        self._pyramid, self._extents, self._index = _cutout_pyramid(torch.device(device))
        self._device = torch.device(device)

    def replace(self, index: int, background: Background) -> None:
        self._backgrounds[index] = _pixels(background).to(self._device)
        self._lights[index] = torch.tensor(background.light, device=self._device)

    def compose(self, chosen: Sequence[int], layouts: Sequence[Layout], side: int) -> Pictures:
        """Pictures of `side` pixels: layout i on the background of index chosen[i]."""
        windows = torch.tensor([(one.left, one.top, one.side) for one in layouts], device=self._device)
        index = torch.tensor(chosen, device=self._device)
        axis = (torch.arange(side, device=self._device) + 0.5) / side
        y, x = torch.meshgrid(axis, axis, indexing="ij")  # [s, s], fractions of the frame
        left, top, width = (part[:, None, None] for part in windows.unbind(1))
        grid = torch.stack((left + x * width, top + y * width), -1) * 2 - 1  # [B, s, s, 2]
        images = F.grid_sample(self._backgrounds[index].float() / 255, grid, padding_mode="border", align_corners=False)
        lights = self._lights[index]
        most = max((len(one.objects) for one in layouts), default=0)
        alphas = torch.zeros(len(layouts), max(most, 1), side, side, device=self._device)
        for layer in range(most):
            rows = [i for i, one in enumerate(layouts) if len(one.objects) > layer]
            placed = [layouts[i].objects[layer] for i in rows]
            here = torch.tensor(rows, device=self._device)
            below, seen = self._draw(images[here], lights[here], placed, x, y)
            images[here] = below
            alphas[here] *= 1 - seen[:, None]
            alphas[here, layer] = seen
        return Pictures(images.clamp(0, 1), alphas)

    def _draw(
        self, images: torch.Tensor, lights: torch.Tensor, placed: Sequence[Placed], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """images [b, 3, s, s] with one object more on each, and the objects' alphas [b, s, s]."""
        side = images.shape[-1]
        numbers = [(p.x, p.y, p.size, math.radians(p.degrees), -1.0 if p.mirrored else 1.0, p.stands) for p in placed]
        table = torch.tensor(numbers, dtype=torch.float32, device=self._device)
        cx, cy, size, turn, flip, stands = (column[:, None, None] for column in table.unbind(1))
        cutout = torch.tensor([self._index[p.thing.name, p.paint] for p in placed], device=self._device)
        wide, high = (part[:, None, None] * size for part in self._extents[cutout].unbind(1))  # of the frame
        shadow = torch.exp(
            -(((x - cx) / (0.36 * wide)) ** 2) - ((y - cy - high / 2 + 0.008) / (0.06 * high + 0.008)) ** 2
        )
        shadow = (SHADOW_STRENGTH * stands * shadow)[:, None]
        images = images * (1 - shadow) + shadow * torch.tensor(SHADOW, device=self._device)[:, None, None]
        u, v = x - cx, y - cy
        scale = SIDE / (SIDE + 2 * MARGIN) * 2 / size
        across, down = (u * turn.cos() + v * turn.sin()) * scale * flip, (v * turn.cos() - u * turn.sin()) * scale
        grid = torch.stack((across, down), -1)  # [b, s, s, 2]
        levels = [_level(p.size * side) for p in placed]
        sampled = torch.empty(len(placed), 4, side, side, device=self._device)
        for level in set(levels):
            rows = torch.tensor([i for i, one in enumerate(levels) if one == level], device=self._device)
            pixels = self._pyramid[level][cutout[rows]].float() / 255
            sampled[rows] = F.grid_sample(pixels, grid[rows], padding_mode="zeros", align_corners=False)
        alpha = sampled[:, 3:]
        return images * (1 - alpha) + sampled[:, :3] * _on_objects(lights)[:, :, None, None], alpha[:, 0]


def _pixels(background: Background) -> torch.Tensor:
    return torch.from_numpy(np.uint8(background.image * 255 + 0.5)).permute(2, 0, 1)


def _on_objects(lights: torch.Tensor) -> torch.Tensor:
    """Light on objects, [b, 3]: daylight tints them little, night darkens them."""
    day = (lights[:, :1] > 0.8).float()
    return day * (0.25 * lights + 0.75) + (1 - day) * (0.6 * lights + 0.4)


def _level(pixels: float) -> int:
    """The level of the pyramid whose cut-out is between one and two times as large as it is drawn."""
    return min(max(int(math.log2(SIDE / max(pixels, 1))), 0), LEVELS - 1)


@cache  # a run has a compositor for each frame size, and they all read these 120 MB
def _cutout_pyramid(
    device: torch.device,
) -> tuple[list[torch.Tensor], torch.Tensor, dict[tuple[str, str | None], int]]:
    """Levels of premultiplied RGBA [N, 4, s, s] uint8, the extents [N, 2] (width, height over the longest side), and
    the index of each (name, paint)."""
    pictures = cutouts()
    keys = [(thing.name, paint) for thing in objects() for paint in (None, *(PAINTS if thing.recolour else ()))]
    drawn = [_fitted(recoloured(pictures[name], paint) if paint else pictures[name]) for name, paint in keys]
    base = torch.from_numpy(np.stack([pixels for pixels, _ in drawn])).permute(0, 3, 1, 2).float().to(device)
    levels = [F.avg_pool2d(base, 2**k) if k else base for k in range(LEVELS)]
    extents = torch.tensor([extent for _, extent in drawn], device=device)
    return [(level + 0.5).to(torch.uint8) for level in levels], extents, {key: i for i, key in enumerate(keys)}


def _fitted(cutout: Image.Image) -> tuple[np.ndarray, tuple[float, float]]:
    """Premultiplied pixels uint8 [SIDE + 2 MARGIN, same, 4] with the cut-out in the middle, and its extent."""
    scale = SIDE / max(cutout.size)
    width, height = (max(1, round(side * scale)) for side in cutout.size)
    pixels = np.asarray(cutout.convert("RGBa").resize((width, height), Image.Resampling.HAMMING))
    whole = np.zeros((SIDE + 2 * MARGIN, SIDE + 2 * MARGIN, 4), np.uint8)
    top, left = (len(whole) - height) // 2, (len(whole) - width) // 2
    whole[top : top + height, left : left + width] = pixels
    return whole, (width / SIDE, height / SIDE)
