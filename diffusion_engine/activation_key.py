"""Keys of recorded activations: a digest of everything that shapes them, so that a stale hit is impossible.

A cache carries the key it was recorded under, and is read only under the same one. The words of a prompt do not appear:
what the text encoder made of them does, so another encoder, or an adapter on it, is another key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffusion_engine.cache_settings import CacheFormats
from diffusion_engine.model import Model
from diffusion_engine.samplers import make_scheduler
from diffusion_engine.versions import SamplingSettings, VersionState

# To be raised whenever a change of the program changes what a cache holds or means.
CACHE_FORMAT = 2


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
        digest = hashlib.sha256(repr(sorted((k, str(v)) for k, v in self._module.config.items())).encode())
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
class ActivationKey:
    """What shapes the activations of one network call. All fields are digests or plain values."""

    network: str
    computed: str
    stored: str
    sampler: str
    step: int
    steps: int
    timesteps: str
    guidance: float
    size: tuple[int, int]
    latents: str
    prompts: str
    condition: str
    cache_format: int = CACHE_FORMAT

    @property
    def hex(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


class SlotKeys:
    """Keys of the slots of versions' recordings, with the weights as they are now."""

    def __init__(self, model: Model, formats: CacheFormats, settings: SamplingSettings) -> None:
        self._model, self._formats, self._settings = model, formats, settings
        self._networks = {
            "unet": Fingerprint(model.pipeline.unet).hex,
            "decoder": Fingerprint(model.pipeline.vae).hex,
        }
        scheduler = make_scheduler(model.scheduler_config, settings.sampler)
        scheduler.set_timesteps(settings.steps)
        self._timesteps = _digest(scheduler.timesteps) + str(sorted(model.scheduler_config.items()))

    def of(self, state: VersionState) -> list[str]:
        """One key per step of a version, and the decoder's."""
        return [self._key(state, slot) for slot in range(state.trajectory.steps + 1)]

    def _key(self, state: VersionState, slot: int) -> str:
        settings, model, is_decode = self._settings, self._model, slot == state.trajectory.steps
        prompts = None if is_decode else state.prompts_at(slot)
        pooled = None if is_decode else state.condition.pooled
        return ActivationKey(
            network=self._networks["decoder" if is_decode else "unet"],
            computed=str(model.dtype),
            stored=str(self._formats),
            sampler=settings.sampler,
            step=slot,
            steps=settings.steps,
            timesteps=self._timesteps,
            guidance=settings.guidance,
            size=settings.size,
            latents=_digest(state.trajectory.latents[slot]),
            prompts="" if prompts is None else _digest(*(text.states for text in prompts.texts), *prompts.index),
            condition="" if pooled is None else _digest(pooled),
        ).hex


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
