"""Self-attention of active rows over a composite map; see `attend_rows`."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.attend_rows import reference
from kernels.registry import select
from kernels.stored_rows import StoredRows, as_stored

__all__ = ["attend_rows", "reference"]


def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    base_key: Tensor | StoredRows,
    base_value: Tensor | StoredRows,
    active: Tensor,
    heads: int,
    *,
    branch_of: tuple[int, ...],
) -> Tensor:
    """Active queries over all keys of the map: recorded ones, with the active rows' own new ones in their place.

    query, key, value:    [S, M, C] of the active rows
    base_key, base_value: [B, N, C] recorded; they may be written during the call (a file's are not) and are as before
                          when it returns
    active:               int64 [M], which rows of the map the active ones are
    Returns [S, M, C]; softmax scale is (C / heads) ** -0.5 (Vaswani et al. 2017, eq. 1).
    """
    run = select("attend_rows", query.device)
    result: torch.Tensor = run(query, key, value, as_stored(base_key), as_stored(base_value), active, heads, branch_of)
    return result
