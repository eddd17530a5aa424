"""Requests: one frozen object holds everything that can change pixels, checked before any work starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from diffusion_engine.errors import UserError
from diffusion_engine.noise import SEEDS, checked_seed
from diffusion_engine.pictures import Pixels, mask_array
from diffusion_engine.versions import SamplingSettings, Version

Mode = Literal["auto", "sparse", "dense"]
PromptScope = Literal["region", "everywhere"]
MAX_STEPS, MAX_VARIATIONS, MAX_GUIDANCE = 200, 16, 50.0


def checked_whole(value: object, name: str, low: int, high: int) -> int:
    """A whole number in a range, or a UserError that names the field and the range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UserError(f"{name} must be a whole number from {low} to {high}, not {value!r}.")
    return value


def checked_number(value: object, name: str, low: float, high: float) -> float:
    """A finite number in a range, or a UserError that names the field and the range."""
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not low <= number <= high:
        raise UserError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}.")
    return number


def checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"The {name} must be text, not {value!r}.")
    return value


def check_description(prompt: object, negative_prompt: object, seed: object) -> None:
    """Raises UserError unless both prompts are text and the seed is one."""
    checked_text(prompt, "prompt")
    checked_text(negative_prompt, "negative prompt")
    checked_seed(seed)


@dataclass(frozen=True)
class StepPolicy:
    """Steps of an edit that run densely although they are recorded (all 0: none).

    dense_first, dense_last: so many at the beginning and at the end; refresh_every: every n-th step in between
    """

    dense_first: int = 0
    refresh_every: int = 0
    dense_last: int = 0

    def is_dense(self, step: int, steps: int) -> bool:
        edge = step < self.dense_first or step >= steps - self.dense_last
        return edge or bool(self.refresh_every and (step + 1) % self.refresh_every == 0)


@dataclass(frozen=True)
class EditRequest:
    """An edit as it was asked for. None stands for what the version being edited was made with."""

    mask: Any
    prompt: str
    negative_prompt: str | None = None
    seed: int = 0
    variations: int = 1
    strength: float = 1.0
    guidance: float | None = None
    mode: Mode = "auto"
    blend_mask: Any = None
    soft: bool = False
    prompt_scope: PromptScope = "region"
    policy: StepPolicy = StepPolicy()

    def resolve(self, version: Version) -> ResolvedEdit:
        """Checks every field against the version to be edited; raises UserError with the first one that is wrong."""
        size = version.settings.size
        mask = mask_array(self.mask, size, "mask")
        blend = mask if self.blend_mask is None else mask_array(self.blend_mask, size, "blend mask")
        blend = blend.copy()
        blend[mask == 0] = 0  # never wider than the edit mask
        blend[blend >= 254] = 255  # rounding in a picture program must not let the old picture shine through
        if self.mode not in ("auto", "sparse", "dense"):
            raise UserError(f"mode must be auto, sparse or dense, not {self.mode!r}.")
        if self.prompt_scope not in ("region", "everywhere"):
            raise UserError(f"prompt_scope must be region or everywhere, not {self.prompt_scope!r}.")
        guidance = version.guidance if self.guidance is None else self.guidance
        guidance = checked_number(guidance, "guidance", 0, MAX_GUIDANCE)
        if version.settings.branches == 1 and guidance > 1:
            raise UserError("This picture was made without guidance; leave guidance at 1, or make it again with more.")
        variations = checked_whole(self.variations, "variations", 1, MAX_VARIATIONS)
        negative = version.negative_prompt if self.negative_prompt is None else self.negative_prompt
        return ResolvedEdit(
            mask=mask,
            blend=blend,
            prompt=checked_text(self.prompt, "prompt"),
            negative_prompt=checked_text(negative, "negative prompt"),
            seeds=[(checked_seed(self.seed) + k) % SEEDS for k in range(variations)],
            strength=checked_number(self.strength, "strength", 0.01, 1),
            guidance=guidance,
            mode=self.mode,
            soft=bool(self.soft),
            everywhere=self.prompt_scope == "everywhere",
            policy=self.policy,
        )


@dataclass(frozen=True)
class ResolvedEdit:
    """An edit with nothing left open. mask, blend: uint8 [H, W] at picture size; one seed per variation."""

    mask: Pixels
    blend: Pixels
    prompt: str
    negative_prompt: str
    seeds: list[int]
    strength: float
    guidance: float
    mode: Mode
    soft: bool
    everywhere: bool
    policy: StepPolicy


def checked_settings(
    size: tuple[int, int], padded: tuple[int, int], steps: object, sampler: str, guidance: object
) -> SamplingSettings:
    """Sampling settings from a request's fields."""
    return SamplingSettings(
        size=size,
        padded=padded,
        steps=checked_whole(steps, "steps", 1, MAX_STEPS),
        sampler=sampler,
        guidance=checked_number(guidance, "guidance", 0, MAX_GUIDANCE),
    )
