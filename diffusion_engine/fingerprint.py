"""Fingerprints of weights: what recordings and encoded prompts were made with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffusion_engine.model import Model


class Fingerprint:
    """Tells one set of weights from another, and weights that something has changed since.

    The sum of each tensor's 64-bit words, read anew whenever it is asked for: at the speed of memory, which is little
    beside an edit that reads them once per step. Adapters count, as they are tensors of the module and have names.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    @property
    @torch.inference_mode()
    def hex(self) -> str:
        config = self._module.config if isinstance(self._module.config, Mapping) else self._module.config.to_dict()
        digest = hashlib.sha256(repr(sorted((k, str(v)) for k, v in config.items())).encode())
        for name, tensor in self._module.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {_word_sum(tensor)}".encode())
        return digest.hexdigest()


def _word_sum(tensor: Tensor) -> int:
    """The sum of a tensor's memory in the widest words that fit it, modulo 2^64. Weights lie in memory without holes,
    and the order of their dimensions there does not count."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    width = next(width for width in (8, 4, 2, 1) if tensor.nbytes % width == 0 and width >= tensor.element_size())
    words = flat.view({8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[width])
    return int(words.sum(dtype=torch.int64))


@dataclass(frozen=True)
class WeightKeys:
    """Fingerprints of a model's networks as they were at one moment, such as the beginning of a request."""

    text: str
    unet: str
    decoder: str

    @staticmethod
    def of(model: Model) -> WeightKeys:
        encoders = (getattr(model.pipeline, name, None) for name in ("text_encoder", "text_encoder_2"))
        text = "".join(Fingerprint(encoder).hex for encoder in encoders if encoder is not None)
        return WeightKeys(text, Fingerprint(model.pipeline.unet).hex, Fingerprint(model.pipeline.vae).hex)
