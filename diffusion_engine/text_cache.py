"""Encoded prompts, kept across requests, each guidance branch on its own: a new prompt leaves the other branch alone.

An entry is found again only with the same words and the same weights of text encoders and UNet, whose keys and values
it holds. What is left out longest goes first. They are small beside recordings, and versions hold theirs anyway, so
they have a bound of their own instead of a part of the cache's budget.
"""

from __future__ import annotations

from collections import OrderedDict

from diffusion_engine.fingerprint import WeightKeys
from diffusion_engine.model import Model
from diffusion_engine.text_context import BranchText, TextContext

MOST_BYTES = 64 * 2**20
_Key = tuple[str, str, str, str]


class TextCache:
    """Used on the compute thread only."""

    def __init__(self, model: Model, most_bytes: int = MOST_BYTES) -> None:
        self._model, self._most = model, most_bytes
        self._texts: OrderedDict[_Key, BranchText] = OrderedDict()  # least recently used first

    def encoded(self, prompt: str, negative_prompt: str, branches: int, weights: WeightKeys) -> TextContext:
        """Text of each guidance branch, unconditional first where there are two."""
        roles = [("prompt", prompt)] if branches == 1 else [("negative", negative_prompt), ("prompt", prompt)]
        keys: list[_Key] = [(weights.text, weights.unet, *role) for role in roles]
        if not all(key in self._texts for key in keys):
            fresh = self._model.encode_text(prompt, negative_prompt, branches)
            for key, part in zip(keys, fresh.parts, strict=True):
                self._texts.setdefault(key, part)
        for key in keys:
            self._texts.move_to_end(key)
        context = TextContext([self._texts[key] for key in keys], (prompt, negative_prompt))
        while len(self._texts) > branches and self.nbytes > self._most:
            self._texts.popitem(last=False)
        return context

    @property
    def nbytes(self) -> int:
        return sum(text.nbytes for text in self._texts.values())
