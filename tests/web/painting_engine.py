"""An engine that paints flat colours slowly: the API of `EditableDiffusionEngine`, none of the mathematics."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace

import numpy as np
from PIL import Image

from diffusion_engine import Cancelled, Check, Prediction, Progress, SavedVersion, UserError
from diffusion_engine.cache_settings import MemoryReport

PREDICTED_TILE_PX = 8


@dataclass(frozen=True)
class PaintingReport:
    mode: str = "sparse"
    active_fraction: float = 0.063
    active_fraction_per_level: tuple[float, ...] = (0.05, 0.08)
    seconds: dict[str, float] = field(default_factory=lambda: {"denoise": 0.5, "total": 0.87})
    dense_seconds_estimate: float = 7.9
    speedup: float = 9.1
    cache_bytes: int = 412_000_000
    dense_steps: int = 0
    sparse_steps: int = 4

    def as_dict(self) -> dict:
        return asdict(self)


class PaintingEngine:
    """`before_step(step)` runs before each step of a job: tests sleep, cancel or raise there."""

    model_name = "painted"
    samplers = ("ddim", "euler")

    def __init__(self, steps: int = 4, before_step: Callable[[int], None] = lambda step: None) -> None:
        self.defaults = SimpleNamespace(steps=steps, guidance=4.0, size=(128, 96), sampler="ddim")
        self.before_step = before_step
        self.calls: list[str] = []
        self.busy = threading.Lock()
        self.versions: dict[str, SimpleNamespace] = {}
        self.held: dict[str, int] = {}  # bytes of caches
        self._numbers = itertools.count(1)

    def generate(
        self,
        prompt,
        *,
        negative_prompt="",
        size=(128, 96),
        steps=None,
        seed=0,
        guidance=None,
        sampler=None,
        on_progress=None,
        cancel=None,
    ):
        self.calls.append("generate")
        self._check(prompt, negative_prompt, seed, size=size, steps=steps, guidance=guidance)
        image = Image.new("RGB", size, colour_of(prompt, seed))
        self._steps(image, on_progress, cancel)
        return self._add(image, None, prompt, seed)

    def open(self, image, *, prompt="", negative_prompt="", seed=0, steps=None, guidance=None, sampler=None):
        self.calls.append("open")
        self._check(prompt, negative_prompt, seed, size=image.size, steps=steps, guidance=guidance)
        return self._add(image.copy(), None, prompt, seed)

    def edit(
        self,
        version_id,
        mask,
        prompt,
        *,
        negative_prompt=None,
        seed=0,
        variations=1,
        strength=1.0,
        guidance=None,
        mode="auto",
        blend_mask=None,
        soft=False,
        prompt_scope="region",
        on_progress=None,
        cancel=None,
    ):
        self.calls.append("edit")
        base = self.version(version_id)
        self._check(prompt, negative_prompt or "", seed, guidance=guidance, strength=strength, variations=variations)
        assert mask.shape == blend_mask.shape == base.image.size[::-1] and mask.any()
        candidates = []
        for number in range(variations):
            new = Image.new("RGB", base.image.size, colour_of(prompt, seed + number))
            image = Image.composite(new, base.image, Image.fromarray(np.asarray(blend_mask)))
            candidates.append(
                SimpleNamespace(
                    image=image, seed=seed + number, prompt=prompt, report=PaintingReport(), parent_id=version_id
                )
            )
        self._steps(candidates[0].image, on_progress, cancel)
        return candidates

    def verify(self, candidate, *, on_progress=None, cancel=None):
        """The dense result is a little brighter than the take."""
        self.calls.append("verify")
        self._steps(candidate.image, on_progress, cancel)
        image = candidate.image.point(lambda level: min(255, level + 8))
        dense = SimpleNamespace(**vars(candidate) | {"image": image, "report": PaintingReport(mode="dense")})
        return Check(dense, 30.07)

    def memory(self):
        held = {id: {"memory": size} for id, size in self.held.items()}
        return MemoryReport(held, {"memory": sum(self.held.values()), "disk": 0}, {"memory": 10**9, "disk": 10**9})

    def drop_cache(self, version_id):
        self.calls.append("drop_cache")
        del self.held[version_id]

    def refresh(self, version_id):
        self.calls.append("refresh")
        self.held[version_id] += 1_000_000

    def commit(self, candidate):
        self.calls.append("commit")
        return self._add(candidate.image, candidate.parent_id, candidate.prompt, candidate.seed)

    def export_version(self, version_id):
        version = self.version(version_id)
        facts = {name: getattr(version, name) for name in ("prompt", "seed", "steps", "sampler", "guidance")}
        facts |= {"negative_prompt": "", "size": list(version.image.size), "model": self.model_name}
        facts |= {"condition": ["", ""], "prompts": [{"start": 0, "texts": [[version.prompt, ""]]}]}
        arrays = {
            "cells": np.ones((2, 3), np.bool_),
            "latents": np.full((2, 4, 6), len(version.id), np.float32),
            "weights": np.ones(5, np.float32),
            "prompts.0.0": np.zeros(6, np.int32),
        }
        return SavedVersion(version.parent_id, facts, arrays)

    def is_ours(self, saved):
        return saved.facts["model"] == self.model_name

    def restore_version(self, lineage, image):
        self.calls.append("restore")
        facts = lineage[-1].facts
        assert list(image.size) == facts["size"]
        return self._add(image.copy(), None, facts["prompt"], facts["seed"])

    def version(self, version_id):
        if version_id not in self.versions:
            raise UserError("That version is gone.")
        return self.versions[version_id]

    def forget(self, version_id):
        self.calls.append("forget")
        del self.versions[version_id]

    def predict(self, version_id, mask, *, variations=1, strength=1.0, mode="auto"):
        height, width = mask.shape
        side = PREDICTED_TILE_PX
        padded = np.pad(mask > 0, ((0, -height % side), (0, -width % side)))
        tiles = padded.reshape(-(-height // side), side, -(-width // side), side).any(axis=(1, 3))
        assert self.version(version_id).image.size == (width, height)
        dense = mode == "dense"
        fraction = 1.0 if dense else float(tiles.mean())
        return Prediction(
            active_fraction=fraction,
            seconds=8 * fraction * variations,
            dense_seconds=8.0 * variations,
            mode="dense" if dense else "sparse",
            tiles=np.ones_like(tiles) if dense else tiles,
            tile_px=side,
            measured=True,
        )

    vocabulary = ("cactus", "castle", "cat", "field", "palm", "town")

    def token_count(self, prompt):
        return len(prompt.split()), 77

    def unknown_words(self, prompt):
        return [word for word in prompt.split() if word == "xyzzy"]

    def truncated_words(self, prompt):
        return " ".join(prompt.split()[77:])

    def close(self):
        self.calls.append("close")

    @staticmethod
    def _check(prompt, negative_prompt, seed, size=(64, 64), steps=None, guidance=None, strength=1.0, variations=1):
        """As strict about types as the real engine."""
        assert isinstance(prompt, str) and isinstance(negative_prompt, str) and isinstance(guidance, float | int | None)
        assert all(isinstance(number, int) for number in (seed, variations, *size, steps or 1))
        assert 0 < strength <= 1

    def _steps(self, image, on_progress, cancel):
        assert self.busy.acquire(blocking=False), "two jobs at once"
        try:
            for step in range(1, self.defaults.steps + 1):
                self.before_step(step)
                if cancel is not None and cancel.cancelled:
                    raise Cancelled
                if on_progress is not None:
                    on_progress(Progress("denoise", step, self.defaults.steps, image, (0, 0, *image.size), 0.1))
        finally:
            self.busy.release()

    def _add(self, image, parent_id, prompt, seed):
        version = SimpleNamespace(
            id=f"v{next(self._numbers)}",
            parent_id=parent_id,
            image=image,
            prompt=prompt,
            negative_prompt="",
            seed=seed,
            steps=self.defaults.steps,
            guidance=4.0,
            sampler="ddim",
            model_name=self.model_name,
            report=PaintingReport(),
        )
        self.versions[version.id] = version
        self.held[version.id] = 25_000_000
        return version


def colour_of(prompt: str, seed: int) -> tuple[int, int, int]:
    """A colour that is never a grey, so that it shows on any grey picture."""
    generator = np.random.default_rng([seed, *prompt.encode()])
    red, green, blue = (int(value) for value in generator.integers(0, 256, 3))
    return (red, green, blue if len({red, green, blue}) > 1 else (blue + 128) % 256)
