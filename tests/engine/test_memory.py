"""Memory of caches: budgets hold at every moment, tiers lose nothing, what is evicted, broken or stale comes again."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from diffusion_engine import EditableDiffusionEngine, EngineError, Version
from diffusion_engine.budget import Budget
from diffusion_engine.cache_block import Block, Layout
from diffusion_engine.cache_tiers import DiskTier, FileBlock, MemoryTier
from diffusion_engine.recording import Recording
from tests.engine.conftest import Make, square

SIZE = (64, 64)
QUICK: dict[str, Any] = {"size": SIZE, "steps": 3, "seed": 7}
LEFT, RIGHT = square(SIZE, 4, 8, 16), square(SIZE, 40, 40, 20)
LAYOUT = Layout.of([("a", torch.float16, (1, 5, 3)), ("b", torch.float64, (2, 3)), ("c", torch.int8, (7,))])


def recording_of(engine: EditableDiffusionEngine, version: Version) -> Recording:
    recording = engine._bench.store.find(version.id)  # pyright: ignore[reportPrivateUsage]
    assert recording is not None
    recording.checkout(version.id)
    return recording


def bytes_of(recording: Recording) -> list[bytes]:
    return [b"" if slot is None else slot.block.memory.numpy().tobytes() for slot in recording.slots]


def picture(engine: EditableDiffusionEngine, version: Version, mask: Any = RIGHT, **options: Any) -> bytes:
    """An edit by rows, which needs every slot."""
    options = {"seed": 5, "mode": "sparse", **options}
    return engine.edit(version.id, mask, "a cat", **options)[0].image.tobytes()


# Budgets and blocks


def test_a_budget_refuses_rather_than_exceeds_and_gets_back_what_is_gone() -> None:
    budget = Budget(100)
    tier = MemoryTier(2 * LAYOUT.nbytes, torch.device("cpu"))
    assert budget.reserve(60) and not budget.reserve(41) and budget.reserve(40) and budget.free == 0
    budget.give_back(60)
    assert (budget.held, budget.peak) == (40, 100)
    blocks = [tier.allocate(LAYOUT), tier.allocate(LAYOUT)]
    assert all(blocks) and tier.allocate(LAYOUT) is None
    blocks.pop()
    assert tier.budget.held == LAYOUT.nbytes and tier.allocate(LAYOUT) is not None


def test_pieces_of_a_block_are_aligned_and_apart() -> None:
    views = LAYOUT.views(Block.in_memory(LAYOUT, torch.device("cpu")).memory)
    for number, view in enumerate(views.values()):
        view.fill_(number)
    assert all((view == number).all() for number, view in enumerate(views.values()))
    assert LAYOUT.nbytes % 8 == 0 and {view.dtype for view in views.values()} == {
        torch.float16,
        torch.float64,
        torch.int8,
    }


def test_a_block_on_disk_is_a_safetensors_file_of_this_process(tmp_path: Path) -> None:
    tier = DiskTier(1 << 20, tmp_path)
    block = tier.allocate(LAYOUT)
    assert isinstance(block, FileBlock) and block.is_file
    views = LAYOUT.views(block.memory)
    for number, view in enumerate(views.values()):
        view.fill_(number + 1)
    assert not block.is_sound, "not sealed yet"
    block.seal()
    with safe_open(block.path, framework="pt") as file:
        assert all(torch.equal(file.get_tensor(name), view) for name, view in views.items())
    path = block.path
    del block, views
    assert not path.exists() and tier.budget.held == 0


@pytest.mark.parametrize("byte", [0, LAYOUT.nbytes // 2, -1], ids=["first", "middle", "last"])
def test_a_flipped_byte_is_seen(tmp_path: Path, byte: int) -> None:
    block = DiskTier(1 << 20, tmp_path).allocate(LAYOUT)
    assert block is not None
    block.memory.fill_(3)
    block.seal()
    assert block.is_sound
    block.memory[byte] ^= 16
    assert not block.is_sound


def test_a_disk_that_takes_nothing_is_as_if_there_were_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    tier = DiskTier(1 << 20, tmp_path)
    monkeypatch.setattr("os.posix_fallocate", full)
    assert tier.allocate(LAYOUT) is None and tier.budget.held == 0
    in_a_file = tmp_path / "a file"
    in_a_file.write_text("")
    assert DiskTier(1 << 20, in_a_file).allocate(LAYOUT) is None


OWNER = """
import sys, torch
from pathlib import Path
from diffusion_engine.cache_tiers import DiskTier
from tests.engine.test_memory import LAYOUT
tier = DiskTier(1 << 20, Path(sys.argv[1]))
block = tier.allocate(LAYOUT)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["exits", "is killed"])
def test_files_go_with_their_process(tmp_path: Path, end: str) -> None:
    """At its exit, or where it was killed when the next process starts; those of a living one stay."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
    DiskTier(1, tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    if end == "is killed":
        owner.kill()
    owner.communicate()
    DiskTier(1, tmp_path)
    assert not list(tmp_path.rglob("*.safetensors")) and not list(tmp_path.iterdir())


# Tiers of an engine


def test_recordings_that_do_not_fit_memory_go_to_disk_and_edit_the_same(make: Make) -> None:
    """The same bytes, whatever tier the caches are in; back and forth between versions too."""
    near, far = make(cache_disk_bytes=0), make(cache_memory_bytes=0)
    pictures: list[list[bytes]] = []
    for engine in (near, far):
        base = engine.generate("the sea", **QUICK)
        child = engine.commit(engine.edit(base.id, LEFT, "a cat", seed=1, mode="sparse")[0])
        pictures.append([picture(engine, one) for one in (child, base, child)])
    assert pictures[0] == pictures[1]
    assert near.memory().held.keys() == {"memory", "disk"} and near.memory().held["disk"] == 0
    assert far.memory().held["memory"] == 0 and far.memory().held["disk"] == near.memory().held["memory"]
    assert far.cache_faults == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.2])
def test_budgets_hold_at_every_moment(make: Make, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Two pictures, chained edits, variations and widening, with a share of one recording's bytes in either tier."""
    probe = make()
    probe.generate("the sea", **QUICK)
    capacity = int(probe.cache_bytes * share)
    engine = make(cache_memory_bytes=capacity, cache_disk_bytes=capacity)
    seen: list[bool] = []
    reserve = Budget.reserve

    def checked(budget: Budget, nbytes: int) -> bool:
        done = reserve(budget, nbytes)
        seen.append(budget.held <= budget.capacity)
        return done

    monkeypatch.setattr(Budget, "reserve", checked)
    first = engine.generate("the sea", **QUICK)
    opened = engine.open(first.image, steps=3)
    engine.wait_until_recorded(opened.id, timeout=60)
    for tip in (first, opened):
        for number in range(3):
            candidates = engine.edit(tip.id, (LEFT, RIGHT)[number % 2], "a cat", seed=number, variations=2)
            tip = engine.commit(candidates[1])
    engine.wait_until_recorded(tip.id, timeout=60)
    report = engine.memory()
    assert all(seen) and bool(seen) == bool(capacity)
    assert all(report.held[name] <= report.budget[name] == capacity for name in report.held)
    total = {name: sum(one.get(name, 0) for one in report.by_version.values()) for name in report.held}
    assert total == report.held


