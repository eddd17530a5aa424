"""Keys of recorded activations: a digest of everything that shapes them, so that a stale hit is impossible.

A cache carries the key it was recorded under, and is read only under the same one. The words of a prompt do not appear:
what the text encoder made of them does, so another encoder, or an adapter on it, is another key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from diffusion_engine.cache_settings import CacheFormats
from diffusion_engine.fingerprint import WeightKeys
from diffusion_engine.model import Model
from diffusion_engine.samplers import make_scheduler
from diffusion_engine.versions import SamplingSettings, VersionState

# To be raised whenever a change of the program changes what a cache holds or means.
CACHE_FORMAT = 2


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
    """Keys of the slots of versions' recordings."""

    def __init__(self, model: Model, weights: WeightKeys, formats: CacheFormats, settings: SamplingSettings) -> None:
        self._model, self._weights, self._formats, self._settings = model, weights, formats, settings
        scheduler = make_scheduler(model.scheduler_config, settings.sampler)
        scheduler.set_timesteps(settings.steps)
        self._timesteps = _digest(scheduler.timesteps) + str(sorted(model.scheduler_config.items()))

    def of(self, state: VersionState) -> list[str]:
        """One key per step of a version, and the decoder's."""
        return [self.key(state, slot) for slot in range(state.trajectory.steps + 1)]

    def key(self, state: VersionState, slot: int) -> str:
        """Of one step, or of the decoder where `slot` is the number of steps."""
        settings, model, is_decode = self._settings, self._model, slot == state.trajectory.steps
        prompts = None if is_decode else state.prompts_at(slot)
        pooled = None if is_decode else state.condition.pooled
        return ActivationKey(
            network=self._weights.decoder if is_decode else self._weights.unet,
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
