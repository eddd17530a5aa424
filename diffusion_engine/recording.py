"""Recordings: the step caches of a tree of versions, materialised at one of them, the way git has one work tree.

Every other version is a delta against its parent: committing, going back and switching branches exchange active rows
only, whatever the size of the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from diffusion_engine.plan import Plan
from diffusion_engine.step_cache import RowsDelta, StepCache


@dataclass
class SlotDelta:
    """How one slot of a recording differs between a version and its parent.

    Either `rows` at the active rows of a plan (a sparse pass made them; none at all where the step did not run), or a
    whole cache (a dense pass made it; None where nothing was kept).
    """

    rows: RowsDelta | None = None
    active: list[Tensor] = field(default_factory=list)
    whole: StepCache | None = None

    @staticmethod
    def of_rows(rows: RowsDelta, plan: Plan) -> SlotDelta:
        return SlotDelta(rows=rows, active=[level.active for level in plan.levels])

    @property
    def is_unchanged(self) -> bool:
        return self.rows is not None and not self.rows.rows

    @property
    def nbytes(self) -> int:
        if self.rows is not None:
            return self.rows.nbytes
        return self.whole.nbytes if self.whole is not None else 0


Slots = list[StepCache | None]


class Recording:
    """Step caches of `root` and of the versions made from it. slots: one per step, and the decoder's last."""

    def __init__(self, root: str, steps: int) -> None:
        self.root = self.tip = root
        self.slots: Slots = [None] * (steps + 1)
        self._parents: dict[str, str] = {}
        self._deltas: dict[str, list[SlotDelta]] = {}

    @property
    def steps(self) -> Slots:
        return self.slots[:-1]

    @property
    def decoder(self) -> StepCache | None:
        return self.slots[-1]

    @property
    def nbytes(self) -> int:
        held = sum(slot.nbytes for slot in self.slots if slot is not None)
        return held + sum(delta.nbytes for deltas in self._deltas.values() for delta in deltas)

    def __contains__(self, version: str) -> bool:
        return version == self.root or version in self._parents

    @torch.inference_mode()
    def checkout(self, version: str) -> None:
        """Materialises the caches at `version`, exchanging only the rows that differ along the way."""
        above = list(self._ancestry(version))
        while self.tip not in above:
            self._exchange(self.tip)
            self.tip = self._parents[self.tip]
        for step in reversed(above[: above.index(self.tip)]):
            self._exchange(step)
            self.tip = step

    @torch.inference_mode()
    def commit(self, version: str, parent: str, deltas: list[SlotDelta], branches: int) -> None:
        """Adds `version` as a child of `parent` and materialises it. deltas: one per slot, in memory of their own."""
        self.checkout(parent)
        for index, delta in enumerate(deltas):
            slot = self.slots[index]
            if delta.rows is None or delta.is_unchanged:
                continue
            assert slot is not None, "rows were computed over this slot, so it is there"
            if index < len(self.slots) - 1 and slot.branches < branches:
                widen(slot, branches)
            delta.rows.complete(slot)
        self._parents[version], self._deltas[version] = parent, deltas
        self._exchange(version)
        self.tip = version

    def drop_subtree(self, version: str) -> None:
        """Forgets a version and all made from it; the caches are materialised at its parent then."""
        doomed = [v for v in self._parents if version in self._ancestry(v)]
        if self.tip in doomed:
            self.checkout(self._parents[version])
        for one in doomed:
            del self._parents[one], self._deltas[one]

    def _ancestry(self, version: str) -> Iterator[str]:
        """The version, its parent, and so on to the root."""
        yield version
        while version != self.root:
            version = self._parents[version]
            yield version

    def _exchange(self, version: str) -> None:
        for index, delta in enumerate(self._deltas[version]):
            slot = self.slots[index]
            if delta.is_unchanged:
                continue
            if delta.rows is not None:
                assert slot is not None, "a delta of rows needs its base"
                delta.rows.exchange(slot, delta.active)
            else:
                self.slots[index], delta.whole = delta.whole, slot


def widen(cache: StepCache, branches: int) -> None:
    """Gives each guidance branch its own rows, where one recording served all (an empty prompt's branches agree)."""
    cache.complete()
    copies = torch.zeros(branches, dtype=torch.long)
    for name, rows in cache.rows.items():
        cache.rows[name] = rows[copies.to(rows.device)]
    for totals in cache.norms.values():
        totals.center, totals.sums = totals.center[copies], totals.sums[copies]


class RecordingStore:
    """All recordings under one budget in bytes; the least recently used goes first, and can be recorded again."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._recordings: list[Recording] = []  # least recently used first

    @property
    def nbytes(self) -> int:
        return sum(recording.nbytes for recording in self._recordings)

    def find(self, version: str) -> Recording | None:
        """The recording that can materialise `version`, now the most recently used."""
        for recording in self._recordings:
            if version in recording:
                self._recordings.remove(recording)
                self._recordings.append(recording)
                return recording
        return None

    def add(self, recording: Recording) -> None:
        self._recordings.append(recording)

    def drop(self, recording: Recording) -> None:
        self._recordings.remove(recording)

    def make_room(self, nbytes: int, keep: Recording) -> bool:
        """Evicts other recordings until `nbytes` more fit; False when they cannot."""
        if keep.nbytes + nbytes > self.budget:
            return False
        for other in [r for r in self._recordings if r is not keep]:
            if self.nbytes + nbytes <= self.budget:
                break
            self._recordings.remove(other)
        return self.nbytes + nbytes <= self.budget
