"""Any path through versions leads to the pictures and caches of the straight one.

A second engine walks the straight path: for every version it makes the first one anew and repeats the edits that led
from there, with no going back, no branches, no eviction and no cancelling. Pictures must agree to the bit, kept
activations to rounding, and the statistics that are kept with them must be those of the rows.
"""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from PIL import Image

from diffusion_engine import Cancelled, CancelToken, EditableDiffusionEngine, SavedVersion, Version
from diffusion_engine.step_cache import StepCache
from tests.engine.conftest import square

SIZE = (64, 64)
STEPS = 2
PROMPTS = ("", "a red cat", "the sea under a clear blue sky")
MASKS = (square(SIZE, 0, 0, 12), square(SIZE, 20, 24, 24), square(SIZE, 40, 8, 20), square(SIZE, 31, 31, 1))
Slot = dict[str, torch.Tensor]
Path = tuple[Callable[[EditableDiffusionEngine, "Version | None"], Version], ...]
"""How to make a first version, and then each from the one before."""


@dataclass
class Known:
    """A version and the pixels it had when it was made. path: what the straight engine does to have it; slots: what
    that kept of it then. Both are None while not all of the version's activations are kept."""

    version: Version
    pixels: np.ndarray[Any, Any]
    path: Path | None = None
    slots: list[Slot] | None = None


def slots_of(engine: EditableDiffusionEngine, version: Version) -> list[Slot] | None:
    """What an edit of a version would read: per slot its kept rows and norm statistics. None where not all is kept."""
    recording = engine._bench.store.find(version.id)  # pyright: ignore[reportPrivateUsage]
    if recording is None:
        return None
    recording.checkout(version.id)
    caches = [cache for cache in recording.slots if cache is not None]
    return [_read(cache) for cache in caches] if len(caches) == STEPS + 1 else None


