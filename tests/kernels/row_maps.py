"""Maps of rows for the kernel tables, and the composite of active and recorded ones that every kernel is judged by."""

from __future__ import annotations

import torch
from torch import Tensor

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def randn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def active_mask(kind: str, shape: tuple[int, int]) -> Tensor:
    """bool [h, w] of a named kind."""
    mask = torch.zeros(shape, dtype=torch.bool, device=DEVICE)
    if kind == "full":
        mask[:] = True
    elif kind == "one row":
        mask[shape[0] // 2, shape[1] // 2] = True
    elif kind == "corners":
        mask[:: max(shape[0] - 1, 1), :: max(shape[1] - 1, 1)] = True
    elif kind == "border":
        mask[:] = True
        mask[1:-1, 1:-1] = False
    elif kind == "scattered":
        mask |= (torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.2).to(DEVICE)
    else:
        assert kind == "none"
    return mask


def rows_of(mask: Tensor) -> Tensor:
    """int64 [M]: row-major indices of the true rows."""
    return mask.flatten().nonzero().squeeze(1)


def composite(active: Tensor, base: Tensor, rows: Tensor, branch_of: tuple[int, ...]) -> Tensor:
    """fp64 [S, N, C]: each segment's recorded branch with its active rows in place."""
    whole = base.double()[list(branch_of)]
    whole[:, rows] = active.double()
    return whole


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Equal byte for byte, NaN included."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
