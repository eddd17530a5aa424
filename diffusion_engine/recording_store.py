"""All recordings, under the budgets of their tiers: who gets memory, and whose goes when there is none left.

Memory is asked for before it is taken, so the budgets hold at all times, while recording too. What goes first is what
is cheapest to have again: first recordings that were not used for longest, of each the caches that took the fewest
seconds per byte to record, rows of single versions last. It moves to the next tier if that has room, and is dropped
otherwise; all of it can be recorded again from latents, prompts and weights.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diffusion_engine.cache_block import Block, Layout
from diffusion_engine.cache_tiers import Tier
from diffusion_engine.recording import Recording, SlotDelta
from diffusion_engine.step_cache import CacheShape, RowsDelta, StepCache


class NoRoom(Exception):
    """No tier has room, whatever is evicted."""


@dataclass
class _Part:
    """What can be evicted: a slot of a recording, or a delta. It refers to the place, not to the memory."""

    recording: Recording | None  # None: a candidate's
    slot: int
    delta: SlotDelta | None = None

    def kept(self) -> StepCache | RowsDelta | None:
        if self.delta is not None:
            return self.delta.kept
        assert self.recording is not None, "a part is a delta or in a recording"
        return self.recording.slots[self.slot]

    def drop(self) -> None:
        if self.recording is not None and self.delta is not None:
            self.delta.clear()
        elif self.recording is not None:
            self.recording.drop_slot(self.slot)


class RecordingStore:
    """tiers: named, the nearest first. Used on the compute thread only."""

    def __init__(self, tiers: dict[str, Tier]) -> None:
        self.tiers = tiers
        self._tiers = list(tiers.values())
        self._recordings: list[Recording] = []  # least recently used first
        self._waiting: weakref.WeakSet[SlotDelta] = weakref.WeakSet()  # of candidates
        self._faults = 0  # of recordings that are gone

    @property
    def nbytes(self) -> int:
        """Held in all tiers, by recordings and by candidates."""
        return sum(tier.budget.held for tier in self._tiers)

    @property
    def free(self) -> int:
        """Bytes that fit without anything having to go, in all tiers."""
        return sum(tier.budget.free for tier in self._tiers)

    @property
    def faults(self) -> int:
        """Entries that were found broken or out of date so far, and dropped."""
        return self._faults + sum(recording.faults for recording in self._recordings)

    def find(self, version: str) -> Recording | None:
        """The recording that can materialise `version`, now the most recently used."""
        for recording in self._recordings:
            if version in recording and not recording.pending:
                self._recordings.remove(recording)
                self._recordings.append(recording)
                return recording
        return None

    def __contains__(self, recording: Recording) -> bool:
        return recording in self._recordings

    def add(self, recording: Recording) -> None:
        self._recordings.append(recording)

    def begin_again(self, version: str, steps: int) -> Recording:
        """A new recording of a version, which keeps the one it has until `complete`."""
        for earlier in [one for one in self._recordings if one.pending and version in one]:
            self.drop(earlier)
        recording = Recording(version, steps)
        recording.pending = True
        self.add(recording)
        return recording

    def complete(self, recording: Recording) -> None:
        """A recording that was begun again now is the one of its version; others keep what their rows stand on."""
        if recording.pending:
            self.forget([recording.root], but=recording)
            recording.pending = False

    def forget(self, versions: Sequence[str], but: Recording | None = None) -> None:
        """Lets go of versions and of what only they need, in all recordings `but` one."""
        for recording in [one for one in self._recordings if one is not but]:
            if recording.forget(versions):
                self.drop(recording)

    def drop(self, recording: Recording) -> None:
        self._recordings.remove(recording)
        self._faults += recording.faults
        recording.clear()

    def drop_version(self, version: str) -> None:
        """Lets go of a version's activations; while it is the materialised one, of its whole recording's."""
        recording = self.find(version)
        if recording is None:
            return
        if recording.tip == version:
            recording.clear()
        for one, deltas in recording.deltas.items():
            if recording.holder(one) == version:
                for delta in deltas:
                    delta.clear()

    def by_version(self) -> dict[str, dict[str, int]]:
        """Version -> tier -> bytes. What only candidates hold is under ""."""
        held: dict[str, Counter[str]] = {}
        for recording in self._recordings:
            self._count(held.setdefault(recording.tip, Counter()), recording.slots)
            for version, deltas in recording.deltas.items():
                kept = [delta.kept for delta in deltas]
                self._count(held.setdefault(recording.holder(version), Counter()), kept)
        known = sum(held.values(), Counter[str]())
        held[""] = Counter({name: tier.budget.held - known[name] for name, tier in self.tiers.items()})
        return {version: dict(+counted) for version, counted in held.items() if +counted}

    def new_caches(self, shape: CacheShape, branches: int, count: int, keep: Recording) -> list[StepCache] | None:
        """Empty caches for a recorder to fill, or None where there is no room for all; `keep` is not evicted for it."""
        try:
            return [StepCache.new(shape, branches, lambda layout: self._room(layout, keep)) for _ in range(count)]
        except NoRoom:
            return None

    def new_delta(
        self, cache: StepCache, segments: int, active_rows: Sequence[int], keep: Recording
    ) -> RowsDelta | None:
        """Room for what a pass over `cache` computes, or None where there is none."""
        try:
            return cache.delta(segments, active_rows, lambda layout: self._room(layout, keep))
        except NoRoom:
            return None

    def widen(self, recording: Recording, slot: int, branches: int) -> None:
        """Gives each guidance branch its own rows, where one recording served all (an empty prompt's branches agree).
        Without room for that the slot is dropped."""
        cache = recording.slots[slot]
        if cache is None or cache.branches >= branches:
            return
        try:
            wide = cache.widened(branches, lambda layout: self._room(layout, recording))
        except NoRoom:
            recording.drop_slot(slot)
            return
        wide.block.seal()
        recording.slots[slot] = wide

    def own(self, delta: SlotDelta, segments: list[int], keep: Recording) -> SlotDelta:
        """Some segments of a candidate's rows, in memory of their own; empty where there is no room."""
        assert delta.rows is not None, "whole caches are one picture's alone"
        try:
            rows = delta.rows.segments(segments, lambda layout: self._room(layout, keep))
        except NoRoom:
            return SlotDelta()
        rows.block.seal()
        return SlotDelta(rows, delta.active, delta.over)

    def watch(self, delta: SlotDelta) -> None:
        """A candidate's delta may be moved to another tier while it waits to be committed."""
        self._waiting.add(delta)

    def bring_near(self, cache: StepCache) -> None:
        """Moves a cache to the nearest tier, if that has room as it is."""
        if cache.block.tier is not self._tiers[0] and self._tiers[0].budget.free >= cache.nbytes:
            _move(cache, self._tiers[0])

    def evict_half(self) -> None:
        """Halves what the nearest tier holds, and its budget for a while: the machine has less than we believed."""
        budget = self._tiers[0].budget
        capacity = budget.capacity
        budget.capacity = budget.held // 2
        self._make_room(0, 0, None)
        budget.capacity = capacity

    def _room(self, layout: Layout, keep: Recording | None) -> Block:
        for number, tier in enumerate(self._tiers):
            if self._make_room(number, layout.nbytes, keep):
                block = tier.allocate(layout)
                if block is not None:
                    return block
        raise NoRoom

    def _make_room(self, number: int, nbytes: int, keep: Recording | None) -> bool:
        """Evicts from a tier until `nbytes` more fit; False when they cannot, and then nothing is evicted for it."""
        budget = self._tiers[number].budget
        if budget.free >= nbytes:
            return True
        parts = [part for part in self._by_value(keep) if self._tier_of(part) == number]
        if budget.free + sum(_nbytes(part) for part in parts) < nbytes:
            return False
        for part in parts:
            if budget.free >= nbytes:
                break
            self._evict(part, number, keep)
        return budget.free >= nbytes

    def _evict(self, part: _Part, number: int, keep: Recording | None) -> None:
        """Moves a part to a tier farther down, where what is worth less makes room in the same way; where none takes it
        the part goes."""
        kept = part.kept()
        if kept is None:
            return  # went with what it stood on
        for lower in range(number + 1, len(self._tiers)):
            if self._make_room_below(kept, lower, keep) and _move(kept, self._tiers[lower]):
                return
        part.drop()

    def _make_room_below(self, kept: StepCache | RowsDelta, number: int, keep: Recording | None) -> bool:
        """Evicts from a tier what is worth less than `kept`, if that makes room for it."""
        budget = self._tiers[number].budget
        worth_less: list[_Part] = []
        for other in self._by_value(keep):
            if other.kept() is kept:
                break
            if self._tier_of(other) == number:
                worth_less.append(other)
        if budget.free + sum(_nbytes(other) for other in worth_less) < kept.nbytes:
            return False
        for other in worth_less:
            if budget.free >= kept.nbytes:
                break
            self._evict(other, number, keep)
        return budget.free >= kept.nbytes

    def _tier_of(self, part: _Part) -> int:
        kept = part.kept()
        return -1 if kept is None else self._number_of(kept.block)

    def _by_value(self, keep: Recording | None) -> Iterator[_Part]:
        """All that can be evicted, least valuable first. Of the recording that is at work only deltas can, of one that
        it is to replace nothing, and what candidates hold is moved but not dropped: somebody is looking at them."""
        for recording in self._recordings:
            replaced = keep is not None and keep.pending and keep.root in recording
            if recording is not keep and not replaced:
                slots = [_Part(recording, slot) for slot, cache in enumerate(recording.slots) if cache is not None]
                yield from sorted(slots, key=_seconds_per_byte)
                yield from _deltas(recording)
        waiting = [_Part(None, 0, delta) for delta in list(self._waiting)]
        if keep is not None:
            yield from _deltas(keep)
        yield from waiting

    def _count(self, counted: Counter[str], kept: Sequence[StepCache | RowsDelta | None]) -> None:
        names = list(self.tiers)
        for one in kept:
            if one is not None:
                counted[names[self._number_of(one.block)]] += one.nbytes

    def _number_of(self, block: Block) -> int:
        """Of the tier that a block lies in."""
        return next(number for number, tier in enumerate(self._tiers) if tier is block.tier)


def _deltas(recording: Recording) -> Iterator[_Part]:
    for version in recording.by_distance():
        for slot, delta in enumerate(recording.deltas[version]):
            if delta.kept is not None:
                yield _Part(recording, slot, delta)


def _seconds_per_byte(part: _Part) -> float:
    kept = part.kept()
    return kept.seconds / kept.nbytes if isinstance(kept, StepCache) else 0.0


def _nbytes(part: _Part) -> int:
    kept = part.kept()
    return 0 if kept is None else kept.nbytes


def _move(kept: StepCache | RowsDelta, tier: Tier) -> bool:
    """Into another tier; False where that takes nothing now."""
    block = tier.allocate(kept.block.layout)
    if block is None:
        return False
    block.memory.copy_(kept.block.memory)
    block.seal()
    kept.block = block
    return True
