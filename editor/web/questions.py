"""What the page asks while a person paints and types, many times a minute: answered at once, changing no picture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from editor.requests import EditRequest

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine

SUGGESTIONS = 6


class Painted(BaseModel):
    """The mask on the page: where its painted part lies, and the settings that decide what an edit with it costs.

    settled: the pointer is up
    """

    left: int = 0
    top: int = 0
    settled: bool = True
    grow_px: int = 0
    variations: int = 1
    strength: float = 1.0
    mode: Literal["auto", "sparse", "dense"] = "auto"

    def request(self) -> EditRequest:
        return EditRequest("", variations=self.variations, strength=self.strength, mode=self.mode, grow_px=self.grow_px)


def prompt_report(engine: EditableDiffusionEngine, prompt: str) -> dict[str, Any]:
    """Tokens used of how many, the end that does not fit, words not known, and known words that begin like the last."""
    used, limit = engine.token_count(prompt)
    begun = re.search(r"[^\W\d_]+$", prompt.lower())
    known = [word for word in engine.vocabulary if begun and word.startswith(begun[0]) and word != begun[0]]
    unknown = [word for word in engine.unknown_words(prompt) if not (known and begun and word == begun[0])]
    return {
        "used": used,
        "limit": limit,
        "cut": engine.truncated_words(prompt),
        "unknown": unknown,
        "suggestions": sorted(known, key=len)[:SUGGESTIONS],
    }
