"""Prompts as the cross-attention layers see them: keys and values per layer, made once and used at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class BranchText:
    """An encoded prompt of one guidance branch, with the cross-attention keys and values derived from it.

    They depend on the prompt and the weights alone, not on the step, so one serves all steps, and all edits that share
    the prompt (`text_cache.py`). Make a new one when either changes.
    """

    def __init__(self, states: Tensor, pooled: Tensor | None = None) -> None:
        """states: [1, tokens, D]; pooled: [1, P] where the model wants it (SDXL)."""
        self.states, self.pooled = states, pooled
        self._keys_values: dict[str, tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Of all that is held so far."""
        kept = [tensor for pair in self._keys_values.values() for tensor in pair]
        return sum(tensor.nbytes for tensor in (self.states, self.pooled, *kept) if tensor is not None)

    def keys_values(self, attention: Any, name: str) -> tuple[Tensor, Tensor]:
        """Keys and values of one cross-attention layer, [1, tokens, C] each."""
        if name not in self._keys_values:
            self._keys_values[name] = attention.to_k(self.states), attention.to_v(self.states)
        return self._keys_values[name]


class TextContext:
    """The texts of the guidance branches. words: the prompt and the negative prompt, where they are known."""

    def __init__(self, parts: Sequence[BranchText], words: tuple[str, str] | None = None) -> None:
        self.parts, self.words = tuple(parts), words
        pooled = [part.pooled for part in parts if part.pooled is not None]
        self.states = torch.cat([part.states for part in parts])  # [T, tokens, D]
        self.pooled = torch.cat(pooled) if pooled else None  # [T, P]

    @staticmethod
    def of(states: Tensor, pooled: Tensor | None = None, words: tuple[str, str] | None = None) -> TextContext:
        """Of [T, tokens, D] and [T, P], one row of the batch per branch."""
        alone = [None] * len(states) if pooled is None else pooled.split(1)
        return TextContext([BranchText(*part) for part in zip(states.split(1), alone, strict=True)], words)

    @property
    def branches(self) -> int:
        return len(self.parts)

    def keys_values(self, attention: Any, name: str) -> tuple[Tensor, Tensor]:
        """Keys and values of one cross-attention layer, [T, tokens, C] each."""
        keys, values = zip(*(part.keys_values(attention, name) for part in self.parts), strict=True)
        return torch.cat(keys), torch.cat(values)


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
