"""conv_rows in plain torch: gather the nine neighbours, one matrix product. Also the fast path on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv_rows.taps import Taps
from kernels.registry import register

# The gathered neighbours [rows, 9 * Cin] are made in pieces that stay in the last-level cache: a whole 9x buffer costs
# as much as its product, a piece a tenth of that. Products want at least a few hundred rows.
_PIECE_BYTES = 6 << 20
_PIECE_ROWS = 256


@register("conv_rows", "torch")
def conv_rows(
    active: Tensor,
    base: Tensor,
    taps: Taps,
    weight: Tensor,
    bias: Tensor,
    branch_of: tuple[int, ...],
    affine: tuple[Tensor, Tensor] | None,
    silu: bool,
    residual: Tensor | None,
) -> Tensor:
    segments, _, channels_in = active.shape
    channels_out, out_rows = weight.shape[0], taps.table.shape[0]
    source = _source(active, base, taps, branch_of, affine, silu).view(-1, channels_in)  # [S * (M + H + 1), Cin]
    matrix = weight.permute(0, 2, 3, 1).reshape(channels_out, 9 * channels_in).t()  # [9 * Cin, Cout]
    out = _prefilled(bias, residual, segments, out_rows, channels_out, active).view(-1, channels_out)

    table, total = taps.flat_table(segments), segments * out_rows
    piece = max(_PIECE_ROWS, _PIECE_BYTES // (9 * channels_in * active.element_size()))
    columns = active.new_empty(min(piece, total) * 9, channels_in)
    for start in range(0, total, piece):
        rows = min(piece, total - start)
        part = columns[: rows * 9]
        torch.index_select(source, 0, table[start * 9 : (start + rows) * 9], out=part)
        out[start : start + rows].addmm_(part.view(rows, 9 * channels_in), matrix)
    return out.view(segments, out_rows, channels_out)


def _source(
    active: Tensor,
    base: Tensor,
    taps: Taps,
    branch_of: tuple[int, ...],
    affine: tuple[Tensor, Tensor] | None,
    silu: bool,
) -> Tensor:
    """[S, M + H + 1, Cin]: active rows, halo rows and the zero row, normalised and activated but for the zero row."""
    segments, rows, channels = active.shape
    source = active.new_empty(segments, taps.rows_per_segment, channels)
    source[:, -1] = 0
    filled, live, halo = source[:, :-1], source[:, :rows], source[:, rows:-1]
    if taps.halo.numel():
        gathered = base.index_select(1, taps.halo)  # [B, H, Cin]
        for segment, branch in enumerate(branch_of):
            halo[segment].copy_(gathered[branch])
    if affine is None:
        live.copy_(active)
    else:
        scale, shift = affine[0].unsqueeze(1), affine[1].unsqueeze(1)  # [S, 1, Cin]
        torch.addcmul(shift, active, scale, out=live)
        halo.mul_(scale).add_(shift)
    if silu:
        F.silu(filled, inplace=True)
    return source


def _prefilled(bias: Tensor, residual: Tensor | None, segments: int, rows: int, channels: int, like: Tensor) -> Tensor:
    """What the products are added to: bias, or bias plus residual in the residual's own memory. [S, Mout, Cout]"""
    per_segment = bias.view(-1, 1, channels)  # [1 or S, 1, Cout]
    if residual is not None:
        return residual.add_(per_segment)
    return like.new_empty(segments, rows, channels).copy_(per_segment.expand(segments, rows, channels))
