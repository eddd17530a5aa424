"""Neighbour tables: which nine source rows a 3x3 convolution reads for each output row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Box:
    """The output rows are a filled rectangle, so an ordinary convolution over a window of the source makes them.

    window: int64 [h * w], positions as in `Taps.table`, row-major; shape: (h, w) of the window
    source: (h, w) of the source map where its rows are all active and all read, with a border of zeros around them
    """

    window: Tensor
    shape: tuple[int, int]
    stride: int
    source: tuple[int, int] | None = None


@dataclass(frozen=True)
class Taps:
    """Nine-neighbour table of one convolution under one plan.

    table: int64 [Mout, 9], positions in [active rows | halo rows | one zero row] of the source level, tap order
           row-major (ky, kx)
    halo:  int64 [H], source rows that are read but not recomputed
    active_rows: M, the number of active rows at the source level
    box: set where the output rows are a filled rectangle
    """

    table: Tensor
    halo: Tensor
    active_rows: int
    box: Box | None = None
    _stacked: dict[tuple[int, int], Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows_per_segment(self) -> int:
        return self.active_rows + self.halo.numel() + 1

    def stacked(self, table: Tensor, segments: int) -> Tensor:
        """int64 [segments * size]: a table repeated with each segment's offset into one stacked source."""
        key = id(table), segments
        if key not in self._stacked:
            offset = torch.arange(segments, device=table.device) * self.rows_per_segment
            self._stacked[key] = (table.flatten()[None] + offset[:, None]).flatten()
        return self._stacked[key]


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
    row, column = out_rows // out_shape[1], out_rows % out_shape[1]

    def source_of(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Source rows of places in the (enlarged) source, and whether each place is inside it."""
        inside = (y >= 0) & (y < height * upsample) & (x >= 0) & (x < width * upsample)
        y, x = y.clamp(0, height * upsample - 1) // upsample, x.clamp(0, width * upsample - 1) // upsample
        return y * width + x, inside

    offsets = torch.arange(3, device=device) - pad_before
    y = row[:, None, None] * stride + offsets[None, :, None]  # [Mout, 3, 1]
    x = column[:, None, None] * stride + offsets[None, None, :]  # [Mout, 1, 3]
    source, inside = source_of(y, x)  # [Mout, 3, 3]

    place = torch.full((height * width,), -1, dtype=torch.long, device=device)
    place[source_rows] = torch.arange(source_rows.numel(), device=device)
    needed = torch.zeros(height * width, dtype=torch.bool, device=device)
    needed[source[inside]] = True
    halo = (needed & (place < 0)).nonzero().squeeze(1)
    place[halo] = source_rows.numel() + torch.arange(halo.numel(), device=device)

    zero_row = source_rows.numel() + halo.numel()
    table = torch.where(inside, place[source], zero_row).flatten(1)
    box = _box(row, column, stride, pad_before, source_of, place, zero_row)
    is_whole = pad_before == upsample == 1 and source_rows.numel() == height * width
    if box is not None and is_whole and out_rows.numel() == out_shape[0] * out_shape[1]:
        box = replace(box, source=source_shape)
    return Taps(table, halo, source_rows.numel(), box)


def _box(
    row: Tensor,
    column: Tensor,
    stride: int,
    pad_before: int,
    source_of: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    place: Tensor,
    zero_row: int,
) -> Box | None:
    """The window of output places that fill their bounding rectangle; None where they do not."""
    if row.numel() == 0:
        return None
    top, left = int(row.min()), int(column.min())
    height, width = int(row.max()) - top + 1, int(column.max()) - left + 1
    if height * width != row.numel():
        return None
    shape = (height - 1) * stride + 3, (width - 1) * stride + 3
    y = torch.arange(shape[0], device=row.device)[:, None] + top * stride - pad_before
    x = torch.arange(shape[1], device=row.device)[None] + left * stride - pad_before
    source, inside = source_of(y, x)  # [h, w]
    return Box(torch.where(inside, place[source], zero_row).flatten(), shape, stride)
