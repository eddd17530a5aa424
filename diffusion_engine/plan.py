"""Plans: for one mask, the active rows of every level and the neighbour tables of every convolution.

The exact receptive field of a UNet is the whole map, so the field is truncated on purpose: at each level the mask is
max-pooled and grown by a few rows (`PlanPolicy.grow`). What the truncation costs is measured by `deltabrush eval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch.nn.functional as F
from torch import Tensor

from diffusion_engine.errors import UserError
from kernels import Taps
from kernels.conv_rows.taps import build_taps


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
class Level:
    """One resolution under a plan. active: int64 [M], row-major indices of the recomputed rows, ascending."""

    shape: tuple[int, int]
    active: Tensor

    @property
    def rows(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def fraction(self) -> float:
        return self.active.numel() / self.rows

    @cached_property
    def same(self) -> Taps:
        """Taps of a 3x3 convolution at this level."""
        return build_taps(self.active, self.shape, self.active, self.shape)

    def down_from(self, finer: Level, pad_before: int) -> Taps:
        """Taps of a stride-2 convolution from the next finer level."""
        return build_taps(self.active, self.shape, finer.active, finer.shape, stride=2, pad_before=pad_before)

    def up_from(self, coarser: Level) -> Taps:
        """Taps of a convolution over the next coarser level enlarged by nearest neighbour."""
        return build_taps(self.active, self.shape, coarser.active, coarser.shape, upsample=2)


@dataclass(frozen=True)
class Plan:
    """Levels, finest first, with the taps between neighbours. `levels[i]` is half the size of `levels[i - 1]`."""

    levels: tuple[Level, ...]
    pad_before: int = 1

    @property
    def empty(self) -> bool:
        return self.levels[0].active.numel() == 0

    @property
    def active_fractions(self) -> list[float]:
        return [level.fraction for level in self.levels]

    @cached_property
    def down(self) -> tuple[Taps, ...]:
        """down[i]: from level i to level i + 1."""
        pairs = zip(self.levels, self.levels[1:], strict=False)
        return tuple(coarse.down_from(fine, self.pad_before) for fine, coarse in pairs)

    @cached_property
    def up(self) -> tuple[Taps, ...]:
        """up[i]: from level i + 1 to level i."""
        pairs = zip(self.levels, self.levels[1:], strict=False)
        return tuple(fine.up_from(coarse) for fine, coarse in pairs)


def pool(mask: Tensor) -> Tensor:
    """bool [H, W] -> bool [H / 2, W / 2]: true where any of the four is. A 1-row mask survives. H and W are even."""
    rows = mask[0::2] | mask[1::2]
    return rows[:, 0::2] | rows[:, 1::2]


def grow(mask: Tensor, rows: int) -> Tensor:
    """bool [H, W]: true within `rows` (Chebyshev distance) of a true row."""
    for axis in (0, 1):
        for _ in range(min(rows, mask.shape[axis] - 1)):
            rest = mask.shape[axis] - 1
            wider = mask.clone()
            wider.narrow(axis, 1, rest).logical_or_(mask.narrow(axis, 0, rest))
            wider.narrow(axis, 0, rest).logical_or_(mask.narrow(axis, 1, rest))
            mask = wider
    return mask


def round_to_tiles(mask: Tensor, side: int) -> Tensor:
    """bool [H, W]: true in every side x side tile that has a true row."""
    if side == 1:
        return mask
    tiles = F.max_pool2d(mask[None].float(), side, ceil_mode=True)
    height, width = mask.shape
    return F.interpolate(tiles[None], scale_factor=side)[0, 0, :height, :width].bool()


def _level(mask: Tensor) -> Level:
    return Level((mask.shape[0], mask.shape[1]), mask.flatten().nonzero().squeeze(1))


def _checked(mask: Tensor, levels: int) -> Tensor:
    step = 2 ** (levels - 1)
    if mask.ndim != 2 or mask.shape[0] % step or mask.shape[1] % step:
        raise UserError(f"A plan needs a mask [h, w] with sides divisible by {step}; this one is {list(mask.shape)}.")
    return mask.bool()


def plan_pyramid(mask: Tensor, levels: int, policy: PlanPolicy, *, pad_before: int = 1) -> Plan:
    """Plan of a network whose finest level is the mask's: a UNet, or an encoder.

    mask: bool [h, w] at the finest level, sides divisible by 2 ** (levels - 1)
    """
    pooled = [_checked(mask, levels)]
    while len(pooled) < levels:
        pooled.append(pool(pooled[-1]))
    return plan_from_masks(pooled, policy, pad_before=pad_before)


def plan_from_masks(masks: Sequence[Tensor], policy: PlanPolicy, *, pad_before: int = 1) -> Plan:
    """Plan with the given wanted rows per level, finest first, each grown and rounded to tiles by the policy."""
    grown: list[Level] = []
    for index, mask in enumerate(masks):
        rows, tile = policy.at(index)
        grown.append(_level(round_to_tiles(grow(mask, rows), tile)))
    return Plan(tuple(grown), pad_before)
