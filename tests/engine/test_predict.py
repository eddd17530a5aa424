"""A prediction is the edit that is then run: same rows, same mode, same share; and it never waits for the computer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils._python_dispatch import TorchDispatchMode

from diffusion_engine import Candidate, EditableDiffusionEngine, Prediction, UserError, Version
from diffusion_engine.cost_model import PassTimer
from diffusion_engine.recording_store import RecordingStore
from tests.engine.conftest import square

SIZES = [(128, 128), (200, 77), (65, 130)]
NAMES = ["one pixel", "stroke", "border", "full", "grey"]


def mask_of(name: str, size: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    width, height = size
    y, x = np.mgrid[:height, :width]
    shapes = {
        "one pixel": (y == height - 1) & (x == width - 1),
        "stroke": abs(y * width - x * height) < 3 * width,
        "border": (y == 0) | (x == 0) | (y == height - 1) | (x == width - 1),
        "full": y >= 0,
    }
    if name == "grey":
        return np.clip(255 - 8 * np.hypot(y - height // 2, x - width // 2), 0, 255).astype(np.uint8)
    return np.where(shapes[name], 255, 0).astype(np.uint8)


@pytest.fixture(scope="module")
def bases(starter: EditableDiffusionEngine) -> dict[tuple[int, int], Version]:
    return {size: starter.generate("green hills", size=size, steps=4, seed=7) for size in SIZES}


@pytest.fixture(scope="module")
def base(bases: dict[tuple[int, int], Version]) -> Version:
    return bases[SIZES[0]]


class SetTimer:
    """Each pass takes the seconds that its kind was given, however much it computes."""

    measured = True

    def __init__(self, sparse: float, dense: float) -> None:
        self._seconds = {"sparse": sparse, "dense": dense}

    def predict(self, kind: str, macs: int) -> float:
        return self._seconds[kind]

    def observe(self, kind: str, seconds: float, macs: int) -> None:
        pass


@pytest.fixture
def set_timer(starter: EditableDiffusionEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    def setter(sparse: float, dense: float) -> None:
        bench = starter._bench  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(bench, "timer", SetTimer(sparse, dense))
        monkeypatch.setattr(bench, "decode_timer", SetTimer(sparse / 10, dense / 10))

    return setter


def computed_tiles(candidate: Candidate, prediction: Prediction) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The rows of the finest level that an edit by rows computed."""
    tiles = np.zeros(prediction.tiles.size, np.bool_)
    tiles[candidate.deltas.slots[0][0].active[0].numpy()] = True
    return tiles.reshape(prediction.tiles.shape)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tiles_and_share_are_those_of_the_edit(
    starter: EditableDiffusionEngine,
    bases: dict[tuple[int, int], Version],
    size: tuple[int, int],
    name: str,
    soft: bool,
) -> None:
    mask, base = mask_of(name, size), bases[size]
    prediction = starter.predict(base.id, mask, mode="sparse")
    [candidate] = starter.edit(base.id, mask, "a cat", mode="sparse", soft=soft)
    assert prediction.mode == candidate.report.mode == "sparse"
    assert prediction.active_fraction == candidate.report.active_fraction
    assert prediction.tiles.mean() == candidate.report.active_fraction_per_level[0]
    assert np.array_equal(prediction.tiles, computed_tiles(candidate, prediction))
    in_pixels = prediction.tiles.repeat(prediction.tile_px, 0).repeat(prediction.tile_px, 1)[: size[1], : size[0]]
    assert in_pixels[mask > 0].all(), "what is painted is computed again"
    assert in_pixels.all() == (name == "full")


