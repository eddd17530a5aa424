"""Refreshing a version, and checking an edit: dense passes behind edits by rows, and what they leave alone."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from diffusion_engine import Cancelled, CancelToken, EditableDiffusionEngine, Version
from diffusion_engine.recording import Recording
from tests.engine.conftest import Make, square

SIZE = (64, 64)
QUICK: dict[str, Any] = {"size": SIZE, "steps": 3, "seed": 7}
LEFT, RIGHT = square(SIZE, 4, 8, 16), square(SIZE, 40, 40, 20)


@pytest.fixture
def make(make: Make) -> Make:
    """Engines that keep what they compute as it is."""
    return lambda **options: make(**{"cache_dtype": "fp32", **options})


def edited(engine: EditableDiffusionEngine, base: Version, mask: Any = LEFT, prompt: str = "a cat") -> Version:
    return engine.commit(engine.edit(base.id, mask, prompt, seed=3, mode="sparse")[0])


def picture(engine: EditableDiffusionEngine, version: Version) -> bytes:
    """Of an edit by rows, which reads every slot of the version's caches."""
    return engine.edit(version.id, RIGHT, "a dog", seed=5, mode="sparse")[0].image.tobytes()


def recordings(engine: EditableDiffusionEngine) -> list[Recording]:
    return engine._bench.store._recordings  # pyright: ignore[reportPrivateUsage]


