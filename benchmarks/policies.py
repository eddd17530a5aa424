"""Ways to paint an edit, each measured against the regional dense pass with the same noise.

The pass by rows under each policy, each number format of the caches, and the dense passes themselves: with the prompt
inside the mask only (the referee), and with the prompt everywhere (what inpainting usually does).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from benchmarks.model_quality import looked_at
from benchmarks.picture_measures import psnr, rim, seam, ssim
from benchmarks.triples import SIZE, STEPS, Triple
from diffusion_engine import EditableDiffusionEngine, PlanPolicy, StepPolicy, Version
from diffusion_engine.layers import NormPolicy
from training.judge import COLOURS, OBJECTS, load_judge

Kind = Literal["new prompt", "new seed"]
KINDS: tuple[Kind, ...] = ("new prompt", "new seed")
SMALLEST_JUDGED = 0.05  # of the picture's area; in less an object cannot be told

BY_ROWS = StepPolicy()  # every step

Record = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How an edit is painted; what is not given is the engine's default. dtype: of kept rows."""

    name: str
    plan: PlanPolicy | None = None
    norm: NormPolicy = "delta"
    steps: StepPolicy = BY_ROWS
    dtype: str = "auto"
    mode: Literal["sparse", "dense"] = "sparse"
    everywhere: bool = False


DEFAULT = Way("default")
REFEREE = Way("dense", mode="dense")
EVERYWHERE = Way("dense, prompt everywhere", mode="dense", everywhere=True)
WAYS = (
    DEFAULT,
    REFEREE,
    EVERYWHERE,
    Way("norm cached", norm="cached"),
    *(Way(f"grow {n}", PlanPolicy((n,))) for n in (0, 1, 2, 3)),
    *(Way(f"grow {', '.join(map(str, rows))}", PlanPolicy(rows)) for rows in ((2, 1, 0), (1, 1, 2), (1, 0, 0))),
    *(Way(f"dense_first {n}", steps=StepPolicy(dense_first=n)) for n in (2, 4)),
    *(Way(f"refresh_every {n}", steps=StepPolicy(refresh_every=n)) for n in (10, 5)),
    *(Way(f"dense_last {n}", steps=StepPolicy(dense_last=n)) for n in (2, 4)),
    *(Way(f"caches in {dtype}", dtype=dtype) for dtype in ("fp32", "int8")),
)


