"""Group sums of rows, the raw material of delta GroupNorm statistics; see `norm_sums`."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.norm_sums import reference
from kernels.registry import select

__all__ = ["norm_sums", "norm_sums_per_row", "reference"]


def norm_sums(rows: Tensor, center: Tensor) -> Tensor:
    """Group sums of x - center and of (x - center)^2 over all given rows.

    rows: [S, M, C]; center: fp32 [S, G], about the mean of each group, so that the sums lose no digits
    Returns fp64 [S, 2 * G]: the G sums, then the G sums of squares. Over all rows of a map they give the mean and the
    variance of GroupNorm (Wu and He 2018, eq. 1) by the shifted two-moment formula (Chan, Golub, LeVeque 1983).
    """
    result: torch.Tensor = select("norm_sums", rows.device)(rows, center)
    return result


def norm_sums_per_row(rows: Tensor, center: Tensor) -> Tensor:
    """The same sums for each row alone: [S, M, C] -> fp32 [S, M, 2 * G]."""
    result: torch.Tensor = select("norm_sums_per_row", rows.device)(rows, center)
    return result