@pytest.mark.parametrize(("mode", "sparse", "expected"), [("auto", 1, "sparse"), ("auto", 9, "dense")])
def test_mode_is_the_one_that_the_edit_takes(
    starter: EditableDiffusionEngine,
    base: Version,
    set_timer: Callable[[float, float], None],
    mode: Any,
    sparse: float,
    expected: str,
) -> None:
    set_timer(sparse, 8)
    mask = mask_of("stroke", SIZES[0])
    prediction = starter.predict(base.id, mask, mode=mode)
    report = starter.edit(base.id, mask, "a cat", mode=mode)[0].report
    assert prediction.mode == report.mode == expected
    assert prediction.active_fraction == report.active_fraction
    assert prediction.tiles.all() == (expected == "dense")


def test_forced_dense_is_everything(starter: EditableDiffusionEngine, base: Version) -> None:
    mask = mask_of("one pixel", SIZES[0])
    prediction = starter.predict(base.id, mask, mode="dense")
    assert prediction.mode == "dense" and prediction.tiles.all() and prediction.tiles.shape == (16, 16)
    assert prediction.seconds == prediction.dense_seconds
    report = starter.edit(base.id, mask, "a cat", mode="dense")[0].report
    assert prediction.active_fraction == report.active_fraction == 1


@pytest.mark.parametrize(
    ("options", "sampler", "seconds", "dense_seconds"),
    [
        ({}, "ddim", 4 * 10 + 1, 4 * 80 + 8),
        ({"strength": 0.5}, "ddim", 2 * 10 + 1, 2 * 80 + 8),
        ({"strength": 0.01}, "ddim", 10 + 1, 80 + 8),
        ({"mode": "dense"}, "ddim", 4 * 80 + 8, 4 * 80 + 8),
        ({}, "heun", 7 * 10 + 1, 7 * 80 + 8),
        ({"strength": 0.5}, "heun", 5 * 10 + 1, 5 * 80 + 8),  # a start between its two calls would be none
    ],
    ids=str,
)
def test_seconds_count_the_passes_that_run(
    starter: EditableDiffusionEngine,
    set_timer: Callable[[float, float], None],
    options: dict[str, Any],
    sampler: str,
    seconds: float,
    dense_seconds: float,
) -> None:
    made = starter.generate("the sea", size=SIZES[0], steps=4, sampler=sampler)
    set_timer(10, 80)
    mask = mask_of("stroke", SIZES[0])
    prediction = starter.predict(made.id, mask, **options)
    assert prediction.seconds == pytest.approx(seconds)
    assert prediction.dense_seconds == pytest.approx(dense_seconds)
    report = starter.edit(made.id, mask, "a cat", **options)[0].report
    assert 10 * report.sparse_steps + 80 * report.dense_steps == pytest.approx(seconds, abs=8)
    starter.forget(made.id)


def test_variations_cost_their_share(starter: EditableDiffusionEngine, base: Version) -> None:
    one, four = (starter.predict(base.id, mask_of("stroke", SIZES[0]), variations=n, mode="sparse") for n in (1, 4))
    assert four.dense_seconds == pytest.approx(4 * one.dense_seconds)
    assert one.seconds < four.seconds <= 4 * one.seconds * (1 + 1e-9), "the overhead of a call is paid once"
    assert four.active_fraction == one.active_fraction


@pytest.mark.parametrize("mode", ["auto", "sparse", "dense"])
def test_an_empty_mask_costs_nothing(starter: EditableDiffusionEngine, base: Version, mode: Any) -> None:
    mask = np.zeros((128, 128), np.uint8)
    prediction = starter.predict(base.id, mask, mode=mode)
    report = starter.edit(base.id, mask, "a cat", mode=mode)[0].report
    assert (prediction.active_fraction, prediction.seconds, prediction.mode) == (0, 0, report.mode)
    assert report.active_fraction == 0 and not prediction.tiles.any()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mask": np.zeros((64, 65), np.uint8)}, "65 x 64.*128 x 128"),
        ({"variations": 0}, "variations"),
        ({"variations": 1.5}, "variations"),
        ({"strength": 0}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"mode": "fast"}, "mode"),
        ({"version_id": "nowhere"}, "nowhere"),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
