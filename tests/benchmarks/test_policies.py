"""The table of policies, with an engine whose edits are known: each way is asked for, measured and remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks import policies
from benchmarks.policies import DEFAULT, EVERYWHERE, REFEREE, WAYS, Log, Way, measure, paint, summary
from benchmarks.triples import SIZE, triples
from diffusion_engine import PlanPolicy, StepPolicy, UserError

USUAL = PlanPolicy((1, 1, 0))
ERRORS = {"dense": 0, "default": 1, "norm cached": 16, "dense, prompt everywhere": 40}


@dataclass
class KnownEngine:
    """Inside a mask it paints grey, as far from the dense pass as the way asked for says."""

    plan_policy: PlanPolicy = USUAL
    norm_policy: str = "delta"
    asked: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False

    def generate(self, prompt: str, **_: Any) -> Any:
        return SimpleNamespace(id=prompt, image=Image.new("RGB", (SIZE, SIZE), (10, 20, 30)))

    def edit(self, base: str, mask: np.ndarray, prompt: str, **options: Any) -> list[Any]:
        if self.refuses:
            raise UserError("No.")
        self.asked.append({"plan": self.plan_policy, "norm": self.norm_policy, "prompt": prompt, **options})
        way = "dense" if options["mode"] == "dense" else "norm cached" if self.norm_policy == "cached" else "default"
        way = "dense, prompt everywhere" if options["prompt_scope"] == "everywhere" else way
        picture = np.where(mask[..., None] > 0, np.uint8(100 + ERRORS[way]), np.uint8((10, 20, 30)))
        seconds = {"total": 4.0 if options["mode"] == "dense" else 1.0}
        return [SimpleNamespace(image=Image.fromarray(picture), report=SimpleNamespace(seconds=seconds))]

    def forget(self, _: str) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> KnownEngine:
    known = KnownEngine()
    monkeypatch.setattr(policies.EditableDiffusionEngine, "from_pretrained", lambda *_, **__: known)
    return known


SOME = (DEFAULT, REFEREE, EVERYWHERE, Way("norm cached", norm="cached"))


def test_the_table_says_how_far_each_way_is_from_the_dense_pass(engine: KnownEngine) -> None:
    log = Log(None)
    measure(triples(2), SOME, ("new prompt", "new seed"), log)
    rows = {(row["way"], row["kind"], row["area"]): row for row in summary(log.records, SOME)}
    assert len(log.records) == 8 * 2 * len(SOME)
    for way in SOME:
        row = rows[way.name, "new prompt", None]
        error = ERRORS[way.name]
        assert row["inside_db"] == pytest.approx(20 * np.log10(255 / error) if error else 99, abs=1e-3)
        assert (row["cases"], row["outside_differing"], row["worst_db"]) == (
            8,
            0,
            pytest.approx(row["inside_db"], abs=0.01),
        )
        assert row["times_dense"] == (4 if way.mode == "sparse" else 1)
        assert {"object_top1", "object_top5"} <= set(row)
        assert "object_top5" not in rows[way.name, "new seed", None], "the scene again shows no object"
        assert "object_top5" not in rows[way.name, "new prompt", 0.01], "too small to be told"
    prompts = {one["prompt"] for one in engine.asked}
    assert prompts == {case.words for case in triples(2)} | {case.scene for case in triples(2)}


def test_a_measurement_goes_on_where_it_stopped(engine: KnownEngine, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    measure(triples(1), (DEFAULT,), ("new prompt",), Log(file))
    first = len(engine.asked)
    measure(triples(1), (DEFAULT,), ("new prompt",), Log(file))
    assert len(engine.asked) == first
    log = Log(file)
    measure(triples(1), SOME, ("new prompt",), log)
    assert {one["way"] for one in log.records} == {way.name for way in SOME}
    assert log.records == Log(file).records and len(log.records) == 4 * len(SOME)


def test_each_way_asks_the_engine_for_what_it_names(engine: KnownEngine) -> None:
    base, case = engine.generate("a scene"), triples(1)[1]
    for way in WAYS:
        paint(engine, base, case, "new prompt", way)  # pyright: ignore[reportArgumentType]
        asked = engine.asked[-1]
        assert (asked["plan"], asked["norm"]) == (way.plan or USUAL, way.norm)
        assert (asked["policy"], asked["mode"], asked["seed"]) == (way.steps, way.mode, case.seed)
        assert (engine.plan_policy, engine.norm_policy) == (USUAL, "delta"), "as before"
    named = {way.name: way for way in WAYS}
    assert len(named) == len(WAYS)
    assert named["dense_first 4"].steps == StepPolicy(dense_first=4)
    assert named["grow 3"].plan == PlanPolicy((3,))


def test_an_edit_that_fails_leaves_the_engine_as_it_was(engine: KnownEngine) -> None:
    engine.refuses = True
    with pytest.raises(UserError):
        paint(engine, engine.generate("a scene"), triples(1)[0], "new seed", Way("w", PlanPolicy((9,)), "cached"))  # pyright: ignore[reportArgumentType]
    assert (engine.plan_policy, engine.norm_policy) == (USUAL, "delta")