def test_a_dropped_cache_is_recorded_again(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    child = engine.commit(engine.edit(base.id, LEFT, "a cat", seed=1, mode="sparse")[0])
    expected, before = picture(engine, base), engine.memory().by_version
    assert before.keys() == {base.id, child.id}
    assert sum(before[base.id].values()) > 3 * sum(before[child.id].values())
    engine.drop_cache(child.id)
    assert engine.memory().by_version.keys() == {base.id} and picture(engine, base) == expected
    engine.drop_cache(base.id)
    assert engine.cache_bytes == 0 and engine.version(base.id) is base
    engine.edit(base.id, LEFT, "a cat", seed=1)
    assert picture(engine, child) and engine.cache_faults == 0


# Row 34: entries that are broken or stale


def flip(engine: EditableDiffusionEngine, base: Version) -> None:
    slot = recording_of(engine, base).slots[1]
    assert slot is not None
    with Path(slot.block.path).open("r+b") as file:  # pyright: ignore
        file.seek(-9, 2)
        byte = file.read(1)
        file.seek(-9, 2)
        file.write(bytes([byte[0] ^ 1]))


def change_weights(engine: EditableDiffusionEngine, base: Version) -> None:
    weight = engine._bench.model.pipeline.unet.mid_block.resnets[0].conv1.weight  # pyright: ignore[reportPrivateUsage]
    weight.data[0, 0, 0, 0] += 1e-3


def change_code(engine: EditableDiffusionEngine, base: Version) -> None:
    """As a file of another program version would be: another number in the key."""
    for slot in recording_of(engine, base).slots:
        assert slot is not None
        slot.key = slot.key[::-1]


@pytest.mark.parametrize(
    ("damage", "faults"), [(flip, 1), (change_weights, 3), (change_code, 4)], ids=["flipped byte", "weights", "code"]
)
def test_34_what_is_broken_or_stale_is_dropped_and_counted(make: Make, damage: Any, faults: int) -> None:
    engine, fresh = make(cache_memory_bytes=0), make(cache_memory_bytes=0)
    base = engine.generate("the sea", **QUICK)
    expected = picture(engine, base)
    damage(engine, base)
    if damage is change_weights:
        change_weights(fresh, base)
    result = engine.edit(base.id, RIGHT, "a cat", seed=5, mode="sparse")[0]
    assert engine.cache_faults == faults
    assert result.report.dense_steps == min(faults, 3)
    difference = np.abs(np.frombuffer(expected, np.uint8).astype(int) - np.asarray(result.image).flatten())
    assert difference.mean() < 4, "it comes from dense steps where the cache was dropped, and looks alike"
    engine.commit(result)
    assert engine.cache_faults == faults


@pytest.mark.parametrize(
    "change",
    [{"prompt": "a lake"}, {"seed": 8}, {"size": (64, 128)}, {"guidance": 2.0}, {"sampler": "euler"}, {"steps": 4}],
    ids=str,
)
def test_34_what_shapes_activations_is_in_the_key(make: Make, change: dict[str, Any]) -> None:
    engine = make()
    options: dict[str, Any] = {"prompt": "the sea", **QUICK}
    keys = [
        engine._bench.keys(engine._bench.weights(), version.settings, version.state)  # pyright: ignore[reportPrivateUsage]
        for version in (
            engine.generate(**options),
            engine.generate(**options),
            engine.generate(**{**options, **change}),
        )
    ]
    assert keys[0] == keys[1] and not set(keys[0][:-1]) & set(keys[2][:-1])
    assert len(set(keys[0])) == 4


# Rows 35 and 38: failures in the middle


def failing_kernel(monkeypatch: pytest.MonkeyPatch, name: str, at: int, error: type[Exception]) -> list[int]:
    """The n-th call of a kernel raises; returns the calls seen."""
    import diffusion_engine.layers as layers

    calls, kernel = list[int](), getattr(layers, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(len(calls))
        if len(calls) - 1 == at:
            raise error()
        return kernel(*arguments, **options)

    monkeypatch.setattr(layers, name, counted)
    return calls


@pytest.mark.parametrize("at", [0, 1, 7, 40, 90])
@pytest.mark.parametrize("kernel", ["conv_rows", "attend_rows", "norm_sums"])
def test_38_a_fault_at_a_layer_leaves_caches_and_versions(
    make: Make, monkeypatch: pytest.MonkeyPatch, kernel: str, at: int
) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    expected, before, held = picture(engine, base), bytes_of(recording_of(engine, base)), engine.cache_bytes
    calls = failing_kernel(monkeypatch, kernel, at, ZeroDivisionError)
    failed = False
    try:
        picture(engine, base)
    except ZeroDivisionError:
        failed = True
    assert failed == (len(calls) > at)
    monkeypatch.undo()
    engine.checkout(base.id)  # after what failed has ended
    assert bytes_of(recording_of(engine, base)) == before and engine.cache_bytes == held
    assert picture(engine, base) == expected
    assert engine.edit(base.id, RIGHT, "a cat", mode="dense")[0].report.dense_steps == 3


@pytest.mark.parametrize("at", [0, 3, 30, 77])
def test_35_out_of_memory_is_tried_again_once_with_less(make: Make, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    engine = make(cache_disk_bytes=0)
    other, base = engine.generate("green hills", **QUICK), engine.generate("the sea", **QUICK)
    held = engine.cache_bytes
    calls = failing_kernel(monkeypatch, "conv_rows", at, torch.OutOfMemoryError)
    assert picture(engine, base) and len(calls) > at
    assert engine.memory().by_version.keys() <= {base.id, ""}, "the other picture's caches made room"
    assert engine.cache_bytes < 0.7 * held
    assert engine.version(other.id) is other


def test_35_out_of_memory_for_good_is_one_sentence(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(cache_disk_bytes=0)
    base = engine.generate("the sea", **QUICK)
    expected, held = picture(engine, base), engine.cache_bytes

    def exhausted(*_: Any, **__: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr("diffusion_engine.layers.conv_rows", exhausted)
    with pytest.raises(EngineError, match="not enough memory"):
        picture(engine, base)
    monkeypatch.undo()
    assert engine.cache_bytes <= 1.01 * held
    engine.edit(base.id, RIGHT, "a cat", seed=5)
    assert expected and engine.cache_bytes <= engine.memory().budget["memory"]


@pytest.mark.parametrize("at", [0, 1, 3, 4, 6, 9])
@pytest.mark.parametrize("what", ["generate", "edit", "record"])
def test_35_the_nth_block_cannot_be_had(make: Make, monkeypatch: pytest.MonkeyPatch, what: str, at: int) -> None:
    """Fewer than n are asked for in some of these: then nothing fails, and the test says so."""
    engine = make(cache_disk_bytes=0)
    base = engine.generate("the sea", **QUICK)
    expected, held = picture(engine, base), engine.cache_bytes
    asked, in_memory = list[int](), Block.in_memory

    def failing(*arguments: Any, **options: Any) -> Block:
        asked.append(len(asked))
        if len(asked) == at + 1:
            raise torch.OutOfMemoryError
        return in_memory(*arguments, **options)

    monkeypatch.setattr(Block, "in_memory", staticmethod(failing))
    if what == "generate":
        made = engine.generate("green hills", **QUICK)
        engine.forget(made.id)
    elif what == "edit":
        difference = np.abs(
            np.frombuffer(picture(engine, base), np.uint8).astype(int) - np.frombuffer(expected, np.uint8)
        )
        assert difference.mean() < 4, "steps whose caches made room ran densely, and that looks alike"
    else:
        opened = engine.open(base.image, steps=3)
        engine.wait_until_recorded(opened.id, timeout=60)
        engine.forget(opened.id)
    monkeypatch.undo()
    assert (len(asked) > at) or at >= 4
    assert engine.cache_bytes <= 1.01 * held
    engine.wait_until_recorded(base.id, timeout=60)
    engine.edit(base.id, RIGHT, "a cat", seed=5)
    assert engine.cache_bytes <= engine.memory().budget["memory"] and engine.cache_faults == 0


# Row 26: two at once on the same version


def test_26_two_edits_of_one_version_both_stand(make: Make) -> None:
    """Neither is lost and neither sees the other: a version is never written over, so each becomes a branch."""
    alone, engine = make(), make()
    bases = [one.generate("the sea", **QUICK) for one in (alone, engine)]
    expected = [picture(alone, bases[0], mask) for mask in (LEFT, RIGHT)]
    start, found = threading.Barrier(2), dict[int, tuple[bytes, Version]]()

    def work(number: int, mask: Any) -> None:
        start.wait(timeout=30)
        [candidate] = engine.edit(bases[1].id, mask, "a cat", seed=5, mode="sparse")
        start.wait(timeout=30)  # both commits at once too
        found[number] = candidate.image.tobytes(), engine.commit(candidate)

    threads = [threading.Thread(target=work, args=one) for one in enumerate((LEFT, RIGHT))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [found[number][0] for number in (0, 1)] == expected
    children = [found[number][1] for number in (0, 1)]
    assert children[0].id != children[1].id and {child.parent_id for child in children} == {bases[1].id}
    again = [engine.edit(child.id, RIGHT, "a dog", seed=6, mode="sparse")[0] for child in children]
    assert all(candidate.report.dense_steps == 0 for candidate in again)
    assert picture(engine, bases[1]) == expected[1] and engine.cache_faults == 0
