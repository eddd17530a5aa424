"""Exchange of listed rows; see `swap_rows`."""

from __future__ import annotations

from torch import Tensor

from kernels.registry import select
from kernels.scatter_rows import reference

__all__ = ["reference", "swap_rows"]


def swap_rows(base: Tensor, active: Tensor, rows: Tensor) -> None:
    """Exchanges `rows` with the listed rows of `base`, in place on both sides; doing it twice changes nothing.

    base: [N, C]; active: int64 [M], no row twice; rows: [M, C], of the same dtype as `base`
    """
    select("swap_rows", base.device)(base, active, rows)
