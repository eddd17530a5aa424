"""conv_rows in plain torch: gather the nine neighbours, one matrix product. Also the fast path on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv_rows.taps import Taps
from kernels.product_rows import product_rows
from kernels.registry import register
from kernels.stored_rows import StoredRows

# The gathered neighbours [rows, 9 * Cin] are made in pieces that stay in the last-level cache: a whole 9x buffer costs
# as much as its product, a piece a tenth of that. Products want at least a few hundred rows.
_PIECE_BYTES = 12 << 20
_PIECE_ROWS = 256
# A convolution packs its weight anew at each call; from here on that costs less than gathering nine neighbours.
_BOX_ROWS = 640


@register("conv_rows", "torch")
def conv_rows(
    active: Tensor,
    base: StoredRows,
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
    box = taps.box if segments * out_rows >= _BOX_ROWS else None
    shared_bias = bias.flatten() if bias.numel() == channels_out else None
    if box is not None and box.source is not None:
        rows = _normalised(active, affine, torch.empty_like(active))
        out = _convolved(F.silu(rows, inplace=True) if silu else rows, box.source, weight, shared_bias, box.stride, 1)
    else:
        source = _source(active, base, taps, branch_of, affine, silu)  # [S, M + H + 1, Cin]
        stacked = source.view(-1, channels_in)
        if box is not None:
            window = stacked.index_select(0, taps.stacked(box.window, segments)).view(segments, -1, channels_in)
            out = _convolved(window, box.shape, weight, shared_bias, box.stride, 0)
        else:
            out = _gathered(stacked, taps.stacked(taps.table, segments), weight, shared_bias)
            out = out.view(segments, out_rows, channels_out)
    if shared_bias is None:
        out.add_(bias.unsqueeze(1))
    return out if residual is None else residual.add_(out)


def _convolved(
    rows: Tensor, shape: tuple[int, int], weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> Tensor:
    """An ordinary convolution over a map that is whole, or the window of a filled rectangle: [S, Mout, Cout]."""
    maps = rows.view(rows.shape[0], *shape, -1).permute(0, 3, 1, 2)  # channels-last
    out = F.conv2d(maps, weight, bias, stride, padding)
    return out.permute(0, 2, 3, 1).reshape(rows.shape[0], -1, weight.shape[0])


def _gathered(source: Tensor, table: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product of each output row's nine neighbours with the weight: [S * Mout, Cout]."""
    channels_out, channels_in = weight.shape[:2]
    total = table.numel() // 9
    matrix = weight.permute(0, 2, 3, 1).reshape(channels_out, 9 * channels_in)
    out = source.new_empty(total, channels_out)
    piece = max(1, min(total, max(_PIECE_ROWS, _PIECE_BYTES // (9 * channels_in * source.element_size()))))
    columns = source.new_empty(piece * 9, channels_in)
    for start in range(0, total, piece):
        rows = min(piece, total - start)
        part = columns[: rows * 9]
        torch.index_select(source, 0, table[start * 9 : (start + rows) * 9], out=part)
        out[start : start + rows] = product_rows(part.view(rows, 9 * channels_in), matrix, bias)
    return out


def _normalised(rows: Tensor, affine: tuple[Tensor, Tensor] | None, out: Tensor) -> Tensor:
    """rows * scale + shift in `out`, which may be `rows` itself: [S, R, Cin]."""
    if affine is None:
        return out if out is rows else out.copy_(rows)
    return torch.addcmul(affine[1].unsqueeze(1), rows, affine[0].unsqueeze(1), out=out)


def _source(
    active: Tensor,
    base: StoredRows,
    taps: Taps,
    branch_of: tuple[int, ...],
    affine: tuple[Tensor, Tensor] | None,
    silu: bool,
) -> Tensor:
    """[S, M + H + 1, Cin]: active rows, halo rows and the zero row, normalised and activated but for the zero row."""
    segments, rows, channels = active.shape
    source = active.new_empty(segments, taps.rows_per_segment, channels)
    live, halo, filled = source[:, :rows], source[:, rows:-1], source[:, :-1]
    base.gather_into(halo, taps.halo, branch_of)
    _normalised(active, affine, live)
    _normalised(halo, affine, halo)
    if silu:
        F.silu(filled, inplace=True)
    source[:, -1] = 0
    return source
