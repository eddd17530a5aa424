"""swap_rows in plain torch."""

from __future__ import annotations

from torch import Tensor

from kernels.registry import register


@register("swap_rows", "torch")
def swap_rows(base: Tensor, active: Tensor, rows: Tensor) -> None:
    old = base.index_select(0, active)
    base.index_copy_(0, active, rows)
    rows.copy_(old)