def test_a_refreshed_version_has_no_drift_and_the_others_keep_their_caches(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    middle = edited(engine, base)
    child = edited(engine, middle, RIGHT, "a house")
    before = {one.id: (picture(engine, one), engine.drift(one.id)) for one in (base, child)}
    assert engine.drift(middle.id) > 1e-3
    engine.refresh(middle.id)
    assert engine.wait_until_recorded(middle.id, 60)
    assert engine.drift(middle.id) < 1e-5
    passes = engine.dense_passes
    assert {one.id: picture(engine, one) for one in (base, child)} == {k: v[0] for k, v in before.items()}
    assert engine.dense_passes == passes, "nothing had to be recorded again"
    assert {one.id: engine.drift(one.id) for one in (base, child)} == {k: v[1] for k, v in before.items()}
    again = edited(engine, middle, RIGHT, "a tree")
    assert again.report.dense_steps == 0 and engine.drift(again.id) < 2 * engine.drift(child.id)


def test_until_it_is_complete_the_version_keeps_the_caches_it_has(make: Make) -> None:
    engine = make()
    tip = edited(engine, engine.generate("the sea", **QUICK))
    before, holding, go_on = picture(engine, tip), threading.Event(), threading.Event()

    def hold(progress: Any) -> None:
        if progress.stage == "denoise":
            holding.set()
            assert go_on.wait(60)

    edit = threading.Thread(target=lambda: engine.edit(tip.id, LEFT, "a cow", on_progress=hold))
    edit.start()
    assert holding.wait(60)  # the engine is busy, so what is asked for now waits behind it
    asked = threading.Thread(target=lambda: engine.refresh(tip.id))
    asked.start()
    results: list[bytes] = []
    second = threading.Thread(target=lambda: results.append(picture(engine, tip)))
    second.start()
    go_on.set()
    for thread in (edit, asked, second):
        thread.join(60)
    assert results == [before]
    assert engine.wait_until_recorded(tip.id, 60) and engine.drift(tip.id) < 1e-5


def test_a_leaf_that_is_refreshed_twice_holds_one_recording(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    full = engine.cache_bytes
    tip = edited(engine, base)
    for _ in range(2):
        engine.refresh(tip.id)
        engine.refresh(tip.id)
        assert engine.wait_until_recorded(tip.id, 60)
        assert len(recordings(engine)) == 2 and engine.cache_bytes == pytest.approx(2 * full, rel=0.01)


def test_forgetting_lets_all_of_it_go(make: Make) -> None:
    """Also the caches of a refreshed version that led to others, and a recording that is not complete."""
    engine = make()
    base = engine.generate("the sea", **QUICK)
    held = engine.cache_bytes
    middle = edited(engine, base)
    edited(engine, middle, RIGHT)
    engine.refresh(middle.id)
    assert engine.wait_until_recorded(middle.id, 60)
    edited(engine, middle, RIGHT)
    engine.refresh(middle.id)
    engine.forget(middle.id)
    engine.wait_until_recorded(base.id, 60)
    assert engine.cache_bytes == held and len(recordings(engine)) == 1
    expected = picture(engine, base)
    root = edited(engine, base)
    engine.refresh(base.id)
    assert engine.wait_until_recorded(base.id, 60) and len(recordings(engine)) == 2
    assert picture(engine, base) == expected
    engine.forget(root.id)
    assert len(recordings(engine)) == 1, "the old recording of the base led to nobody any more"
    engine.forget(base.id)
    assert engine.cache_bytes == 0


def test_without_room_the_old_caches_stay(make: Make) -> None:
    engine = make(cache_disk_bytes=0)
    base = engine.generate("the sea", **QUICK)
    tip = edited(engine, base)
    before = picture(engine, tip)
    budget = engine._bench.store.tiers["memory"].budget  # pyright: ignore[reportPrivateUsage]
    budget.capacity = engine.cache_bytes // 3
    engine.refresh(tip.id)
    assert not engine.wait_until_recorded(tip.id, 60)
    assert [one.pending for one in recordings(engine)] == [False]
    budget.capacity = 10**9
    assert picture(engine, tip) == before


@pytest.mark.parametrize("room", [True, False], ids=["room", "no room"])
def test_a_drifting_tip_is_refreshed_by_itself_where_there_is_room(make: Make, room: bool) -> None:
    engine = make(cache_disk_bytes=0)
    engine.refresh_at = 0.2
    tip = engine.generate("the sea", **QUICK)
    full, commits, passes = engine.cache_bytes, 0, engine.dense_passes
    if not room:
        engine._bench.store.tiers["memory"].budget.capacity = int(1.9 * full)  # pyright: ignore[reportPrivateUsage]
    estimates: list[float] = []
    while len(estimates) < 9 and engine.dense_passes == passes:
        tip, commits = edited(engine, tip, (LEFT, RIGHT)[commits % 2]), commits + 1
        engine.wait_until_recorded(tip.id, 60)
        recording = engine._bench.store.find(tip.id)  # pyright: ignore[reportPrivateUsage]
        assert recording is not None
        estimates.append(recording.drift_estimate(tip.id))
    assert (engine.dense_passes > passes) is room
    if room:
        assert estimates[-1] == 0 and engine.drift(tip.id) < 1e-5 and 1 < len(estimates) < 9
        assert estimates[:-1] == sorted(estimates[:-1]) and estimates[-2] <= 0.2


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_a_check_is_the_dense_edit_with_the_same_noise(make: Make, mode: Any) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    candidates = engine.edit(base.id, LEFT, "a cat", seed=3, variations=2, mode=mode)
    dense = engine.edit(base.id, LEFT, "a cat", seed=4, mode="dense")[0]
    held = engine.cache_bytes
    check = engine.verify(candidates[1])
    assert np.array_equal(np.asarray(check.dense.image), np.asarray(dense.image))
    assert check.dense.seed == 4 and check.dense.report.sparse_steps == 0 and engine.cache_bytes == held
    error = np.asarray(candidates[1].image).astype(float) - np.asarray(dense.image)
    inside = LEFT > 0
    if mode == "sparse":
        assert check.psnr_db == pytest.approx(10 * math.log10(255**2 / (error[inside] ** 2).mean()))
        assert check.psnr_db > 15
    else:
        assert check.psnr_db > 45  # two in a batch against one: rounding
    taken = engine.commit(check.dense)
    assert np.array_equal(np.asarray(taken.image), np.asarray(dense.image))
    assert engine.wait_until_recorded(taken.id, 60) and engine.drift(taken.id) < 1e-5


def test_a_check_of_nothing_painted_is_perfect_and_computes_nothing(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    [candidate] = engine.edit(base.id, np.zeros_like(LEFT), "a cat")
    passes = engine.dense_passes
    check = engine.verify(candidate)
    assert check.dense is candidate and check.psnr_db == math.inf and engine.dense_passes == passes


def test_a_check_that_is_cancelled_leaves_the_candidate(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    [candidate] = engine.edit(base.id, LEFT, "a cat", mode="sparse")
    token = CancelToken()
    with pytest.raises(Cancelled):
        engine.verify(candidate, on_progress=lambda _: token.cancel(), cancel=token)
    assert engine.commit(candidate).report.mode == "sparse"
