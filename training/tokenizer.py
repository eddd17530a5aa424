"""The starter model's tokenizer: a CLIP-style BPE whose words are those of our captions.

Every word that captions use is one token; what people type beside them falls into pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import torch
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import CLIPTextModel, CLIPTokenizer

ENTRIES = 2560  # at most; more than our words need, so that none is left in pieces
WORDS = 24  # positions of a prompt, marks included
SLOTS = 16  # and those behind it, in which the encoder puts what the words look like (text_encoder.py)
POSITIONS = WORDS + SLOTS
WORD_END = "</w>"
SPECIAL = ("<|startoftext|>", "<|endoftext|>")


def make_tokenizer(phrases: Iterable[str]) -> CLIPTokenizer:
    """A tokenizer that knows the words of `phrases`; the same words make the same one.

    Every byte has an entry, within a word and at its end. The trainer alone would leave out those that our words lack,
    so that a digit became the end of the prompt, and number the others in another order each time.
    """
    letters = sorted(ByteLevel.alphabet())
    alphabet = [*SPECIAL, *letters, *(letter + WORD_END for letter in letters)]
    trainer = BpeTrainer(vocab_size=ENTRIES, special_tokens=alphabet, end_of_word_suffix=WORD_END, show_progress=False)
    backend = CLIPTokenizer().backend_tokenizer
    backend.train_from_iterator(sorted(set(phrases)), trainer)
    model = json.loads(backend.to_str())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]
    return CLIPTokenizer(model["vocab"], merges, model_max_length=POSITIONS)


def adopt_tokenizer(encoder: CLIPTextModel, old: CLIPTokenizer, new: CLIPTokenizer) -> None:
    """Gives a text encoder trained with `old` the tokens of `new`: a token that both have keeps its embedding, another
    one begins as the mean of the pieces that `old` made of it."""
    before = _embeddings(encoder).clone()
    encoder.resize_token_embeddings(len(new), mean_resizing=False)
    table = _embeddings(encoder)
    known = old.get_vocab()
    for token, row in new.get_vocab().items():
        if token in known:
            table[row] = before[known[token]]
        else:
            pieces = old.encode(token.removesuffix(WORD_END), add_special_tokens=False)
            table[row] = before[torch.tensor(pieces)].mean(0)


def _embeddings(encoder: CLIPTextModel) -> torch.Tensor:
    """[entries, C], the weights themselves."""
    return cast(torch.nn.Embedding, encoder.get_input_embeddings()).weight.data
