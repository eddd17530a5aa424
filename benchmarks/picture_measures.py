"""How two pictures differ, and whether a border shows: PSNR, SSIM and a seam measure of 8-bit pixels [H, W, 3]."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from diffusion_engine import pictures

Picture = NDArray[Any]
Where = NDArray[np.bool_]
RIM = 16  # pixels
NEAR = 8  # pixels on both sides of a border that its step is compared with


def psnr(a: Picture, b: Picture, where: Where) -> float:
    """Peak signal-to-noise ratio in dB where asked; 99 where they are equal, so that medians stay finite."""
    return min(99.0, pictures.psnr(a, b, where))


def ssim(a: Picture, b: Picture, where: Where) -> float:
    """Structural similarity (Wang et al. 2004) of the grey pictures over 7 x 7 windows, its mean where asked."""
    x, y = (torch.from_numpy(one.mean(2)).float()[None] for one in (a, b))

    def mean(values: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(values, 7, 1, 3, count_include_pad=False)

    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    index = (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return float(index[0][torch.from_numpy(where)].mean())


def widened(where: Where, pixels: int) -> Where:
    """True within `pixels` (Chebyshev distance) of a true pixel."""
    plane = torch.from_numpy(where).float()[None]
    return np.asarray(F.max_pool2d(plane, 2 * pixels + 1, 1, pixels)[0] > 0)


def rim(inside: Where) -> Where:
    """The pixels inside a mask that are within RIM of its outside."""
    return inside & widened(~inside, RIM)


def seam(picture: Picture, inside: Where) -> float:
    """How much a mask's border stands out: the mean step between neighbours across the border, over the mean step
    between neighbours on either side within NEAR pixels of it. 1: it does not show. NaN for a mask with no border."""
    planes, near = picture.astype(np.float32), widened(inside, NEAR) & widened(~inside, NEAR)
    across, beside = list[NDArray[Any]](), list[NDArray[Any]]()
    for axis in (0, 1):
        steps = np.abs(np.diff(planes, axis=axis)).mean(2)
        first, second = (np.take(inside, range(i, inside.shape[axis] - 1 + i), axis) for i in (0, 1))
        close = np.take(near, range(inside.shape[axis] - 1), axis)
        across.append(steps[first != second])
        beside.append(steps[(first == second) & close])
    if not any(len(steps) for steps in across):
        return float("nan")
    return float((np.concatenate(across).mean() + 1) / (np.concatenate(beside).mean() + 1))
