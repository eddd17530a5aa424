"""Temporary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "assets" / "examples"


@dataclass(frozen=True)
class Example:
    name: str
    title: str
    edit_prompt: str
    edit_seed: int
    picture: Path
    mask: Path


def load_examples() -> tuple[Example, ...]:
    return ()
