"""Between pictures and tensors: sizes, padding, masks at pixel and latent resolution, and the final composite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from diffusion_engine.active_rows import pool
from diffusion_engine.errors import EngineError, UserError

Pixels = NDArray[np.uint8]


def padded(size: tuple[int, int], multiple: int) -> tuple[int, int]:
    """(width, height) rounded up to multiples."""
    return -(-size[0] // multiple) * multiple, -(-size[1] // multiple) * multiple


def picture_tensor(picture: Image.Image, size: tuple[int, int], device: torch.device) -> Tensor:
    """RGB picture -> fp32 [1, 3, H, W] in -1..1, its right and bottom edges repeated up to `size` (width, height)."""
    pixels = torch.from_numpy(np.array(picture.convert("RGB"))).to(device)
    planes = pixels.permute(2, 0, 1)[None].float().div_(127.5).sub_(1)
    return F.pad(planes, (0, size[0] - picture.width, 0, size[1] - picture.height), mode="replicate")


def tensor_pixels(planes: Tensor, size: tuple[int, int]) -> list[Pixels]:
    """[B, 3, H, W] about -1..1 -> B arrays uint8 [height, width, 3], cropped to `size`; refuses non-finite values."""
    cropped = planes[..., : size[1], : size[0]].float()
    if not torch.isfinite(cropped).all():
        raise EngineError("The model made values that are not numbers; try dtype fp32, or another seed.")
    levels = cropped.add(1).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)
    return [np.ascontiguousarray(one.permute(1, 2, 0).cpu().numpy()) for one in levels]


def mask_array(mask: Any, size: tuple[int, int], what: str) -> Pixels:
    """A mask as uint8 [H, W]. Takes a PIL picture (converted to "L"), or an array of uint8, bool, or floats in 0..1.

    Raises UserError, naming both sizes, when it is not of the picture's size.
    """
    if isinstance(mask, Image.Image):
        array = np.array(mask.convert("L"))
    else:
        array = np.asarray(mask)
        if array.dtype == np.bool_ or np.issubdtype(array.dtype, np.floating):
            if not np.isfinite(array).all() or array.min(initial=0) < 0 or array.max(initial=0) > 1:
                raise UserError(f"The {what} must hold values from 0 to 1, or 8-bit ones from 0 to 255.")
            array = np.rint(array.astype(np.float32) * 255).astype(np.uint8)
        elif array.dtype != np.uint8:
            raise UserError(f"The {what} must be 8-bit, boolean or floats from 0 to 1, not {array.dtype}.")
    if array.ndim != 2 or array.shape != (size[1], size[0]):
        got = " x ".join(str(n) for n in array.shape[::-1])
        raise UserError(
            f"The {what} is {got} pixels and the picture {size[0]} x {size[1]}; they must be the same size."
        )
    return array


def padded_mask(mask: Pixels, size: tuple[int, int]) -> Pixels:
    """uint8 [H, W] with zeros on the right and below, up to `size` (width, height)."""
    return np.pad(mask, ((0, size[1] - mask.shape[0]), (0, size[0] - mask.shape[1])))


def latent_mask(mask: Pixels, padded_size: tuple[int, int], scale: int) -> NDArray[np.float32]:
    """uint8 [H, W] -> fp32 [h, w] in 0..1 by maximum over each latent cell, so that a single pixel survives.

    scale: pixels per side of a cell, a power of 2 that divides the padded size (width, height)
    """
    cells = padded_mask(mask, padded_size)
    for _ in range(scale.bit_length() - 1):
        cells = pool(cells)
    return cells.astype(np.float32) / np.float32(255)


def psnr(a: Pixels, b: Pixels, where: NDArray[np.bool_]) -> float:
    """Peak signal-to-noise ratio in dB of two pictures [H, W, 3] where asked; infinite where they are equal."""
    mean_square = float(((a[where].astype(float) - b[where]) ** 2).mean())
    return 10 * math.log10(255**2 / mean_square) if mean_square else math.inf


def composite(parent: Pixels, new: Pixels, blend: Pixels) -> Pixels:
    """The parent's pixels, with the new ones mixed in by the blend mask; where it is 0 not a bit changes."""
    mixed = parent.copy()
    touched = blend > 0
    alpha = blend[touched].astype(np.float32)[:, None] / 255
    blended = parent[touched] * (1 - alpha) + new[touched] * alpha
    mixed[touched] = np.rint(blended).astype(np.uint8)
    return mixed
