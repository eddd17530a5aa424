"""Versions as plain data, for files: what a version can be recorded again from, and by which model.

Latents at every step, the prompt of every row, and settings; no activations, and of texts only the words: all that
follows from the rest. A version made from another keeps only the latent cells that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# how far a weight may be from itself after a change of precision; two models differ by more somewhere
_ROUNDING, _LEAST = 2.0**-7, 1e-6
_TYPES: dict[str, tuple[type, ...]] = {
    "prompt": (str,),
    "negative_prompt": (str,),
    "seed": (int,),
    "steps": (int,),
    "sampler": (str,),
    "guidance": (int, float),
    "model": (str,),
}


@dataclass(frozen=True)
class SavedVersion:
    """One version. Making one checks that its parts fit one another, and raises ValueError where they do not.

    parent_id: of the version that the latents are told against, None for one that is told whole
    facts: ready for JSON; "prompts" has one {"start", "texts"} per prompt map, newest first: from which step it holds,
    and the (prompt, negative prompt) of each of its texts
    arrays: "cells" bool [h, w], those that differ from the parent; "latents" fp32 [steps + 1, C, cells]; "weights"
    fp32, one of each tensor of the model; "prompts.M.L" int32, map M's index at level L
    """

    parent_id: str | None
    facts: dict[str, Any]
    arrays: dict[str, Array] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            fits = all(self._facts_fit()) and all(self._arrays_fit())
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a saved version is not as this program writes it: {error}") from error
        if not fits:
            raise ValueError("the parts of a saved version do not fit one another")

    def has_weights_of(self, other: Array) -> bool:
        """Whether it was made by the model that `other` is of, in whatever precision."""
        weights = self.arrays["weights"]
        return weights.shape == other.shape and np.allclose(weights, other, _ROUNDING, _LEAST)

    def _facts_fit(self) -> Iterator[bool]:
        facts = self.facts
        yield all(type(facts[name]) in kinds for name, kinds in _TYPES.items())
        yield len(facts["size"]) == 2 and all(type(side) is int and side > 0 for side in facts["size"])
        yield len(facts["prompts"]) > 0
        yield all(type(told["start"]) is int and len(told["texts"]) > 0 for told in facts["prompts"])
        texts = [facts["condition"], *(text for told in facts["prompts"] for text in told["texts"])]
        yield all(len(text) == 2 and all(type(words) is str for words in text) for text in texts)

    def _arrays_fit(self) -> Iterator[bool]:
        cells, latents, weights = (self.arrays[name] for name in ("cells", "latents", "weights"))
        yield cells.dtype == np.bool_ and cells.ndim == 2
        yield latents.dtype == np.float32 and latents.ndim == 3 and latents.shape[2] == np.count_nonzero(cells)
        yield bool(np.isfinite(latents).all())
        yield weights.dtype == np.float32 and weights.ndim == 1
        names = {"cells", "latents", "weights"}
        for number, told in enumerate(self.facts["prompts"]):
            index = self.index(number)
            names.update(f"prompts.{number}.{level}" for level in range(len(index)))
            yield len(index) > 0 and all(rows.dtype == np.int32 and rows.ndim == 1 and rows.size > 0 for rows in index)
            yield all(rows.min() >= 0 and rows.max() < len(told["texts"]) for rows in index)
        yield names == self.arrays.keys()

    def index(self, number: int) -> list[Array]:
        """Of one prompt map, per level: which of its texts each row has, int32 [rows]."""
        names = sorted(name for name in self.arrays if name.startswith(f"prompts.{number}."))
        return [self.arrays[name] for name in names]
