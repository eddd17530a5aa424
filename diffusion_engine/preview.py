"""Previews while denoising: a linear map from latents to colours, fitted to a picture's own latents and pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from diffusion_engine.pictures import Pixels


@dataclass(frozen=True)
class PreviewMap:
    """weights: fp32 [C + 1, 3], the last row is the offset; colours are about -1..1. Works for any VAE."""

    weights: Tensor

    @staticmethod
    def fit(latents: Tensor, planes: Tensor) -> PreviewMap:
        """Least squares from latents [1, C, h, w] to the picture [1, 3, 8 h, 8 w] averaged over each latent cell."""
        scale = planes.shape[-1] // latents.shape[-1]
        colours = F.avg_pool2d(planes.float(), scale).flatten(2)[0].T.cpu()  # [h * w, 3]
        rows = latents.float().flatten(2)[0].T.cpu()
        design = torch.cat([rows, torch.ones(len(rows), 1)], 1)
        ridge = 1e-3 * len(rows) * torch.eye(design.shape[1])
        return PreviewMap(torch.linalg.solve(design.T @ design + ridge, design.T @ colours))

    def colours(self, latents: Tensor) -> Tensor:
        """[B, C, h, w] -> fp32 [B, 3, h, w] about -1..1, on the CPU."""
        rows = torch.einsum("bchw,cd->bdhw", latents.float().cpu(), self.weights[:-1])
        return rows + self.weights[-1][None, :, None, None]


class BlendedPreview:
    """Previews of one edit, of the rectangle around a blend mask that shows some: the parent's pixels with the estimate
    shown through it."""

    def __init__(self, colours: PreviewMap, scale: int, parent: Pixels, blend: Pixels) -> None:
        """scale: pixels per latent row; parent: uint8 [H, W, 3]; blend: uint8 [H, W]"""
        self._map, self._scale = colours, scale
        top, bottom, left, right = _bounds(blend)
        self._rows, self._columns = slice(top // scale, -(-bottom // scale)), slice(left // scale, -(-right // scale))
        self.place = left, top, right - left, bottom - top  # what the previews cover
        window = slice(top, bottom), slice(left, right)
        y, x = top - self._rows.start * scale, left - self._columns.start * scale
        self._inside = slice(y, y + bottom - top), slice(x, x + right - left)
        self._alpha = torch.from_numpy(blend[window]).float().div_(255)[..., None]
        self._old = torch.from_numpy(parent[window]).float()

    def picture(self, latents: Tensor) -> Image.Image:
        """From an estimate of the clean latents, [1, C, h, w]; it belongs at `place`."""
        colours = self._map.colours(latents[:, :, self._rows, self._columns]).nan_to_num()
        large = F.interpolate(colours, scale_factor=self._scale, mode="bilinear")[0].permute(1, 2, 0)
        new = large[self._inside].add(1).mul_(127.5).clamp_(0, 255)
        return Image.fromarray(torch.lerp(self._old, new, self._alpha).to(torch.uint8).numpy())


def _bounds(blend: Pixels) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of the part that is not 0."""
    rows, columns = np.flatnonzero(blend.any(1)), np.flatnonzero(blend.any(0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def clean_estimate(scheduler: object, timestep: Tensor, model_input: Tensor, prediction: Tensor) -> Tensor:
    """The clean latents that a guided prediction stands for, [B, C, h, w] (Salimans and Ho 2022, eq. 9).

    model_input is what the UNet saw: of unit variance whatever the sampler's own scaling.
    """
    cumulative = scheduler.alphas_cumprod[int(timestep)].item()  # type: ignore[attr-defined]
    alpha, sigma = cumulative**0.5, (1 - cumulative) ** 0.5
    kind: str = scheduler.config.prediction_type  # type: ignore[attr-defined]
    if kind == "sample":
        return prediction
    if kind == "v_prediction":
        return alpha * model_input - sigma * prediction
    return (model_input - sigma * prediction) / alpha
