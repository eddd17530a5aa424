"""Words: how much of a prompt a model reads, and which words the starter model was taught."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[^\W\d_]+")
VOCABULARY = "vocabulary.txt"


class Words:
    """Answers about prompts, on any thread. taught: the words it was taught, None where nothing is known of them.

    The tokenizer is a copy: encoding a prompt for the model sets padding and truncation on the pipeline's own, which
    must not be asked for anything else at the same time.
    """

    def __init__(self, tokenizer: Any, taught: frozenset[str] | None) -> None:
        self._tokenizer, self._taught = copy.deepcopy(tokenizer.backend_tokenizer), taught
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.limit: int = tokenizer.model_max_length - 2  # start and end marks

    def count(self, prompt: str) -> int:
        """How many tokens a prompt has, without start and end marks."""
        return len(self._offsets(prompt))

    def truncated(self, prompt: str) -> str:
        """The end of a prompt that the text encoder cannot see."""
        unseen = self._offsets(prompt)[self.limit :]
        return prompt[unseen[0][0] :].strip() if unseen else ""

    def unknown(self, prompt: str) -> list[str]:
        """Words of a prompt that the model was never taught."""
        words = dict.fromkeys(_WORD.findall(prompt.lower()))
        return [word for word in words if self._taught is not None and word not in self._taught]

    def _offsets(self, prompt: str) -> list[tuple[int, int]]:
        """Where each token begins and ends in the prompt."""
        return self._tokenizer.encode(prompt, add_special_tokens=False).offsets

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Words to suggest, sorted: those of two or more letters, without plurals of others."""
        taught = self._taught or frozenset[str]()
        return tuple(sorted(word for word in taught if len(word) > 1 and not _singulars(word) & taught))


def _singulars(word: str) -> set[str]:
    """What a word may be the plural of."""
    endings = (("s", ""), ("es", ""), ("ies", "y"))
    return {word.removesuffix(plural) + singular for plural, singular in endings if word.endswith(plural)}


def taught_words(folder: Path) -> frozenset[str] | None:
    """The words that a model's folder lists in `vocabulary.txt`, one on each line; None where it has no such list."""
    listed = folder / VOCABULARY
    return frozenset(listed.read_text(encoding="utf-8").split()) if listed.is_file() else None
