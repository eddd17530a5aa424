"""Recordings: the step caches of a tree of versions, materialised at one of them, the way git has one work tree.

Every other version is a delta against its parent: committing, going back and switching branches exchange active rows
only, whatever the size of the picture.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from diffusion_engine.plan import Plan
from diffusion_engine.step_cache import RowsDelta, StepCache

# Drift of edits by rows adds up like noise, by the share of the finest level's rows that they recomputed. Fitted to
# what `deltabrush eval --chain` measures on the starter model.
DRIFT_OF_EVERYTHING = 0.22

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class SlotDelta:
    """How one slot of a recording differs between a version and its parent.

    rows: at the active rows of a plan, computed by a sparse pass over the cache whose serial is `over`
    whole: a whole cache, where a dense pass made it
    unchanged: the step did not run, the slot is the parent's
    None of these: nothing was kept, or it was dropped; then the slot is empty on one side.
    key: what shaped the activations of the other side (see activation_key.py)
    """

    rows: RowsDelta | None = None
    active: list[Tensor] = field(default_factory=list)
    over: int = 0
    whole: StepCache | None = None
    unchanged: bool = False
    key: str = ""

    @staticmethod
    def of_rows(rows: RowsDelta, plan: Plan, cache: StepCache) -> SlotDelta:
        return SlotDelta(rows=rows, active=[level.active for level in plan.levels], over=cache.serial)

    @property
    def kept(self) -> RowsDelta | StepCache | None:
        """What holds its memory."""
        return self.whole if self.rows is None else self.rows

    @property
    def nbytes(self) -> int:
        return 0 if self.kept is None else self.kept.nbytes

    def clear(self) -> None:
        """Lets go of what it holds; the slot can be recorded again."""
        self.rows, self.active, self.whole = None, [], None


Slots = list[StepCache | None]


class Recording:
    """Step caches of `root` and of the versions made from it. slots: one per step, and the decoder's last."""

    def __init__(self, root: str, steps: int) -> None:
        self.root = self.tip = root
        self.slots: Slots = [None] * (steps + 1)
        self.deltas: dict[str, list[SlotDelta]] = {}  # by version; parents come before children
        self._parents: dict[str, str] = {}
        self._gone: set[str] = set()  # versions that only lead to others
        self.pending = False  # it replaces another one of its version once it is complete
        self.faults = 0  # entries that were found broken or out of date, and dropped

    @property
    def steps(self) -> Slots:
        return self.slots[:-1]

    @property
    def decoder(self) -> StepCache | None:
        return self.slots[-1]

    @property
    def nbytes(self) -> int:
        held = sum(slot.nbytes for slot in self.slots if slot is not None)
        return held + sum(delta.nbytes for deltas in self.deltas.values() for delta in deltas)

    def __contains__(self, version: str) -> bool:
        return (version == self.root or version in self._parents) and version not in self._gone

    def drift_estimate(self, version: str) -> float:
        """About what `EditableDiffusionEngine.drift` would measure, from how much was edited by rows since `root`."""
        edited = sum(_share(self.deltas[one], self.slots) for one in self._ancestry(version) if one != self.root)
        return DRIFT_OF_EVERYTHING * edited**0.5

    def take(self, slot: int, key: str) -> StepCache | None:
        """The cache of a slot, to be read at the version that is materialised; None where there is none, or where it
        is not what it should be: broken, or made with something else than `key` says. It is dropped then."""
        cache = self.slots[slot]
        if cache is not None and not (cache.key == key and cache.block.is_sound):
            self.faults += 1
            self.drop_slot(slot)
            return None
        return cache

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

    def commit(self, version: str, parent: str, deltas: list[SlotDelta]) -> None:
        """Adds `version` as a child of `parent` and materialises it. deltas: one per slot, of nobody else, each as wide
        as the slot and over what it holds now, else it is let go."""
        self.checkout(parent)
        for delta, slot in zip(deltas, self.slots, strict=True):
            if delta.rows is not None:
                fits = slot is not None and slot.serial == delta.over and slot.branches == delta.rows.copies
                if not fits:
                    delta.clear()
        self._parents[version], self.deltas[version] = parent, deltas
        self.checkout(version)

    def drop_slot(self, slot: int) -> None:
        """Lets go of what a slot holds, and of all rows that stand on it; other versions' whole caches stay."""
        cache, self.slots[slot] = self.slots[slot], None
        for deltas in self.deltas.values():
            if cache is not None and deltas[slot].over == cache.serial:
                deltas[slot].clear()

    def forget(self, versions: Iterable[str]) -> bool:
        """Lets versions go, with what only they need; True where nothing is left then."""
        self._gone.update(one for one in versions if one in self)
        for one in [*reversed(self.deltas)]:  # children come after parents
            if one in self._gone and one not in self._parents.values():
                self._drop_leaf(one)
        return self.root in self._gone and not self.deltas

    def _drop_leaf(self, version: str) -> None:
        if self.tip == version:
            self.checkout(self._parents[version])
        del self._parents[version], self.deltas[version]
        self._gone.discard(version)

    def clear(self) -> None:
        """Lets go of everything, also where something still refers to the recording."""
        self.slots = [None] * len(self.slots)
        for deltas in self.deltas.values():
            for delta in deltas:
                delta.clear()

    def holder(self, version: str) -> str:
        """The version whose activations `deltas[version]` holds: itself, or its parent while it is materialised."""
        return self._parents[version] if version in self._ancestry(self.tip) else version

    def by_distance(self) -> list[str]:
        """Versions with deltas, those farthest from the materialised one first."""
        path = list(self._ancestry(self.tip))

        def distance(version: str) -> int:
            own = list(self._ancestry(version))
            return min(own.index(one) + path.index(one) for one in own if one in path)

        return sorted(self.deltas, key=distance, reverse=True)

    def _ancestry(self, version: str) -> Iterator[str]:
        """The version, its parent, and so on to the root."""
        yield version
        while version != self.root:
            version = self._parents[version]
            yield version

    def _exchange(self, version: str) -> None:
        for index, delta in enumerate(self.deltas[version]):
            slot = self.slots[index]
            if delta.unchanged:
                continue
            if delta.rows is not None and (slot is None or slot.serial != delta.over):
                delta.clear()  # what the rows stand on is gone
            if delta.rows is None or slot is None:
                self.slots[index], delta.whole = delta.whole, slot
            elif slot.block.is_sound and delta.rows.block.is_sound:
                self._exchange_rows(index, slot, delta, delta.rows)
            else:
                self.faults += 1
                self.drop_slot(index)  # and this delta with it

    def _exchange_rows(self, index: int, slot: StepCache, delta: SlotDelta, rows: RowsDelta) -> None:
        try:
            for block in (slot.block, rows.block):
                block.unseal()
            rows.exchange(slot, delta.active)
            slot.key, delta.key = delta.key, slot.key
            for block in (slot.block, rows.block):
                block.seal()
        except Exception:  # out of memory, say: half of it is exchanged, so it goes; the other slots are exchanged
            _log.exception("Slot %d could not be exchanged, and is recorded again", index)
            self.faults += 1
            self.drop_slot(index)


def _share(deltas: list[SlotDelta], slots: Slots) -> float:
    """Of the finest level's rows, the most that a step of an edit recomputed; nothing where it ran densely."""
    shares = [
        delta.active[0].numel() / slot.shape.level_rows[0]
        for delta, slot in zip(deltas[:-1], slots, strict=False)
        if delta.rows is not None and slot is not None
    ]
    return max(shares, default=0.0)
