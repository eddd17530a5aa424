"""Words: how much of a prompt a model reads, and which words the starter model was taught."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np

_WORD = re.compile(r"[^\W\d_]+")
_END = "</w>"  # marks the tokens that end a word


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
        """Words to suggest, sorted: those of two or more letters, without plurals of others.

        The captions that the model was taught with make every plural with an s ("butterflys").
        """
        taught = self._taught or frozenset[str]()
        return tuple(sorted(word for word in taught if len(word) > 1 and not _singulars(word) & taught))


def _singulars(word: str) -> set[str]:
    """What a word may be the plural of."""
    return {word.removesuffix(ending) for ending in ("s", "es") if word.endswith(ending)}


def taught_words(tokenizer: Any, text_encoder: Any) -> frozenset[str]:
    """Words that a text encoder trained from scratch has met: each is one token, and its embedding was moved.

    The tokenizer alone does not tell: among its tokens are the ends of words that longer tokens were merged from
    ("ach" of "beach"), and words of captions that were never drawn. Their embeddings are as long as the random start
    made them: `std * sqrt(width)`, and a few `std` more at most.
    """
    embeddings = text_encoder.get_input_embeddings().weight.detach().float().cpu().numpy()
    started = 0.02 * text_encoder.config.initializer_factor  # standard deviation of CLIP's token embeddings
    moved = np.linalg.norm(embeddings, axis=1) > started * (embeddings.shape[1] ** 0.5 + 3)
    words = {token.removesuffix(_END): index for token, index in tokenizer.get_vocab().items() if token.endswith(_END)}
    return frozenset(word for word, index in words.items() if moved[index] and _WORD.fullmatch(word))
