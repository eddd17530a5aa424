"""`deltabrush bench edit`: whole edits, from the request to the bytes of a PNG, by rows and densely, in turns.

Also: a whole picture from nothing, an edit that is sent the moment a picture is opened (the base pass has not run), and
one that comes after it. `--shape sd15` does the same on an SD 1.5-shaped model with random weights.
`--through-http` measures instead what a person sees in the browser, and what the editor adds to the engine's own time.
"""

from __future__ import annotations

import io
import statistics
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measuring import arguments, publish
from benchmarks.shapes import sd15_engine
from diffusion_engine import EditableDiffusionEngine, Progress

SIZE, AREAS = 512, (0.012, 0.05, 0.10, 0.30)
PROMPT = "a red balloon"


def area_mask(area: float) -> NDArray[np.uint8]:
    """uint8 [512, 512] with a centred square of the given share of the area."""
    edge = round(SIZE * area**0.5)
    start = (SIZE - edge) // 2
    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[start : start + edge, start : start + edge] = 255
    return mask


class TimedEdit:
    """One edit to PNG bytes, with the moments at which its steps were done."""

    def __init__(self, engine: EditableDiffusionEngine, version: str, mask: Any, seed: int, mode: Any) -> None:
        self.moments: list[float] = []
        self._begun = time.perf_counter()
        [candidate] = engine.edit(version, mask, PROMPT, seed=seed, mode=mode, on_progress=self._note)
        candidate.image.save(io.BytesIO(), "PNG", compress_level=1)  # as the page sends it
        self.seconds = time.perf_counter() - self._begun
        self.report = candidate.report

    def _note(self, progress: Progress) -> None:
        if progress.stage == "denoise":
            self.moments.append(time.perf_counter() - self._begun)


def summary(edits: list[TimedEdit]) -> dict[str, Any]:
    times = sorted(edit.seconds for edit in edits)
    steps = [b - a for edit in edits for a, b in zip(edit.moments, edit.moments[1:], strict=False)]
    return {
        "p50_s": statistics.median(times),
        "p95_s": float(np.quantile(times, 0.95)),
        "p99_s": float(np.quantile(times, 0.99)),
        "first_preview_s": statistics.median(edit.moments[0] for edit in edits),
        "step_s": statistics.median(steps) if steps else None,
        "mode": edits[-1].report.mode,
    }


def warm_edits(engine: EditableDiffusionEngine, steps: int, repeats: int) -> list[dict[str, Any]]:
    """Edits of a generated picture, whose cache is warm, against dense ones; all areas take turns."""
    base = engine.generate("desert dunes under a clear blue sky", size=(SIZE, SIZE), steps=steps, seed=1)
    masks = {area: area_mask(area) for area in AREAS}
    sparse: dict[float, list[TimedEdit]] = {area: [] for area in AREAS}
    dense: list[TimedEdit] = []
    for mask in masks.values():  # one unmeasured round
        TimedEdit(engine, base.id, mask, 0, "sparse")
    for seed in range(repeats):
        dense.append(TimedEdit(engine, base.id, masks[0.05], seed, "dense"))
        for area, mask in masks.items():
            sparse[area] += [TimedEdit(engine, base.id, mask, seed + 100 * k, "sparse") for k in range(3)]
    reference = summary(dense)
    engine.forget(base.id)
    return [
        {
            "area": area,
            "active_fraction": sparse[area][-1].report.active_fraction,
            "sparse": summary(sparse[area]),
            "dense": reference,
            "speedup": reference["p50_s"] / summary(sparse[area])["p50_s"],
        }
        for area in AREAS
    ]


def opened_edits(engine: EditableDiffusionEngine, steps: int, repeats: int) -> dict[str, Any]:
    """An edit sent at once after opening a picture, one sent when it is recorded, and a dense one, in turns."""
    picture = engine.generate("a flower meadow under a blue sky", size=(SIZE, SIZE), steps=steps, seed=2).image
    mask = area_mask(0.05)
    times: dict[str, list[float]] = {"at_once_s": [], "base_pass_s": [], "recorded_s": [], "dense_s": []}
    for seed in range(repeats):
        opened = engine.open(picture, steps=steps)
        times["at_once_s"].append(TimedEdit(engine, opened.id, mask, seed, "auto").seconds)
        engine.wait_until_recorded(opened.id)
        engine.forget(opened.id)
        begun = time.perf_counter()
        opened = engine.open(picture, steps=steps)
        engine.wait_until_recorded(opened.id)
        times["base_pass_s"].append(time.perf_counter() - begun)
        times["recorded_s"].append(TimedEdit(engine, opened.id, mask, seed, "auto").seconds)
        times["dense_s"].append(TimedEdit(engine, opened.id, mask, seed, "dense").seconds)
        engine.forget(opened.id)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {**medians, "at_once_over_dense": medians["at_once_s"] / medians["dense_s"]}


def generation(engine: EditableDiffusionEngine, steps: int, repeats: int) -> dict[str, float]:
    """Seconds of a whole picture from nothing, recording included."""
    times: list[float] = []
    for seed in range(repeats):
        begun = time.perf_counter()
        version = engine.generate("green hills under a clear blue sky", size=(SIZE, SIZE), steps=steps, seed=seed)
        times.append(time.perf_counter() - begun)
        engine.forget(version.id)
    return {"p50_s": statistics.median(times), "least_s": min(times)}


def main(argv: list[str]) -> int:
    shape = {"choices": ("starter", "sd15"), "default": "starter", "help": "which model (default starter)"}
    steps = {"type": int, "default": 20, "help": "sampler steps (default 20)"}
    through = {"action": "store_true", "help": "in a real browser, against the engine's own time"}
    options = arguments(__doc__ or "", argv, shape=shape, steps=steps, through_http=through)
    if options.through_http:
        from benchmarks.through_http import edits_in_the_browser

        return publish(edits_in_the_browser(options.steps, options.repeats), options.json)
    engine = sd15_engine() if options.shape == "sd15" else EditableDiffusionEngine.from_pretrained("starter")
    figures = {
        "model": options.shape,
        "size": [SIZE, SIZE],
        "steps": options.steps,
        "threads": torch.get_num_threads(),
        "generation": generation(engine, options.steps, options.repeats),
        "warm": warm_edits(engine, options.steps, options.repeats),
        "opened": opened_edits(engine, options.steps, options.repeats),
    }
    engine.close()
    return publish(figures, options.json)
