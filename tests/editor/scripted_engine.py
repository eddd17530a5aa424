"""An engine that does as it is told: paints one flat colour through the blend mask, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from diffusion_engine import Cancelled, CancelToken, Progress, UserError

STAGES = {"record": 2, "denoise": 4, "decode": 1}


@dataclass(frozen=True)
class ScriptedReport:
    mode: str = "sparse"
    active_fraction: float = 0.25
    active_fraction_per_level: list[float] = field(default_factory=lambda: [0.25, 0.5])
    seconds: dict[str, float] = field(default_factory=lambda: {"denoise": 1.5, "total": 2.0})
    dense_seconds_estimate: float = 8.0
    speedup: float = 4.0
    cache_bytes: int = 1000
    dense_steps: int = 0
    sparse_steps: int = 4

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ScriptedVersion:
    id: str
    image: Image.Image
    prompt: str = ""
    negative_prompt: str = ""
    seed: int = 0
    steps: int = 4
    guidance: float = 5.0
    sampler: str = "ddim"
    model_name: str = "scripted"
    parent_id: str | None = None
    report: ScriptedReport = field(default_factory=ScriptedReport)


@dataclass(frozen=True)
class ScriptedCandidate:
    image: Image.Image
    seed: int
    parent_id: str
    report: ScriptedReport


class ScriptedEngine:
    """`on_step` is called at every step, to press Ctrl-C or fail; `leak` changes the last pixel, masked or not."""

    model_name = "scripted"
    samplers = ("ddim",)
    defaults = SimpleNamespace(steps=4, guidance=5.0, size=(512, 512), sampler="ddim")
    colour = (10, 200, 30)

    def __init__(self) -> None:
        self.loaded_with: dict[str, Any] | None = None
        self.asked: dict[str, Any] = {}
        self.steps_run = 0
        self.closed = False
        self.leak = False
        self.report = ScriptedReport()
        self.on_step: Callable[[], None] = lambda: None
        self.known_words: set[str] | None = None
        self._versions: dict[str, ScriptedVersion] = {}

    def load(self, **options: Any) -> ScriptedEngine:
        self.loaded_with = options
        return self

    def generate(
        self,
        prompt: str,
        *,
        size: tuple[int, int] = (512, 512),
        negative_prompt: str = "",
        seed: int = 0,
        steps: int | None = None,
        guidance: float | None = None,
        sampler: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> ScriptedVersion:
        self.asked = {"size": size, "seed": seed, "steps": steps, "guidance": guidance}
        self._work(on_progress, cancel)
        image = Image.new("RGB", size, self.colour)
        return self._keep(image, prompt=prompt, negative_prompt=negative_prompt, seed=seed)

    def open(
        self,
        image: Image.Image,
        *,
        prompt: str = "",
        negative_prompt: str = "",
        seed: int = 0,
        steps: int | None = None,
        guidance: float | None = None,
        sampler: str | None = None,
    ) -> ScriptedVersion:
        return self._keep(image, prompt=prompt, seed=seed, steps=steps or self.defaults.steps)

    def edit(
        self,
        version_id: str,
        mask: np.ndarray,
        prompt: str,
        *,
        negative_prompt: str | None = None,
        seed: int = 0,
        variations: int = 1,
        strength: float = 1.0,
        guidance: float | None = None,
        mode: str = "auto",
        blend_mask: np.ndarray | None = None,
        soft: bool = False,
        prompt_scope: str = "region",
        on_progress: Callable[[Progress], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> list[ScriptedCandidate]:
        if version_id not in self._versions:
            raise UserError("There is no such version: open the picture again.")
        parent = np.asarray(self._versions[version_id].image)
        blend = mask if blend_mask is None else blend_mask
        assert mask.shape == blend.shape == parent.shape[:2]
        assert not blend[mask == 0].any()
        self.asked = {
            "prompt": prompt,
            "negative_prompt": negative_prompt,
            "seed": seed,
            "mask": mask,
            "blend": blend,
            "strength": strength,
            "guidance": guidance,
            "mode": mode,
        }
        self._work(on_progress, cancel)
        alpha = blend[..., None] / 255
        painted = np.rint(parent * (1 - alpha) + np.array(self.colour) * alpha).astype(np.uint8)
        if self.leak:
            painted[-1, -1] ^= 1
        image = Image.fromarray(painted)
        return [ScriptedCandidate(image, seed + k, version_id, self.report) for k in range(variations)]

    def version(self, version_id: str) -> ScriptedVersion:
        return self._versions[version_id]

    def unknown_words(self, prompt: str) -> list[str]:
        return [] if self.known_words is None else [word for word in prompt.split() if word not in self.known_words]

    def truncated_words(self, prompt: str) -> str:
        return " ".join(prompt.split()[75:])

    def close(self) -> None:
        self.closed = True

    def _work(self, on_progress: Callable[[Progress], None] | None, cancel: CancelToken | None) -> None:
        for stage, steps in STAGES.items():
            for step in range(1, steps + 1):
                if cancel is not None and cancel.cancelled:
                    raise Cancelled
                self.steps_run += 1
                self.on_step()
                if on_progress is not None:
                    on_progress(Progress(stage, step, steps, None, None))

    def _keep(self, image: Image.Image, **made_with: Any) -> ScriptedVersion:
        version = ScriptedVersion(f"v{len(self._versions)}", image, **made_with)
        self._versions[version.id] = version
        return version
