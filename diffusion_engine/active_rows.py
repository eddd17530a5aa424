"""Active rows: which rows of each level an edit recomputes, as boolean arrays. What comes of them is in `plan.py`.

The exact receptive field of a UNet is the whole map, so the field is truncated on purpose: at each level the mask is
max-pooled and grown by a few rows (`PlanPolicy.grow`). What the truncation costs is measured by `deltabrush eval`.

In numpy, so that a mask can be judged on any thread while the compute thread works: torch would start a second team of
OpenMP workers for the caller's thread, and slow the first (see `compute_thread.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from diffusion_engine.errors import UserError

Mask = NDArray[np.bool_]
MaskLike = Mask | Tensor
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class PlanPolicy:
    """How far the plan reaches beyond the mask.

    grow: rows added around the pooled mask per level, finest first; the last entry serves all deeper levels
    tile: side of the square tiles that active rows are rounded up to, per level in the same way
    """

    grow: tuple[int, ...] = (1,)
    tile: tuple[int, ...] = (1,)

    def at(self, level: int) -> tuple[int, int]:
        return self.grow[min(level, len(self.grow) - 1)], self.tile[min(level, len(self.tile) - 1)]


@dataclass(frozen=True)
class ActiveRows:
    """The recomputed rows of every level, finest first. masks: bool [h, w] each, half the size of the one before."""

    masks: tuple[Mask, ...]

    @staticmethod
    def of(wanted: Sequence[Mask], policy: PlanPolicy) -> ActiveRows:
        """The wanted rows per level, each grown and rounded to tiles by the policy."""
        reach = [policy.at(level) for level in range(len(wanted))]
        pairs = zip(wanted, reach, strict=True)
        return ActiveRows(tuple(round_to_tiles(grow(mask, rows), tile) for mask, (rows, tile) in pairs))

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return [(mask.shape[0], mask.shape[1]) for mask in self.masks]

    @cached_property
    def counts(self) -> list[int]:
        return [int(np.count_nonzero(mask)) for mask in self.masks]

    @property
    def fractions(self) -> list[float]:
        return [count / mask.size for count, mask in zip(self.counts, self.masks, strict=True)]


def as_mask(mask: MaskLike) -> Mask:
    """A mask [h, w] of any number type, on any device, as a boolean array."""
    return np.asarray(mask.cpu() if isinstance(mask, Tensor) else mask).astype(np.bool_, copy=False)


def pyramid(mask: MaskLike, levels: int) -> list[Mask]:
    """A mask [h, w] of the finest level, max-pooled to each of `levels`; UserError unless its sides halve evenly."""
    step = 2 ** (levels - 1)
    finest = as_mask(mask)
    if finest.ndim != 2 or finest.shape[0] % step or finest.shape[1] % step:
        raise UserError(f"A plan needs a mask [h, w] with sides divisible by {step}; this one is {list(finest.shape)}.")
    masks = [finest]
    while len(masks) < levels:
        masks.append(pool(masks[-1]))
    return masks


def pool(values: NDArray[Number]) -> NDArray[Number]:
    """[H, W] -> [H / 2, W / 2]: the largest of each four, so that a mask of one row survives. H and W are even."""
    rows: NDArray[Number] = np.maximum(values[0::2], values[1::2])
    return np.maximum(rows[:, 0::2], rows[:, 1::2])


def grow(mask: Mask, rows: int) -> Mask:
    """bool [H, W]: true within `rows` (Chebyshev distance) of a true row."""
    for axis in (0, 1):
        for _ in range(min(rows, mask.shape[axis] - 1)):
            wider = mask.copy()
            target, source = wider.swapaxes(0, axis), mask.swapaxes(0, axis)
            target[1:] |= source[:-1]
            target[:-1] |= source[1:]
            mask = wider
    return mask


def round_to_tiles(mask: Mask, side: int) -> Mask:
    """bool [H, W]: true in every side x side tile that has a true row."""
    if side == 1:
        return mask
    height, width = mask.shape
    whole = np.pad(mask, ((0, -height % side), (0, -width % side)))
    tiles = whole.reshape(whole.shape[0] // side, side, whole.shape[1] // side, side).any((1, 3))
    return tiles.repeat(side, 0).repeat(side, 1)[:height, :width]
