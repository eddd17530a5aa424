"""Caches beyond the device's own memory: copied to it for a pass, two places for all of them, the next one ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from diffusion_engine import EditableDiffusionEngine, Version
from diffusion_engine.cache_block import Block
from diffusion_engine.cache_settings import CacheSettings
from diffusion_engine.cache_tiers import DiskTier, MemoryTier, Tier
from diffusion_engine.staging import Staging
from diffusion_engine.step_cache import StepCache
from tests.engine.conftest import Make, square

SIZE = (64, 64)
QUICK: dict[str, Any] = {"size": SIZE, "steps": 4, "seed": 7}
LEFT, RIGHT = square(SIZE, 4, 8, 16), square(SIZE, 40, 40, 20)
CPU = torch.device("cpu")


def chain(engine: EditableDiffusionEngine) -> list[bytes]:
    """Pictures of edits of edits, of variations, and of versions gone back to."""
    base = engine.generate("the sea", **QUICK)
    pictures: list[bytes] = []

    def edited(version: Version, mask: Any, seed: int, variations: int = 1) -> Version:
        found = engine.edit(version.id, mask, "a cat", seed=seed, variations=variations, mode="sparse")
        pictures.extend(one.image.tobytes() for one in found)
        return engine.commit(found[-1])

    child = edited(base, LEFT, 1)
    edited(child, RIGHT, 2, variations=2)
    edited(base, RIGHT, 3)
    edited(child, LEFT, 4)
    return pictures


def test_edits_over_copies_are_the_same_and_take_two_places(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = chain(make())
    monkeypatch.setattr(Staging, "_within_reach", lambda *_: False)
    engine = make()
    placed, copied = list[int](), list[int]()
    in_memory, copied_to = Block.in_memory, StepCache.copied_to

    def placing(layout: Any, device: torch.device, tier: object = None, **options: Any) -> Block:
        if tier is None:
            placed.append(layout.nbytes)
        return in_memory(layout, device, tier, **options)

    def copying(cache: StepCache, block: Block) -> StepCache:
        copied.append(cache.serial)
        assert torch.equal(block.memory, cache.block.memory), "it has arrived"
        return copied_to(cache, block)

    monkeypatch.setattr(Block, "in_memory", staticmethod(placing))
    monkeypatch.setattr(StepCache, "copied_to", copying)
    assert chain(engine) == expected
    calibration, edits = 1, 4
    assert len(copied) == calibration + edits * (QUICK["steps"] + 1)
    assert len(placed) == calibration + edits * 3, "two of a step's size, one of the decoder's"


def test_the_next_cache_sets_out_before_it_is_asked_for(make: Make) -> None:
    engine = make()
    base = engine.generate("the sea", **QUICK)
    recording = engine._bench.store.find(base.id)  # pyright: ignore[reportPrivateUsage]
    assert recording is not None

    class Far(Staging):
        fetched: list[int]

        def _within_reach(self, cache: StepCache) -> bool:
            return False

        def _free_place(self, cache: StepCache) -> Any:
            self.fetched.append(cache.serial)
            return super()._free_place(cache)

    staging = Far(CPU)
    staging.fetched = []
    slots = [slot for slot in recording.slots if slot is not None]
    serials = [slot.serial for slot in slots]
    held: list[StepCache] = []
    for number, slot in enumerate(slots):
        following = slots[number + 1] if number + 1 < len(slots) else None
        held.append(staging.near(slot, following))
        assert staging.fetched == serials[: number + 2]
        assert torch.equal(held[-1].block.memory, slot.block.memory), "the next one has not taken its place"
    assert [one.serial for one in held] == serials


def test_what_the_device_reads_where_it_lies_is_not_copied(make: Make) -> None:
    engine = make(cache_memory_bytes=0)  # all on disk
    base = engine.generate("the sea", **QUICK)
    recording = engine._bench.store.find(base.id)  # pyright: ignore[reportPrivateUsage]
    assert recording is not None
    slot = recording.slots[0]
    assert slot is not None and Staging(CPU).near(slot, recording.slots[1]) is slot


def test_an_accelerator_has_three_tiers_a_processor_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = CacheSettings(3, 5, 7, tmp_path)
    assert {name: tier.budget.capacity for name, tier in given.tiers(CPU).items()} == {"memory": 3, "disk": 7}
    tiers = given.tiers(torch.device("cuda"))
    assert {name: tier.budget.capacity for name, tier in tiers.items()} == {"memory": 3, "host": 5, "disk": 7}
    assert list(tiers) == ["memory", "host", "disk"], "the nearest first"


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_what_memory_has_no_room_for_goes_down_tier_by_tier(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """Main memory beside the device's: what is worth less moves on to disk, and nothing is dropped that fits below."""
    probe = make()
    probe.generate("the sea", **QUICK)
    whole = probe.cache_bytes
    capacity = int(whole * share)

    def three(self: CacheSettings, device: torch.device) -> dict[str, Tier]:
        return {
            "memory": MemoryTier(capacity, device),
            "host": MemoryTier(capacity, device),
            "disk": DiskTier(3 * whole, tmp_path),
        }

    monkeypatch.setattr(CacheSettings, "tiers", three)
    engine = make()
    first, second = engine.generate("the sea", **QUICK), engine.generate("green hills", **QUICK)
    report = engine.memory()
    assert sum(report.held.values()) == 2 * whole, "all of both is somewhere"
    assert all(report.held[name] <= report.budget[name] for name in report.held)
    assert report.held["host"] > 0.5 * capacity and report.held["disk"] > 0
    for version in (first, second):
        result = engine.edit(version.id, LEFT, "a cat", seed=1, mode="sparse")[0]
        assert result.report.dense_steps == 0
    total = {name: sum(one.get(name, 0) for one in engine.memory().by_version.values()) for name in report.held}
    assert total == engine.memory().held and engine.cache_faults == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator with memory of its own")
@pytest.mark.parametrize("tier", ["host", "disk"])
@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_an_accelerator_edits_the_same_from_every_tier(make: Make, tier: str, dtype: str) -> None:
    near = make(device="cuda", cache_dtype=dtype)
    options = {"cache_memory_bytes": 0, "cache_host_bytes": 0 if tier == "disk" else None}
    far = make(device="cuda", cache_dtype=dtype, **options)
    assert chain(far) == chain(near)
    assert far.memory().held["memory"] == 0 < far.memory().held[tier]
