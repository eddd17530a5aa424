"""The engine's promises: outside pixels, empty masks, sizes, determinism, cancel, versions and their caches."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diffusion_engine import (
    Cancelled,
    CancelToken,
    EditableDiffusionEngine,
    EngineError,
    Progress,
    StepPolicy,
    UserError,
    Version,
)
from diffusion_engine.recording import Recording
from diffusion_engine.samplers import SAMPLERS
from tests.engine.conftest import square

SIZE = (128, 128)
QUICK: dict[str, Any] = {"size": SIZE, "steps": 4, "seed": 7}
MASK = square(SIZE, 40, 48, 24)


def digest(image: Image.Image) -> str:
    return hashlib.sha256(image.tobytes()).hexdigest()


def pixels(image: Image.Image) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.asarray(image).astype(np.int16)


def recording_of(engine: EditableDiffusionEngine, version: Version) -> Recording:
    recording = engine._bench.store.find(version.id)  # pyright: ignore[reportPrivateUsage]
    assert recording is not None
    recording.checkout(version.id)
    return recording


def snapshot(recording: Recording) -> list[torch.Tensor]:
    return [slot.block.memory.clone() for slot in recording.slots if slot is not None]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def base(starter: EditableDiffusionEngine) -> Version:
    return starter.generate("desert dunes under a starry night sky", **QUICK)


HARD_MASKS = {
    "a dab of one pixel": square(SIZE, 61, 77, 1),
    "top-left corner": square(SIZE, 0, 0, 9),
    "bottom-right corner": square(SIZE, 120, 120, 8),
    "a thin line": np.where(np.arange(128)[:, None] == 64, 255, 0).astype(np.uint8).repeat(128, 1),
    "soft edge": np.clip(300 - 6 * np.hypot(*np.mgrid[-64:64, -64:64]), 0, 255).astype(np.uint8),
    "everything": np.full((128, 128), 255, np.uint8),
}


@pytest.mark.parametrize("mode", ["auto", "sparse", "dense"])
@pytest.mark.parametrize("name", HARD_MASKS)
def test_B1_only_the_mask_changes(starter: EditableDiffusionEngine, base: Version, name: str, mode: Any) -> None:
    mask = HARD_MASKS[name]
    candidates = starter.edit(base.id, mask, "a red balloon", seed=5, mode=mode, variations=3)
    changed = [(pixels(candidate.image) != pixels(base.image)).any(2) for candidate in candidates]
    assert not any(one[mask == 0].any() for one in changed)
    assert any(one[mask > 0].any() for one in changed)  # one pixel of one variation may be the old colour by chance


def test_B2_ten_chained_edits_leave_the_rest_alone(starter: EditableDiffusionEngine, base: Version) -> None:
    touched, tip, dense = np.zeros((128, 128), bool), base, starter.dense_passes
    for number in range(10):
        mask = square(SIZE, (37 * number) % 100, (53 * number) % 100, 20)
        tip = starter.commit(starter.edit(tip.id, mask, "a cactus", seed=number, mode="sparse")[0])
        touched |= mask > 0
    assert not (pixels(tip.image) != pixels(base.image)).any(2)[~touched].any()
    assert starter.dense_passes == dense, "an edit of an edit needs no dense pass"


def test_B2_ten_edits_of_one_place_do_not_drift(starter: EditableDiffusionEngine, base: Version) -> None:
    tip, colours = base, list[np.ndarray[Any, Any]]()
    for _ in range(10):
        tip = starter.commit(starter.edit(tip.id, MASK, "a cactus", seed=1, mode="sparse")[0])
        colours.append(pixels(tip.image)[MASK > 0].mean(axis=0))
    assert np.abs(np.array(colours) - colours[0]).max() < 1
    assert not (pixels(tip.image) != pixels(base.image)).any(2)[MASK == 0].any()


@pytest.mark.parametrize("mask", [np.zeros((128, 128), np.uint8), Image.new("L", SIZE)], ids=["array", "picture"])
def test_A7_an_empty_mask_computes_nothing(starter: EditableDiffusionEngine, base: Version, mask: Any) -> None:
    def refuse(_: Progress) -> None:
        raise AssertionError("something was computed")

    [candidate] = starter.edit(base.id, mask, "a cat", on_progress=refuse)
    assert digest(candidate.image) == digest(base.image)
    passes = starter.dense_passes
    child = starter.commit(candidate)
    assert digest(child.image) == digest(base.image)
    assert starter.edit(child.id, MASK, "a cat", mode="sparse")[0].report.sparse_steps == 4
    assert starter.dense_passes == passes, "the base's recording serves it"


@pytest.mark.parametrize("size", [(64, 64), (65, 71), (200, 77), (129, 300)], ids=str)
def test_output_has_the_size_of_the_input(starter: EditableDiffusionEngine, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), np.uint8)
    opened = starter.open(Image.fromarray(noise), steps=2)
    assert digest(opened.image) == hashlib.sha256(noise.tobytes()).hexdigest()
    mask = square(size, size[0] - 20, size[1] - 20, 20)
    [candidate] = starter.edit(opened.id, mask, "a red balloon")
    assert candidate.image.size == size
    outside = mask == 0
    assert not (pixels(candidate.image) != noise.astype(np.int16)).any(2)[outside].any()
    assert starter.generate("green hills", size=size, steps=1).image.size == size


def test_A11_blend_mask_is_clipped_and_snapped(starter: EditableDiffusionEngine, base: Version) -> None:
    wide, nearly = np.full((128, 128), 255, np.uint8), np.where(MASK > 0, 254, 0).astype(np.uint8)
    plain = starter.edit(base.id, MASK, "a cactus", seed=3, mode="sparse")[0]
    for blend in (wide, nearly):
        again = starter.edit(base.id, MASK, "a cactus", seed=3, mode="sparse", blend_mask=blend)[0]
        assert digest(again.image) == digest(plain.image)
    half = starter.edit(base.id, MASK, "a cactus", seed=3, mode="sparse", blend_mask=MASK // 2)[0]
    distance = [np.abs(pixels(c.image) - pixels(base.image)).sum() for c in (half, plain)]
    assert 0 < distance[0] < distance[1]


def test_E2_same_request_same_bytes(starter: EditableDiffusionEngine, base: Version) -> None:
    """Twice, after other edits, and the base again."""
    first = [digest(c.image) for c in starter.edit(base.id, MASK, "a cat", seed=9, variations=2)]
    starter.edit(base.id, HARD_MASKS["everything"], "the sea", seed=1, mode="sparse")
    starter.commit(starter.edit(base.id, MASK, "a dog", seed=2)[0])
    assert [digest(c.image) for c in starter.edit(base.id, MASK, "a cat", seed=9, variations=2)] == first
    assert digest(starter.generate(base.prompt, **QUICK).image) == digest(base.image)


SCRIPT = """
import hashlib, json, numpy
from diffusion_engine import EditableDiffusionEngine
engine = EditableDiffusionEngine.from_pretrained("starter")
base = engine.generate("desert dunes under a starry night sky", size=(128, 128), steps=4, seed=7)
mask = numpy.zeros((128, 128), numpy.uint8)
mask[48:72, 40:64] = 255
edit = engine.edit(base.id, mask, "a cat", seed=9, mode="sparse")[0]
print(json.dumps([hashlib.sha256(image.tobytes()).hexdigest() for image in (base.image, edit.image)]))
"""


def test_E2_same_bytes_in_a_new_process(starter: EditableDiffusionEngine, base: Version) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, check=True)
    edit = starter.edit(base.id, MASK, "a cat", seed=9, mode="sparse")[0]
    assert json.loads(done.stdout.splitlines()[-1]) == [digest(base.image), digest(edit.image)]


def test_E2_variations_match_single_edits(starter: EditableDiffusionEngine, base: Version) -> None:
    """Variation k is the edit with seed + k: to rounding, since a product of other height may round otherwise."""
    together = starter.edit(base.id, MASK, "a cat", seed=9, variations=3, mode="sparse")
    for number, candidate in enumerate(together):
        assert candidate.seed == 9 + number
        alone = starter.edit(base.id, MASK, "a cat", seed=9 + number, mode="sparse")[0]
        assert np.abs(pixels(candidate.image) - pixels(alone.image)).max() <= 1
    assert len({digest(candidate.image) for candidate in together}) == 3


@pytest.mark.parametrize("mode", ["sparse", "dense", "auto"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_F1_cancel_at_every_step_leaves_everything_as_it_was(
    starter: EditableDiffusionEngine, base: Version, step: int, mode: Any
) -> None:
    before, random_state = snapshot(recording_of(starter, base)), torch.get_rng_state()
    token, seen = CancelToken(), list[Progress]()

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if progress.step == step:
            token.cancel()

    with pytest.raises(Cancelled):
        starter.edit(base.id, MASK, "a cat", seed=9, mode=mode, on_progress=stop, cancel=token)
    assert len(seen) == step
    assert same(before, snapshot(recording_of(starter, base)))
    assert torch.equal(random_state, torch.get_rng_state())


def test_cancel_while_generating_keeps_nothing(starter: EditableDiffusionEngine, base: Version) -> None:
    held, token = starter.cache_bytes, CancelToken()
    with pytest.raises(Cancelled):
        starter.generate("the sea", **QUICK, on_progress=lambda _: token.cancel(), cancel=token)
    assert starter.cache_bytes == held


def test_a_failure_in_the_middle_leaves_everything_as_it_was(starter: EditableDiffusionEngine, base: Version) -> None:
    before = snapshot(recording_of(starter, base))

    def fail(progress: Progress) -> None:
        if progress.step == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        starter.edit(base.id, MASK, "a cat", mode="sparse", on_progress=fail)
    assert same(before, snapshot(recording_of(starter, base)))


def test_branches_and_returning(starter: EditableDiffusionEngine, base: Version) -> None:
    """Two branches of two edits each; going back and forth brings each version's caches back, byte for byte."""
    snapshots = {base.id: snapshot(recording_of(starter, base))}
    for seed in (1, 2):
        tip = base
        for number in range(2):
            mask = square(SIZE, 20 + 40 * number, 30 * seed, 24)
            tip = starter.commit(starter.edit(tip.id, mask, "a cactus", seed=seed, mode="sparse")[0])
            snapshots[tip.id] = snapshot(recording_of(starter, tip))
    for version in [*snapshots, *reversed(snapshots)]:
        assert same(snapshots[version], snapshot(recording_of(starter, starter.version(version)))), version