def test_what_an_edit_refuses_is_refused(
    starter: EditableDiffusionEngine, base: Version, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        starter.predict(**{"version_id": base.id, "mask": mask_of("full", SIZES[0]), **options})


class NoTorch(TorchDispatchMode):
    """Fails at any torch operator of this thread."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} ran")


@pytest.mark.parametrize("mode", ["auto", "sparse", "dense"])
def test_no_torch_operator_runs_on_the_callers_thread(
    starter: EditableDiffusionEngine, base: Version, mode: Any
) -> None:
    for name in NAMES:
        with NoTorch():
            starter.predict(base.id, Image.fromarray(mask_of(name, SIZES[0])), mode=mode, strength=0.5, variations=2)


@contextmanager
def elsewhere(work: Callable[[], Any]) -> Generator[Future[Any]]:
    """Work on another thread, finished when the block ends."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def answer(starter: EditableDiffusionEngine, base: Version) -> Prediction:
    """A prediction asked for on a thread of its own; fails where it has to wait for the test to go on."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(starter.predict, base.id, mask_of("stroke", SIZES[0])).result(timeout=60)
    finally:
        pool.shutdown(wait=False)


def test_it_answers_while_the_compute_thread_is_busy(starter: EditableDiffusionEngine, base: Version) -> None:
    begun, free = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        free.wait()

    compute = starter._compute  # pyright: ignore[reportPrivateUsage]
    with elsewhere(lambda: compute.run(busy)) as job:
        try:
            begun.wait()
            assert 0 < answer(starter, base).active_fraction < 1 and not job.done()
        finally:
            free.set()


def test_it_answers_in_the_middle_of_an_edit(starter: EditableDiffusionEngine, base: Version) -> None:
    mask = mask_of("stroke", SIZES[0])
    alone = starter.edit(base.id, mask, "a cat", mode="sparse")[0]
    seen: list[Prediction] = []
    [during] = starter.edit(
        base.id, mask, "a cat", mode="sparse", on_progress=lambda _: seen.append(answer(starter, base))
    )
    assert len(seen) >= 4 and all(one.active_fraction == during.report.active_fraction for one in seen)
    assert during.image.tobytes() == alone.image.tobytes()


def test_it_answers_while_another_version_is_forgotten(
    starter: EditableDiffusionEngine, base: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free = threading.Event(), threading.Event()
    drop = RecordingStore.drop

    def slow_drop(*args: Any) -> None:
        begun.set()
        free.wait()
        drop(*args)

    other = starter.generate("the sea", size=SIZES[0], steps=1)
    monkeypatch.setattr(RecordingStore, "drop", slow_drop)
    with elsewhere(lambda: starter.forget(other.id)):
        try:
            begun.wait()
            assert answer(starter, base).mode in ("sparse", "dense")
        finally:
            free.set()


def test_tiles_cover_the_padded_picture(starter: EditableDiffusionEngine) -> None:
    """A dab at the edge of an odd size lies in the last tile of the picture, before those of the padding."""
    made = starter.generate("the sea", size=(100, 70), steps=1)
    mask = square((100, 70), 99, 69, 1)
    prediction = starter.predict(made.id, mask, mode="sparse")
    assert prediction.tile_px == 8 and prediction.tiles.shape == (12, 16)
    assert prediction.tiles[69 // 8, 99 // 8] and not prediction.tiles[:6].any()
    starter.forget(made.id)


def test_before_anything_is_timed_the_seconds_are_called_a_guess(starter: EditableDiffusionEngine, monkeypatch) -> None:
    base = starter.generate("a", size=(128, 128), steps=1)
    assert starter.predict(base.id, np.full((128, 128), 255, np.uint8)).measured
    monkeypatch.setattr(starter._bench, "timer", PassTimer())
    assert not starter.predict(base.id, np.full((128, 128), 255, np.uint8)).measured
