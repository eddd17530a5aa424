"""norm_sums in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.registry import register

# Values worked on at a time: what is made of them stays in the cache.
_PIECE = 1 << 20


def _shifted(rows: Tensor, center: Tensor) -> Tensor:
    """fp32 [S, M, C]: rows less their group's center."""
    segments, groups = center.shape
    spread = center[:, :, None].expand(segments, groups, rows.shape[-1] // groups)
    return rows - spread.reshape(segments, 1, -1)


@register("norm_sums", "torch")
def norm_sums(rows: Tensor, center: Tensor) -> Tensor:
    pieces: list[Tensor] = []
    for piece in rows.split(max(1, _PIECE // (rows.shape[0] * rows.shape[2])), 1):
        shifted = _shifted(piece, center)
        pieces.append(torch.stack([shifted.sum(1), shifted.square_().sum(1)], 1))
    by_channel = pieces[0] if len(pieces) == 1 else torch.stack(pieces).sum(0, dtype=torch.float64)  # [S, 2, C]
    return by_channel.unflatten(2, (center.shape[1], -1)).sum(-1, dtype=torch.float64).flatten(1)


@register("norm_sums_per_row", "torch")
def norm_sums_per_row(rows: Tensor, center: Tensor) -> Tensor:
    shifted = _shifted(rows, center).unflatten(2, (center.shape[1], -1))  # [S, M, G, C / G]
    return torch.cat([shifted.sum(-1), shifted.square_().sum(-1)], -1)
