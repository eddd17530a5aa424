"""Trajectories: a picture's latents at every step of its sampler, and the loop that makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffusion_engine.noise import step_generator
from diffusion_engine.samplers import takes_generator

Predict = Callable[[int, Tensor, Tensor], Tensor]
Compose = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class Trajectory:
    """latents[i] enters step i; the last entry is the clean picture. steps + 1 tensors, fp32 [B, 4, h, w]."""

    latents: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        # in one storage order: convolutions round differently in another, and files keep values only
        object.__setattr__(self, "latents", tuple(latents.contiguous() for latents in self.latents))

    @property
    def steps(self) -> int:
        return len(self.latents) - 1

    @property
    def final(self) -> Tensor:
        return self.latents[-1]

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.latents)

    def item(self, index: int) -> Trajectory:
        """The trajectory of one picture of a batch."""
        return Trajectory(tuple(t[index : index + 1].clone() for t in self.latents))


def sample(
    scheduler: Any, latents: Tensor, predict: Predict, *, start: int, seeds: list[int], compose: Compose | None = None
) -> list[Tensor]:
    """Runs the sampler from step `start` to its end.

    latents: [B, 4, h, w] entering step `start`; predict(step, timestep, model input) -> guided prediction
    compose(i, latents): what becomes of the latents that enter step i (i = steps: of the finished ones), for example
    the original's outside the mask. seeds: one per picture, for samplers that draw noise while they step.
    Returns the latents entering steps start + 1 .. steps, and the finished ones.
    """
    extra: dict[str, Any] = {}
    if takes_generator(scheduler):
        extra["generator"] = [step_generator(seed) for seed in seeds]
    if start and hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(start)
    path: list[Tensor] = []
    for step in range(start, len(scheduler.timesteps)):
        timestep = scheduler.timesteps[step]
        prediction = predict(step, timestep, scheduler.scale_model_input(latents, timestep))
        latents = scheduler.step(prediction, timestep, latents, **extra).prev_sample
        if compose is not None:
            latents = compose(step + 1, latents)
        path.append(latents)
    return path


def renoised(scheduler: Any, clean: Tensor, noise: Tensor) -> Trajectory:
    """The trajectory of an opened picture: its latents with one fixed noise field, at every step's noise level."""
    entering = [scheduler.add_noise(clean, noise, timestep[None]) for timestep in scheduler.timesteps]
    return Trajectory((*entering, clean))


def start_step(steps: int, strength: float, order: int = 1) -> int:
    """First step of an edit of the given strength; at least one step runs.

    order: model calls per sampler step; a start in the middle of one would leave its second half without its first
    """
    first = steps - max(1, round(steps * strength))
    return first - first % order


def guided(prediction: Tensor, guidance: float, branches: int) -> Tensor:
    """Classifier-free guidance (Ho and Salimans 2022): [branches * V, 4, h, w], unconditional first -> [V, 4, h, w]."""
    if branches == 1:
        return prediction
    unconditional, conditional = prediction.chunk(2)
    return torch.lerp(unconditional, conditional, guidance)
