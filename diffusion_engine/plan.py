"""Plans: the active rows of every level as index tensors, with the neighbour tables of every convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from diffusion_engine.active_rows import ActiveRows, Mask
from kernels import Taps
from kernels.conv_rows.taps import build_taps


@dataclass(frozen=True)
class Level:
    """One resolution under a plan. active: int64 [M], row-major indices of the recomputed rows, ascending."""

    shape: tuple[int, int]
    active: Tensor

    @property
    def rows(self) -> int:
        return self.shape[0] * self.shape[1]

    @staticmethod
    def of(mask: Mask, device: torch.device) -> Level:
        active = torch.from_numpy(np.flatnonzero(mask)).to(device)
        return Level((mask.shape[0], mask.shape[1]), active)

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

    active: ActiveRows
    levels: tuple[Level, ...]
    pad_before: int

    @staticmethod
    def of(active: ActiveRows, device: torch.device, *, pad_before: int = 1) -> Plan:
        """The plan of active rows, with its tensors on a device. pad_before: as in `build_taps`, of the way down."""
        return Plan(active, tuple(Level.of(mask, device) for mask in active.masks), pad_before)

    @property
    def empty(self) -> bool:
        return self.levels[0].active.numel() == 0

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
