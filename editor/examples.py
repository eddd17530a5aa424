"""The example pictures that come with the program: each has a mask and a prompt ready to be painted.

`python -m training.make_examples` makes them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "examples"


@dataclass(frozen=True)
class Example:
    """`prompt`, `seed`, `steps` and `guidance` say how the starter model made the picture, `edit_prompt` and
    `edit_seed` what to paint inside the mask. `picture` and `mask` are files of the same size in pixels."""

    name: str
    title: str
    prompt: str
    seed: int
    steps: int
    guidance: float
    edit_prompt: str
    edit_seed: int
    picture: Path
    mask: Path


def load_examples(folder: Path = FOLDER) -> tuple[Example, ...]:
    """The examples in the order in which to offer them, the one for a first visit in front. No file of a picture or a
    mask is read. Empty if the folder is missing or damaged: the editor works without examples."""
    try:
        entries = json.loads((folder / "examples.json").read_text(encoding="utf-8"))
        examples = tuple(_example(entry, folder) for entry in entries)
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    complete = all(example.picture.is_file() and example.mask.is_file() for example in examples)
    return examples if complete else ()


def _example(entry: dict[str, Any], folder: Path) -> Example:
    return Example(
        name=str(entry["name"]),
        title=str(entry["title"]),
        prompt=str(entry["prompt"]),
        seed=int(entry["seed"]),
        steps=int(entry["steps"]),
        guidance=float(entry["guidance"]),
        edit_prompt=str(entry["edit_prompt"]),
        edit_seed=int(entry["edit_seed"]),
        picture=folder / entry["picture"],
        mask=folder / entry["mask"],
    )
