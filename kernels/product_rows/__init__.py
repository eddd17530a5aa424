"""Rows times a layer's weight; see `product_rows`."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.product_rows import reference
from kernels.registry import select

__all__ = ["product_rows", "reference"]


def product_rows(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer: [..., K] rows and a weight [N, K] -> [..., N], plus bias [N]."""
    result: torch.Tensor = select("product_rows", rows.device)(rows, weight, bias)
    return result
