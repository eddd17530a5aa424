"""conv_rows in plain torch: gather the nine neighbours, one matrix product. Also the fast path on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv_rows.taps import Box, Taps
from kernels.product_rows import product_rows
from kernels.registry import register

# The gathered neighbours [rows, 9 * Cin] are made in pieces that stay in the last-level cache: a whole 9x buffer costs
# as much as its product, a piece a tenth of that. Products want at least a few hundred rows.
_PIECE_BYTES = 12 << 20
_PIECE_ROWS = 256
# A convolution packs its weight anew at each call; from here on that costs less than gathering nine neighbours.
_BOX_ROWS = 512


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
    source = _source(active, base, taps, branch_of, affine, silu)  # [S, M + H + 1, Cin]
    stacked, total = source.view(-1, channels_in), segments * out_rows
    if taps.box is not None and total >= _BOX_ROWS:
        return _add(_convolved(stacked, taps, taps.box, segments, weight), bias, residual)
    matrix = weight.permute(0, 2, 3, 1).reshape(channels_out, 9 * channels_in)
    table, out = taps.stacked(taps.table, segments), active.new_empty(total, channels_out)
    piece = max(1, min(total, max(_PIECE_ROWS, _PIECE_BYTES // (9 * channels_in * active.element_size()))))
    columns = active.new_empty(piece * 9, channels_in)
    for start in range(0, total, piece):
        rows = min(piece, total - start)
        part = columns[: rows * 9]
        torch.index_select(stacked, 0, table[start * 9 : (start + rows) * 9], out=part)
        out[start : start + rows] = product_rows(part.view(rows, 9 * channels_in), matrix)
    return _add(out.view(segments, out_rows, channels_out), bias, residual)


def _convolved(stacked: Tensor, taps: Taps, box: Box, segments: int, weight: Tensor) -> Tensor:
    """An ordinary convolution over the window of a filled rectangle: [S, Mout, Cout]."""
    window = stacked.index_select(0, taps.stacked(box.window, segments))  # [S * h * w, Cin]
    maps = window.view(segments, *box.shape, -1).permute(0, 3, 1, 2)  # channels-last
    out = F.conv2d(maps, weight, None, box.stride)
    return out.permute(0, 2, 3, 1).reshape(segments, -1, weight.shape[0])


def _add(out: Tensor, bias: Tensor, residual: Tensor | None) -> Tensor:
    """The result plus bias ([Cout] or [S, Cout]) and residual; in the residual's memory where there is one."""
    out.add_(bias.view(-1, 1, bias.shape[-1]))
    return out if residual is None else residual.add_(out)


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
