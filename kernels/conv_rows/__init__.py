"""3x3 convolution at listed rows only; see `conv_rows`."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.conv_rows import reference
from kernels.conv_rows.taps import Taps
from kernels.registry import select
from kernels.stored_rows import StoredRows, as_stored

__all__ = ["Taps", "conv_rows", "reference"]


def conv_rows(
    active: Tensor,
    base: Tensor | StoredRows,
    taps: Taps,
    weight: Tensor,
    bias: Tensor,
    *,
    branch_of: tuple[int, ...],
    affine: tuple[Tensor, Tensor] | None = None,
    silu: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """Convolves a map at the rows that `taps` lists, reading active rows where there are any and base rows elsewhere.

    active:   [S, M, Cin] rows of the source level recomputed in this pass, one set per segment
    base:     [B, N, Cin] recorded rows of the whole source map, one set per branch; may be kept in another format
    weight:   [Cout, Cin, 3, 3]; channels-last storage is read without a copy
    bias:     [Cout], or [S, Cout] where a time embedding is added per segment
    affine:   scale and shift, [S, Cin] each, applied to every tap before `silu`; taps outside the picture stay zero
    residual: [S, Mout, Cout], added to the result; its memory is reused for the output
    Returns [S, Mout, Cout].
    """
    run = select("conv_rows", active.device)
    result: torch.Tensor = run(active, as_stored(base), taps, weight, bias, branch_of, affine, silu, residual)
    return result
