"""Sentences about words of a prompt that the model does not know or does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine


def unread_words(engine: EditableDiffusionEngine, prompt: str) -> list[str]:
    """One for each kind of such words; none where all is well."""
    sentences: list[str] = []
    if unknown := engine.unknown_words(prompt):
        sentences.append(f"The model does not know: {', '.join(unknown)}.")
    if unread := engine.truncated_words(prompt):
        sentences.append(f'The prompt is too long; the model does not read its end: "{unread}".')
    return sentences
