"""Prompts belong to rows: which prompt each row of a picture was made with, and the dense pass that respects it.

An edit's prompt belongs to the rows its mask covers at each level. Rows that are recomputed around them only to react
keep the prompt they had, so how far a plan reaches changes what an edit costs and how near it comes to the dense pass,
never what it means. The regional dense pass is the referee of everything: diffusers' own forward, except that in
cross-attention each row attends to its own prompt's tokens only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffusion_engine.active_rows import MaskLike, pyramid
from diffusion_engine.plan import Plan
from diffusion_engine.text_context import RowPrompts, TextContext, attend_text


@dataclass(frozen=True)
class PromptMap:
    """texts[index[level][row]] is the prompt that a row of a level was made with.

    index: int64 [N_level] per level, finest first
    """

    texts: tuple[TextContext, ...]
    index: tuple[Tensor, ...]

    @staticmethod
    def uniform(text: TextContext, shapes: list[tuple[int, int]], device: torch.device) -> PromptMap:
        """One prompt everywhere."""
        return PromptMap((text,), tuple(torch.zeros(h * w, dtype=torch.long, device=device) for h, w in shapes))

    def painted(self, text: TextContext, mask: MaskLike) -> PromptMap:
        """The map after an edit: rows under the mask (bool [h, w], latents that change) now belong to `text`; a coarse
        row does where any of its finer ones does. Prompts that are left without rows are dropped."""
        index: list[Tensor] = []
        for old, here in zip(self.index, pyramid(mask, len(self.index)), strict=True):
            rows = torch.from_numpy(here.flatten()).to(old.device)
            index.append(torch.where(rows, len(self.texts), old))
        used = sorted({int(i) for level in index for i in level.unique()})
        renumber = torch.full((len(self.texts) + 1,), -1, dtype=torch.long, device=index[0].device)
        renumber[used] = torch.arange(len(used), device=renumber.device)
        texts = (*self.texts, text)
        return PromptMap(tuple(texts[i] for i in used), tuple(renumber[level] for level in index))

    @property
    def branches_agree(self) -> bool:
        """Whether all guidance branches see the same text everywhere, so that one recording serves them."""
        return all(bool((text.states == text.states[:1]).all()) for text in self.texts)

    def first_branch(self) -> PromptMap:
        """The map with the first guidance branch of each text only."""
        return PromptMap(tuple(TextContext(text.parts[:1]) for text in self.texts), self.index)

    @property
    def states(self) -> Tensor:
        """All prompts' tokens side by side: [T, prompts * tokens, D]."""
        return torch.cat([text.states for text in self.texts], 1)

    def masks(self, rows: tuple[Tensor, ...]) -> dict[int, Tensor]:
        """Rows of a level -> bool [M, prompts * tokens], which tokens each of the given rows of the level may see."""
        tokens = [text.states.shape[1] for text in self.texts]
        owner = torch.cat([torch.full((n,), i) for i, n in enumerate(tokens)]).to(self.index[0].device)
        chosen = zip(self.index, rows, strict=True)
        return {index.numel(): index[here][:, None] == owner[None] for index, here in chosen}

    def rows(self, plan: Plan) -> RowPrompts:
        """The prompts of a plan's active rows; prompts that none of them has are left out."""
        active = tuple(level.active for level in plan.levels)
        used = sorted({int(i) for index, here in zip(self.index, active, strict=True) for i in index[here].unique()})
        if len(used) <= 1:
            return RowPrompts((self.texts[used[0] if used else 0],))
        renumber = torch.full((len(self.texts),), -1, dtype=torch.long, device=self.index[0].device)
        renumber[used] = torch.arange(len(used), device=renumber.device)
        kept = PromptMap(tuple(self.texts[i] for i in used), tuple(renumber[index] for index in self.index))
        return RowPrompts(kept.texts, kept.masks(active))


class _RegionalProcessor:
    """diffusers attention processor: rows attend only to the tokens of their own prompt."""

    def __init__(self, masks: dict[int, Tensor]) -> None:
        self._masks = masks  # rows of a level -> bool [rows, prompts * tokens]

    def __call__(self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor, **_: Any) -> Tensor:
        key, value = attn.to_k(encoder_hidden_states), attn.to_v(encoder_hidden_states)
        mask = self._masks[hidden_states.shape[1]]
        return attn.to_out[0](attend_text(attn.to_q(hidden_states), key, value, attn.heads, mask))


@contextlib.contextmanager
def regional_attention(unet: Any, prompts: PromptMap) -> Generator[None]:
    """Inside the block the UNet's cross-attention is regional; call it with `prompts.states`, repeated over a batch.

    With one prompt nothing is touched. The UNet's own processors are back when the block ends.
    """
    if len(prompts.texts) == 1:
        yield
        return
    everywhere = tuple(torch.arange(index.numel(), device=index.device) for index in prompts.index)
    regional = _RegionalProcessor(prompts.masks(everywhere))
    before = dict(unet.attn_processors)
    try:
        unet.set_attn_processor(
            {name: regional if ".attn2." in name else processor for name, processor in before.items()}
        )
        yield
    finally:
        unet.set_attn_processor(before)
