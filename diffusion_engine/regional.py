"""Prompts belong to rows: which prompt each row of a picture was made with, and the dense pass that respects it.

The regional dense pass is the referee of everything: diffusers' own forward, except that in cross-attention each row
attends to its own prompt's tokens only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from diffusion_engine.plan import Plan
from diffusion_engine.text_context import TextContext


@dataclass(frozen=True)
class PromptMap:
    """texts[index[level][row]] is the prompt that a row of a level was made with.

    It is kept per level, since the active rows of a coarse level reach a little further than the pooled finest ones.
    index: int64 [N_level] per level, finest first
    """

    texts: tuple[TextContext, ...]
    index: tuple[Tensor, ...]

    @staticmethod
    def uniform(text: TextContext, shapes: list[tuple[int, int]], device: torch.device) -> PromptMap:
        """One prompt everywhere."""
        return PromptMap((text,), tuple(torch.zeros(h * w, dtype=torch.long, device=device) for h, w in shapes))

    def painted(self, text: TextContext, plan: Plan) -> PromptMap:
        """The map after an edit: the plan's active rows now belong to `text`; prompts without rows are dropped."""
        index: list[Tensor] = []
        for level, old in zip(plan.levels, self.index, strict=True):
            new = old.clone()
            new[level.active] = len(self.texts)
            index.append(new)
        used = sorted({int(i) for level in index for i in level.unique()})
        renumber = torch.full((len(self.texts) + 1,), -1, dtype=torch.long, device=index[0].device)
        renumber[used] = torch.arange(len(used), device=renumber.device)
        texts = (*self.texts, text)
        return PromptMap(tuple(texts[i] for i in used), tuple(renumber[level] for level in index))

    def first_branch(self) -> PromptMap:
        """The map with the first guidance branch of each text only."""
        firsts = (TextContext(t.states[:1], None if t.pooled is None else t.pooled[:1]) for t in self.texts)
        return PromptMap(tuple(firsts), self.index)

    @property
    def states(self) -> Tensor:
        """All prompts' tokens side by side: [T, prompts * tokens, D]."""
        return torch.cat([text.states for text in self.texts], 1)


class _RegionalProcessor:
    """diffusers attention processor: rows attend only to the tokens of their own prompt."""

    def __init__(self, masks: dict[int, Tensor]) -> None:
        self._masks = masks  # rows of a level -> bool [rows, prompts * tokens]

    def __call__(self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor, **_: Any) -> Tensor:
        batch, rows, _channels = hidden_states.shape
        query = attn.to_q(hidden_states)
        key, value = attn.to_k(encoder_hidden_states), attn.to_v(encoder_hidden_states)
        split = (batch, -1, attn.heads, query.shape[-1] // attn.heads)
        q, k, v = (x.view(split).transpose(1, 2) for x in (query, key, value))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self._masks[rows])
        return attn.to_out[0](mixed.transpose(1, 2).reshape(batch, rows, -1))


@contextlib.contextmanager
def regional_attention(unet: Any, prompts: PromptMap) -> Generator[None]:
    """Inside the block the UNet's cross-attention is regional; call it with `prompts.states`, repeated over a batch.

    With one prompt nothing is touched. The UNet's own processors are back when the block ends.
    """
    if len(prompts.texts) == 1:
        yield
        return
    tokens = [text.states.shape[1] for text in prompts.texts]
    owner = torch.cat([torch.full((n,), i) for i, n in enumerate(tokens)]).to(prompts.index[0].device)
    masks = {index.numel(): index[:, None] == owner[None] for index in prompts.index}
    before = dict(unet.attn_processors)
    regional = _RegionalProcessor(masks)
    try:
        unet.set_attn_processor(
            {name: regional if ".attn2." in name else processor for name, processor in before.items()}
        )
        yield
    finally:
        unet.set_attn_processor(before)
