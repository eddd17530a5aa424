"""Prompts as the cross-attention layers see them: keys and values per layer, made once and used at every step."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class TextContext:
    """Text states of each guidance branch, with the cross-attention keys and values derived from them.

    They depend on the prompt and the weights alone, not on the step, so a context serves all steps of an edit. Make a
    new one when either changes.
    """

    def __init__(self, states: Tensor, pooled: Tensor | None = None, words: tuple[str, str] | None = None) -> None:
        """states: [T, tokens, D], one row of the batch per branch; pooled: [T, P] where the model wants it (SDXL).
        words: the prompt and the negative prompt that were encoded, where they are known."""
        self.states = states
        self.pooled = pooled
        self.words = words
        self._keys_values: dict[str, tuple[Tensor, Tensor]] = {}

    @property
    def branches(self) -> int:
        return self.states.shape[0]

    def keys_values(self, attention: Any, name: str) -> tuple[Tensor, Tensor]:
        """Keys and values of one cross-attention layer, [T, tokens, C] each."""
        if name not in self._keys_values:
            self._keys_values[name] = attention.to_k(self.states), attention.to_v(self.states)
        return self._keys_values[name]


class RowPrompts:
    """The prompts of a plan's active rows: each row attends to the tokens of its own.

    masks: rows of a level -> bool [M, all tokens], or None where all its active rows have the only prompt
    """

    def __init__(self, texts: tuple[TextContext, ...], masks: dict[int, Tensor] | None = None) -> None:
        self.texts = texts
        self._masks = masks
        self._keys_values: dict[str, tuple[Tensor, Tensor]] = {}

    @property
    def first(self) -> TextContext:
        return self.texts[0]

    def attend(self, query: Tensor, attention: Any, name: str, level_rows: int) -> Tensor:
        """Attends queries of active rows [S, M, C] to their prompts; segments are ordered by branch, S a multiple of
        the branches. Returns [S, M, C], before the output projection."""
        if name not in self._keys_values:
            parts = [text.keys_values(attention, name) for text in self.texts]
            self._keys_values[name] = torch.cat([k for k, _ in parts], 1), torch.cat([v for _, v in parts], 1)
        key, value = self._keys_values[name]
        segments, rows, channels = query.shape
        branches = key.shape[0]
        mask = None if self._masks is None else self._masks[level_rows]
        if mask is not None and segments > branches:
            mask = mask.repeat(segments // branches, 1)
        query = query.view(branches, -1, channels)  # [T, S / T * M, C]: rows do not see each other
        return attend_text(query, key, value, attention.heads, mask).view(segments, rows, channels)


def attend_text(query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None) -> Tensor:
    """Attention of rows [T, R, C] to tokens [T, N, C]; mask: bool [R, N], which tokens a row may see."""
    batch, rows, channels = query.shape
    split = (batch, -1, heads, channels // heads)
    q, k, v = (x.view(split).transpose(1, 2) for x in (query, key, value))  # [T, heads, rows, C / heads]
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return mixed.transpose(1, 2).reshape(batch, rows, channels)