class Log:
    """Records that are kept as they come, one JSON line each, so that a long measurement goes on where it stopped."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def has(self, way: Way, kind: Kind, case: Triple) -> bool:
        return any((one["way"], one["kind"], one["case"]) == (way.name, kind, case.number) for one in self.records)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


def measure(cases: Sequence[Triple], ways: Sequence[Way], kinds: Sequence[Kind], log: Log) -> None:
    """Adds a record for each case, kind and way. The ways of one case take turns, so their seconds compare."""
    for dtype, group in groupby(sorted(ways, key=lambda way: way.dtype), key=lambda way: way.dtype):
        some = list(group)
        engine = EditableDiffusionEngine.from_pretrained("starter", cache_dtype=dtype)
        for _, of_scene in groupby(cases, key=lambda case: case.scene):
            listed = list(of_scene)
            due: list[tuple[Triple, Kind]] = [
                (case, kind) for case in listed for kind in kinds if not all(log.has(way, kind, case) for way in some)
            ]
            if not due:
                continue
            seed = listed[0].number
            base = engine.generate(listed[0].scene, size=(SIZE, SIZE), steps=STEPS, seed=seed)
            for case, kind in due:
                _measure_case(engine, base, case, kind, [way for way in some if not log.has(way, kind, case)], log)
            engine.forget(base.id)
        engine.close()


def _measure_case(
    engine: EditableDiffusionEngine, base: Version, case: Triple, kind: Kind, ways: Sequence[Way], log: Log
) -> None:
    dense, dense_s = paint(engine, base, case, kind, REFEREE)
    inside = case.mask > 0
    border, before = rim(inside), np.asarray(base.image)
    for way in ways:
        picture, seconds = (dense, dense_s) if way is REFEREE else paint(engine, base, case, kind, way)
        seen = _seen(picture, inside, case) if kind == "new prompt" and case.area >= SMALLEST_JUDGED else {}
        log.add(
            {
                "way": way.name,
                "kind": kind,
                "case": case.number,
                "scene": case.scene,
                "words": case.words,
                "area": case.area,
                "outline": case.outline,
                "inside_db": psnr(picture, dense, inside),
                "rim_db": psnr(picture, dense, border),
                "inside_ssim": ssim(picture, dense, inside),
                "rim_ssim": ssim(picture, dense, border),
                "outside_differing": int((picture[~inside] != before[~inside]).sum()),
                "seam": seam(picture, inside),
                "seconds": seconds,
                "times_dense": dense_s / seconds,
                **seen,
            }
        )


def paint(
    engine: EditableDiffusionEngine, base: Version, case: Triple, kind: Kind, way: Way
) -> tuple[np.ndarray[Any, Any], float]:
    """The picture uint8 [SIZE, SIZE, 3] and the seconds that it took."""
    usual = engine.plan_policy, engine.norm_policy
    engine.plan_policy, engine.norm_policy = way.plan or usual[0], way.norm
    scope: Any = "everywhere" if way.everywhere else "region"
    prompt = case.words if kind == "new prompt" else case.scene
    try:
        [candidate] = engine.edit(
            base.id, case.mask, prompt, seed=case.seed, mode=way.mode, policy=way.steps, prompt_scope=scope
        )
    finally:
        engine.plan_policy, engine.norm_policy = usual
    return np.asarray(candidate.image), candidate.report.seconds["total"]


def _seen(picture: np.ndarray[Any, Any], inside: np.ndarray[Any, Any], case: Triple) -> Record:
    """What the judge says of the square around the mask: the rank of the right object, 0 the best, and the colour."""
    rows, columns = (np.flatnonzero(inside.any(axis)) for axis in (1, 0))
    box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    verdict = load_judge().look([looked_at(Image.fromarray(picture), box)])
    scores = verdict.objects[0]
    found: Record = {"object_rank": int((scores > scores[OBJECTS.index(case.thing)]).sum())}
    if case.colour:
        found["colour_right"] = COLOURS[int(verdict.colours[0].argmax())] == case.colour
    return found


def summary(records: Iterable[Record], ways: Sequence[Way]) -> list[Record]:
    """One row per way, kind and area (None: all of them): medians, the worst case, and the judge's shares."""
    listed = list(records)
    rows: list[Record] = []
    for way in ways:
        for kind in KINDS:
            here = [one for one in listed if (one["way"], one["kind"]) == (way.name, kind)]
            for area in (*sorted({one["area"] for one in here}), None):
                some = [one for one in here if area in (one["area"], None)]
                if some:
                    rows.append({"way": way.name, "kind": kind, "area": area, **_row(some)})
    return rows


def _row(some: Sequence[Record]) -> Record:
    keys = ("inside_db", "rim_db", "inside_ssim", "rim_ssim", "seam", "seconds", "times_dense")
    row: Record = {key: round(statistics.median(_finite(one[key] for one in some)), 4) for key in keys}
    row["worst_db"] = round(min(one["inside_db"] for one in some), 2)
    row["outside_differing"] = sum(one["outside_differing"] for one in some)
    ranks = [one["object_rank"] for one in some if "object_rank" in one]
    colours = [one["colour_right"] for one in some if "colour_right" in one]
    if ranks:
        row["object_top1"] = round(sum(rank == 0 for rank in ranks) / len(ranks), 4)
        row["object_top5"] = round(sum(rank < 5 for rank in ranks) / len(ranks), 4)
    if colours:
        row["colour"] = round(sum(colours) / len(colours), 4)
    return {**row, "cases": len(some)}


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)] or [math.nan]
