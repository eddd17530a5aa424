"""Neighbour tables: which nine source rows a 3x3 convolution reads for each output row."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class DenseConvolution:
    """The same convolution where every row is active at both levels: an ordinary one over the whole map."""

    source_shape: tuple[int, int]
    stride: int
    upsample: int
    pad_before: int


@dataclass(frozen=True)
class Taps:
    """Nine-neighbour table of one convolution under one plan.

    table: int64 [Mout, 9], positions in [active rows | halo rows | one zero row] of the source level, tap order
           row-major (ky, kx)
    halo:  int64 [H], source rows that are read but not recomputed
    active_rows: M, the number of active rows at the source level
    whole: set where all rows of both levels are active
    """

    table: Tensor
    halo: Tensor
    active_rows: int
    whole: DenseConvolution | None = None
    _flat: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows_per_segment(self) -> int:
        return self.active_rows + self.halo.numel() + 1

    def flat_table(self, segments: int) -> Tensor:
        """int64 [segments * Mout * 9]: the table repeated with each segment's offset into one stacked source."""
        if segments not in self._flat:
            offset = torch.arange(segments, device=self.table.device) * self.rows_per_segment
            self._flat[segments] = (self.table.flatten()[None] + offset[:, None]).flatten()
        return self._flat[segments]


def build_taps(
    out_rows: Tensor,
    out_shape: tuple[int, int],
    source_rows: Tensor,
    source_shape: tuple[int, int],
    *,
    stride: int = 1,
    upsample: int = 1,
    pad_before: int = 1,
) -> Taps:
    """Table of a 3x3 convolution from the source level's rows to `out_rows`.

    out_rows, source_rows: int64 [Mout], [M], row-major indices of the active rows at either level
    stride: 2 for a downsampling convolution; upsample: 2 where the source is first enlarged by nearest neighbour
    pad_before: 1 for symmetric padding, 0 where only the right and the bottom edge are padded (VAE encoders)
    Everything is vectorised and stays on the rows' device.
    """
    device = out_rows.device
    height, width = source_shape
    offsets = torch.arange(3, device=device) - pad_before
    y = (out_rows // out_shape[1])[:, None, None] * stride + offsets[None, :, None]  # [Mout, 3, 1]
    x = (out_rows % out_shape[1])[:, None, None] * stride + offsets[None, None, :]  # [Mout, 1, 3]
    inside = (y >= 0) & (y < height * upsample) & (x >= 0) & (x < width * upsample)  # [Mout, 3, 3]
    source = (y.clamp(0, height * upsample - 1) // upsample) * width + x.clamp(0, width * upsample - 1) // upsample

    place = torch.full((height * width,), -1, dtype=torch.long, device=device)
    place[source_rows] = torch.arange(source_rows.numel(), device=device)
    needed = torch.zeros(height * width, dtype=torch.bool, device=device)
    needed[source[inside]] = True
    halo = (needed & (place < 0)).nonzero().squeeze(1)
    place[halo] = source_rows.numel() + torch.arange(halo.numel(), device=device)

    zero_row = source_rows.numel() + halo.numel()
    table = torch.where(inside, place[source], zero_row).flatten(1)
    everything = source_rows.numel() == height * width and out_rows.numel() == out_shape[0] * out_shape[1]
    whole = DenseConvolution(source_shape, stride, upsample, pad_before) if everything else None
    return Taps(table, halo, source_rows.numel(), whole)