def test_forget_drops_a_subtree(starter: EditableDiffusionEngine) -> None:
    root = starter.generate("the sea", **QUICK)
    before = snapshot(recording_of(starter, root))
    child = starter.commit(starter.edit(root.id, MASK, "a cat", mode="sparse")[0])
    grandchild = starter.commit(starter.edit(child.id, MASK, "a dog", mode="sparse")[0])
    starter.forget(child.id)
    for gone in (child, grandchild):
        with pytest.raises(UserError):
            starter.version(gone.id)
    assert same(before, snapshot(recording_of(starter, root)))
    held = starter.cache_bytes
    starter.forget(root.id)
    assert starter.cache_bytes < held


def test_opened_picture_is_recorded_once_for_both_branches(starter: EditableDiffusionEngine, base: Version) -> None:
    """With an empty prompt both guidance branches agree. A committed edit then gives each branch rows of its own."""
    opened = starter.open(base.image, steps=3)
    assert starter.wait_until_recorded(opened.id, timeout=60)
    recording = recording_of(starter, opened)
    assert [slot.branches for slot in recording.steps if slot] == [1, 1, 1]
    passes = starter.dense_passes
    child = starter.commit(starter.edit(opened.id, MASK, "a cat", seed=3, mode="sparse")[0])
    assert [slot.branches for slot in recording_of(starter, child).steps if slot] == [2, 2, 2]
    again = starter.commit(starter.edit(child.id, square(SIZE, 0, 0, 30), "a dog", seed=3, mode="sparse")[0])
    assert starter.dense_passes == passes and again.report.sparse_steps == 3
    assert starter.drift(child.id) < 0.2


