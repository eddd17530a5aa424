"""A prompt as the cross-attention layers see it: keys and values per layer, made once and used at every step."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor


class TextContext:
    """Text states of each guidance branch, with the cross-attention keys and values derived from them.

    They depend on the prompt and the weights alone, not on the step, so a context serves all steps of an edit. Make a
    new one when either changes.
    """

    def __init__(self, states: Tensor, pooled: Tensor | None = None) -> None:
        """states: [T, tokens, D], one row of the batch per branch; pooled: [T, P] where the model wants it (SDXL)."""
        self.states = states
        self.pooled = pooled
        self._keys_values: dict[str, tuple[Tensor, Tensor]] = {}

    @property
    def branches(self) -> int:
        return self.states.shape[0]

    def attend(self, x: Tensor, attention: Any, name: str) -> Tensor:
        """Cross-attention of rows [S, M, C]; segments are ordered by branch, S a multiple of the branches."""
        if name not in self._keys_values:
            self._keys_values[name] = attention.to_k(self.states), attention.to_v(self.states)
        key, value = self._keys_values[name]
        segments, rows, channels = x.shape
        query = attention.to_q(x).view(self.branches, -1, channels)  # [T, S / T * M, C]: rows do not see each other
        split = (self.branches, -1, attention.heads, channels // attention.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in (query, key, value))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(segments, rows, channels)
        return attention.to_out[0](mixed)
