"""attend_rows in plain torch: the composite map is made in the recorded keys and values themselves, then undone.

Writing M rows and restoring them costs the active fraction; cloning the map would cost all of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.registry import register
from kernels.stored_rows import StoredRows


@register("attend_rows", "torch")
def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    base_key: StoredRows,
    base_value: StoredRows,
    active: Tensor,
    heads: int,
    branch_of: tuple[int, ...],
) -> Tensor:
    if active.numel() == base_key.count:
        return _attend(query, key, value, heads)  # nothing recorded is left to read
    keys, values = base_key.whole(query.dtype), base_value.whole(query.dtype)
    if branch_of == tuple(range(base_key.branches)):
        return _attend_composite(query, key, value, keys, values, active, heads)
    out = torch.empty_like(query)
    for segment, branch in enumerate(branch_of):
        s, b = slice(segment, segment + 1), slice(branch, branch + 1)
        out[s] = _attend_composite(query[s], key[s], value[s], keys[b], values[b], active, heads)
    return out


def _attend_composite(
    query: Tensor, key: Tensor, value: Tensor, base_key: Tensor, base_value: Tensor, active: Tensor, heads: int
) -> Tensor:
    old_key, old_value = base_key.index_select(1, active), base_value.index_select(1, active)  # [B, M, C]
    try:
        base_key.index_copy_(1, active, key)
        base_value.index_copy_(1, active, value)
        return _attend(query, base_key, base_value, heads)
    finally:
        base_key.index_copy_(1, active, old_key)
        base_value.index_copy_(1, active, old_value)


def _attend(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    batch, rows, channels = query.shape
    split = (batch, -1, heads, channels // heads)
    q, k, v = (x.view(split).transpose(1, 2) for x in (query, key, value))  # [B, heads, rows, C / heads]
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, rows, channels)