def test_an_edit_before_the_recording_computes_and_keeps_it(starter: EditableDiffusionEngine, base: Version) -> None:
    """Steps that nobody recorded run densely; their activations are the new version's cache."""
    opened = starter.open(base.image, steps=3)
    passes = starter.dense_passes
    candidate = starter.edit(opened.id, MASK, "a cat", seed=3)[0]
    assert starter.dense_passes - passes <= 3
    child = starter.commit(candidate)
    assert starter.wait_until_recorded(child.id, timeout=60) and starter.wait_until_recorded(opened.id, timeout=60)
    passes = starter.dense_passes
    assert starter.edit(child.id, square(SIZE, 0, 0, 30), "a dog", mode="sparse")[0].report.sparse_steps == 3
    assert starter.dense_passes == passes


def test_a_recording_that_fails_ends_neither_waiting_nor_the_engine(
    starter: EditableDiffusionEngine, base: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> bool:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("diffusion_engine.background.record_slot", broken)
    opened = starter.open(base.image, steps=3)
    assert starter.wait_until_recorded(opened.id, timeout=60) is False
    monkeypatch.undo()
    assert starter.edit(opened.id, MASK, "a cat")[0].image.size == base.image.size


def test_budget_holds_and_edits_work_without_a_recording(base: Version) -> None:
    engine = EditableDiffusionEngine.from_pretrained("starter", cache_memory_bytes=1 << 20, cache_disk_bytes=0)
    small = engine.generate("the sea", **QUICK)
    assert engine.cache_bytes <= 1 << 20
    [candidate] = engine.edit(small.id, MASK, "a cat")
    assert candidate.report.mode == "dense" and engine.cache_bytes <= 1 << 20
    engine.commit(candidate)
    engine.close()


def test_least_recently_used_recording_is_evicted_and_made_again() -> None:
    probe = EditableDiffusionEngine.from_pretrained("starter")
    one = probe.generate("the sea", **QUICK)
    budget = int(probe.cache_bytes * 1.5)
    probe.close()
    engine = EditableDiffusionEngine.from_pretrained("starter", cache_memory_bytes=budget, cache_disk_bytes=0)
    first = engine.generate("the sea", **QUICK)
    engine.generate("green hills", **QUICK)
    assert engine.cache_bytes <= budget
    assert engine.edit(first.id, MASK, "a cat")[0].image.size == one.image.size
    engine.close()


def test_soft_mask_and_strength_change_less(starter: EditableDiffusionEngine, base: Version) -> None:
    def change(**options: Any) -> float:
        candidate = starter.edit(base.id, HARD_MASKS["everything"] // 255 * 255, "the sea", seed=4, **options)[0]
        return float(np.abs(pixels(candidate.image) - pixels(base.image)).mean())

    full, weak = change(), change(strength=0.3)
    assert 0 < weak < full
    ramp = np.linspace(0, 255, 128).astype(np.uint8)[None].repeat(128, 0)
    candidate = starter.edit(
        base.id, ramp, "the sea", seed=4, soft=True, blend_mask=np.full((128, 128), 255, np.uint8)
    )[0]
    by_column = np.abs(pixels(candidate.image) - pixels(base.image)).mean((0, 2))
    assert by_column[:32].mean() < by_column[-32:].mean()


@pytest.mark.parametrize(
    ("policy", "dense"),
    [
        (StepPolicy(), 0),
        (StepPolicy(dense_first=2), 2),
        (StepPolicy(dense_last=1), 1),
        (StepPolicy(refresh_every=2), 2),
    ],
    ids=["none", "first two", "last", "every second"],
)
def test_dense_steps_on_request(
    starter: EditableDiffusionEngine, base: Version, policy: StepPolicy, dense: int
) -> None:
    report = starter.edit(base.id, MASK, "a cat", mode="sparse", policy=policy)[0].report
    assert (report.dense_steps, report.sparse_steps) == (dense, 4 - dense)
    assert report.mode == ("mixed" if dense else "sparse")


def test_auto_picks_dense_where_rows_would_cost_more(starter: EditableDiffusionEngine, base: Version) -> None:
    timer = starter._bench.timer  # pyright: ignore[reportPrivateUsage]
    overhead = timer.overhead
    try:
        timer.overhead = 1e3
        assert starter.edit(base.id, MASK, "a cat")[0].report.mode == "dense"
        timer.overhead = 0.0
        assert starter.edit(base.id, MASK, "a cat")[0].report.mode == "sparse"
    finally:
        timer.overhead = overhead


def test_report_is_json(starter: EditableDiffusionEngine, base: Version) -> None:
    report = starter.edit(base.id, MASK, "a cat", mode="sparse")[0].report
    assert 0 < report.active_fraction < 1 and len(report.active_fraction_per_level) == 3
    as_json = json.loads(json.dumps(report.as_dict()))
    assert as_json["mode"] == "sparse" and as_json["cache_bytes"] > 0 and as_json["seconds"]["total"] > 0


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_edits_by_rows(starter: EditableDiffusionEngine, sampler: str) -> None:
    """Same prompt, same seed, nothing new: the rows computed equal what was recorded, so the picture comes back."""
    made = starter.generate("green hills under a blue sky", size=SIZE, steps=4, seed=3, sampler=sampler)
    candidate = starter.edit(made.id, MASK, made.prompt, seed=3, mode="sparse")[0]
    assert candidate.report.dense_steps == 0
    assert np.abs(pixels(candidate.image) - pixels(made.image)).max() <= 1


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_can_begin_midway(starter: EditableDiffusionEngine, sampler: str) -> None:
    """A weak edit of everything with the same prompt stays near the picture, whatever the sampler's bookkeeping."""
    made = starter.generate("green hills under a blue sky", size=SIZE, steps=10, seed=3, sampler=sampler)
    everything = HARD_MASKS["everything"]
    weak = starter.edit(made.id, everything, made.prompt, seed=9, mode="sparse", strength=0.3)[0]
    assert 0 < np.abs(pixels(weak.image) - pixels(made.image)).mean() < 25


def test_weak_edit_of_an_unrecorded_picture_commits(starter: EditableDiffusionEngine, base: Version) -> None:
    """Its early steps were neither run nor recorded; later they are recorded as the parent's, whose they are."""
    opened = starter.open(base.image, steps=4)
    child = starter.commit(starter.edit(opened.id, MASK, "a cat", seed=3, strength=0.5)[0])
    assert starter.wait_until_recorded(child.id, timeout=60) and starter.wait_until_recorded(opened.id, timeout=60)
    early = [snapshot(recording_of(starter, version))[:2] for version in (child, opened)]
    assert same(*early)
    assert starter.edit(child.id, square(SIZE, 0, 0, 30), "a dog", mode="sparse")[0].report.sparse_steps == 4


def test_forgetting_a_parent_drops_recordings_of_its_children(base: Version) -> None:
    engine = EditableDiffusionEngine.from_pretrained("starter")
    root = engine.generate("the sea", **QUICK)
    child = engine.commit(engine.edit(root.id, MASK, "a cat", mode="sparse")[0])
    store = engine._bench.store  # pyright: ignore[reportPrivateUsage]
    store.drop(recording_of(engine, root))  # evicted
    engine.edit(child.id, MASK, "a dog")
    engine.forget(root.id)
    assert engine.cache_bytes == 0
    engine.close()


def test_generating_what_cannot_be_decoded_keeps_nothing(
    starter: EditableDiffusionEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = starter.cache_bytes
    decoder = starter._bench.model.decoder  # pyright: ignore[reportPrivateUsage]

    def broken(*_: Any, **__: Any) -> Any:
        return torch.full((1, 3, 128, 128), float("nan"))

    monkeypatch.setattr(type(decoder), "record_into", broken)
    with pytest.raises(EngineError, match="not numbers"):
        starter.generate("the sea", **QUICK)
    assert starter.cache_bytes == held