def _read(cache: StepCache) -> Slot:
    """Copies of rows, and of mean and variance per group: sums of two recordings differ where their centers do."""
    found: Slot = {name: rows.whole(torch.float32).clone() for name, rows in cache.rows.items()}
    for name, norm in cache.shape.norms.items():
        first, second = (cache.sums(name) / norm.count).chunk(2, -1)
        found[f"{name}.mean"], found[f"{name}.variance"] = first + cache.center(name), second - first**2
        if norm.source is not None:
            groups = found[norm.source].double().unflatten(2, (norm.groups, -1))  # [B, N, G, C / G]
            torch.testing.assert_close(found[f"{name}.mean"], groups.mean((1, 3)), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(
                found[f"{name}.variance"], groups.var((1, 3), correction=0), rtol=1e-3, atol=1e-4
            )
    return found


def differ(mine: Slot, other: Slot) -> float:
    """The largest relative RMS of anything kept. A recording with one branch serves both."""
    errors: list[float] = []
    for name, tensor in mine.items():
        error = tensor.double() - other[name].double()
        scale = other[name].double().square().mean().sqrt().clamp(min=1e-3)
        errors.append(float(error.square().mean().sqrt() / scale))
    return max(errors)


class Paths(RuleBasedStateMachine):
    """Budgets are generous: nothing goes but what is dropped."""

    budget: ClassVar[dict[str, Any]] = {}
    keeps_all = True  # so that every cache has its like on the straight path

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        common: dict[str, Any] = {"cache_dir": pathlib.Path(self.folder), "cache_dtype": "fp32"}
        self.engine = EditableDiffusionEngine.from_pretrained("starter", **common, **self.budget)
        self.straight = EditableDiffusionEngine.from_pretrained("starter", **common)
        self.engine.refresh_at = self.straight.refresh_at = None
        self.known: list[Known] = []

    def teardown(self) -> None:
        self.engine.close()
        self.straight.close()
        shutil.rmtree(self.folder)

    # first versions

    @initialize(prompt=st.sampled_from(PROMPTS[1:]))
    def begin(self, prompt: str) -> None:
        self.generate(prompt, 0)

    @rule(prompt=st.sampled_from(PROMPTS), seed=st.integers(0, 2))
    def generate(self, prompt: str, seed: int) -> None:
        def make(engine: EditableDiffusionEngine, _: Version | None) -> Version:
            return engine.generate(prompt, size=SIZE, steps=STEPS, seed=seed)

        self._keep(make(self.engine, None), (make,))

    @rule(shade=st.integers(0, 255), prompt=st.sampled_from(PROMPTS))
    def open_picture(self, shade: int, prompt: str) -> None:
        gradient = np.asarray(Image.radial_gradient("L").resize(SIZE))
        picture = Image.fromarray(gradient ^ np.uint8(shade)).convert("RGB")

        def make(engine: EditableDiffusionEngine, _: Version | None) -> Version:
            version = engine.open(picture, prompt=prompt, steps=STEPS)
            engine.wait_until_recorded(version.id, 60)
            return version

        self._keep(make(self.engine, None), (make,))

    # edits

    @rule(data=st.data(), mask=st.sampled_from(MASKS), prompt=st.sampled_from(PROMPTS), seed=st.integers(0, 2))
    def edit(self, data: st.DataObject, mask: Any, prompt: str, seed: int) -> None:
        parent = self._choose(data)
        strength = data.draw(st.sampled_from((1.0, 0.5)), "strength")
        options: dict[str, Any] = {"seed": seed, "strength": strength, "mode": "sparse"}
        self._record(parent)

        def edited(engine: EditableDiffusionEngine, before: Version | None) -> Version:
            assert before is not None
            version = engine.commit(engine.edit(before.id, mask, prompt, **options)[0])
            engine.wait_until_recorded(version.id, 60)
            return version

        if data.draw(st.booleans(), "thrown away"):
            [candidate] = self.engine.edit(parent.version.id, mask, prompt, **options)
            self._outside_stays(parent, candidate.image, mask)
        else:
            version = edited(self.engine, parent.version)
            self._outside_stays(parent, version.image, mask)
            self._keep(version, (*(parent.path or ()), edited))

    @rule(data=st.data(), mask=st.sampled_from(MASKS), at=st.integers(1, STEPS))
    def cancel_an_edit(self, data: st.DataObject, mask: Any, at: int) -> None:
        parent, token = self._choose(data), CancelToken()

        def stop(progress: Any) -> None:
            if progress.stage == "denoise" and progress.step == at:
                token.cancel()

        with pytest.raises(Cancelled):
            self.engine.edit(parent.version.id, mask, "a house", on_progress=stop, cancel=token)

    # going about

    @rule(data=st.data())
    def checkout(self, data: st.DataObject) -> None:
        """As undo, redo and switching branches do."""
        self.engine.checkout(self._choose(data).version.id)

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        self.engine.drop_cache(self._choose(data).version.id)

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        one = self._choose(data)
        self.engine.refresh(one.version.id)
        if self.engine.wait_until_recorded(one.version.id, 60):
            self._walk(one, self._told(one.version))

    @precondition(lambda self: len(self.known) < 8)
    @rule(data=st.data())
    def save_and_open(self, data: st.DataObject) -> None:
        one = self._choose(data)
        [again] = self._told(one.version)
        restored = again(self.engine, None)
        assert np.array_equal(np.asarray(restored.image), one.pixels)
        self._keep(restored, (again,))

    @precondition(lambda self: len(self.known) > 4)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        doomed = {self._choose(data).version.id}
        self.engine.forget(next(iter(doomed)))
        for one in self.known:
            if one.version.parent_id in doomed:
                doomed.add(one.version.id)
        self.known = [one for one in self.known if one.version.id not in doomed]
        if not self.known:
            self.generate(PROMPTS[1], 0)

    # what always holds

    @invariant()
    def pictures_stay(self) -> None:
        for one in self.known:
            assert np.array_equal(np.asarray(self.engine.version(one.version.id).image), one.pixels)

    @invariant()
    def the_budget_holds(self) -> None:
        for tier in self.engine._bench.store.tiers.values():  # pyright: ignore[reportPrivateUsage]
            assert tier.budget.held <= tier.budget.peak <= tier.budget.capacity
        assert self.engine.cache_faults == 0

    @invariant()
    def caches_are_those_of_the_straight_path(self) -> None:
        for one in self.known if self.keeps_all else []:
            mine = slots_of(self.engine, one.version)
            if mine is None:
                one.path = one.slots = None
                continue
            assert one.slots is not None, "nobody recorded it"
            for slot, other in zip(mine, one.slots, strict=True):
                assert differ(slot, other) < 1e-5

    # helpers

    def _choose(self, data: st.DataObject) -> Known:
        return data.draw(st.sampled_from(self.known), "version")

    def _keep(self, version: Version, path: Path) -> None:
        one = Known(version, np.asarray(version.image))
        self._walk(one, path)
        self.known.append(one)

    def _walk(self, one: Known, path: Path) -> None:
        """Takes the straight path to a version, and remembers what is kept of it there."""
        if not self.keeps_all:
            return
        end: Version | None = None
        first: Version | None = None
        for step in path:
            end = step(self.straight, end)
            first = first or end
        assert first is not None and end is not None
        assert np.array_equal(one.pixels, np.asarray(end.image))
        one.path, one.slots = path, slots_of(self.straight, end)
        self.straight.forget(first.id)

    def _record(self, parent: Known) -> None:
        """A version without all of its caches is recorded anew before an edit, as it else would be beside it."""
        if parent.path is None and self.keeps_all:
            self.engine.refresh(parent.version.id)
            assert self.engine.wait_until_recorded(parent.version.id, 60)
            self._walk(parent, self._told(parent.version))

    def _told(self, version: Version) -> Path:
        """A version handed over as plain data, and recorded there."""
        lineage, ancestor = list[SavedVersion](), version
        while True:
            lineage.insert(0, self.engine.export_version(ancestor.id))
            if ancestor.parent_id is None:
                break
            ancestor = self.engine.version(ancestor.parent_id)

        def restore(engine: EditableDiffusionEngine, _: Version | None) -> Version:
            restored = engine.restore_version(lineage, version.image)
            engine.wait_until_recorded(restored.id, 60)
            return restored

        return (restore,)

    def _outside_stays(self, parent: Known, image: Image.Image, mask: Any) -> None:
        outside = mask == 0
        assert np.array_equal(np.asarray(image)[outside], parent.pixels[outside])


class TightPaths(Paths):
    """Memory for two and a half recordings, disk for one: parts of them go at any time, and come again."""

    budget: ClassVar[dict[str, Any]] = {"cache_memory_bytes": 11_600_000, "cache_disk_bytes": 4_700_000}
    keeps_all = False


QUICK = settings(
    max_examples=8,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestPaths = Paths.TestCase
TestPaths.settings = QUICK
TestTightPaths = TightPaths.TestCase
TestTightPaths.settings = QUICK
