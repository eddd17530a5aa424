"""The engine's side of a session: which version of the engine stands for which picture, and what an edit would cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PIL import Image

from diffusion_engine import CancelToken, Prediction, Progress
from editor.areas import Box, area_around, bounds
from editor.history import Entry
from editor.masks import Mask
from editor.requests import EditRequest

if TYPE_CHECKING:
    from diffusion_engine import Candidate, Check, EditableDiffusionEngine, SavedVersion, Version


@dataclass(frozen=True)
class Area:
    """A part of a picture, as a version of the engine."""

    version_id: str
    box: Box

    def whole(self, parent: Image.Image, part: Image.Image) -> Image.Image:
        """The parent with `part` in place of this area."""
        if self.box.size == parent.size:
            return part
        picture = parent.copy()
        picture.paste(part, (self.box.left, self.box.top))
        return picture

    def moved(self, progress: Progress) -> Progress:
        """Progress of the engine, with its preview's place in the whole picture."""
        if progress.place is None:
            return progress
        left, top, width, height = progress.place
        return replace(progress, place=(left + self.box.left, top + self.box.top, width, height))


@dataclass(frozen=True)
class Tiles:
    """What an edit recomputes, or would: the engine's prediction, and the part of the picture that it is about."""

    box: Box
    prediction: Prediction


class Workspace:
    """Areas of a session's entries by the entry's id. An entry that comes from a file has none until it is edited; then
    its version is restored, where one was saved that this model made, or else its picture is opened."""

    def __init__(
        self,
        engine: EditableDiffusionEngine,
        areas: Mapping[str, Area] | None = None,
        versions: Mapping[str, SavedVersion] | None = None,
    ) -> None:
        """areas, versions: what `saved` said before."""
        self._engine = engine
        self._areas: dict[str, Area] = {}
        self._waiting = dict(areas or {})  # areas with the ids of saved versions, until they are needed
        self._saved = dict(versions or {})
        self._saved_ids: dict[str, str] = {}  # of the engine's versions
        self._roots: list[str] = []  # versions that were not made from others
        self._opening, self._exporting = threading.Lock(), threading.Lock()

    @property
    def other_model(self) -> str | None:
        """The name of another model that made part of this, which begins anew from pixels; None if there is none."""
        others = [saved.facts["model"] for saved in self._saved.values() if not self._engine.is_ours(saved)]
        return others[-1] if others else None

    def saved(self) -> tuple[dict[str, Area], dict[str, SavedVersion]]:
        """What to keep on disk: the areas, and by id the versions they need, parents before children."""
        waiting, here = dict(self._waiting), dict(self._areas)  # in this order: an area may move on meanwhile
        with self._exporting:
            exported = {entry_id: self._export(area.version_id) for entry_id, area in here.items()}
        areas = {entry_id: replace(area, version_id=exported[entry_id]) for entry_id, area in here.items()} | waiting
        needed: set[str] = set()
        for area in areas.values():
            needed.update(self._lineage(area.version_id))
        return areas, {saved_id: saved for saved_id, saved in dict(self._saved).items() if saved_id in needed}

    def _export(self, version_id: str) -> str:
        """The id under which a version of the engine is saved, which it is now if it was not."""
        chain: list[str] = []
        above: str | None = version_id
        while above is not None and above not in self._saved_ids:
            chain.append(above)
            above = self._engine.version(above).parent_id
        for one in reversed(chain):
            saved = self._engine.export_version(one)
            parent = None if saved.parent_id is None else self._saved_ids[saved.parent_id]
            self._saved[one] = replace(saved, parent_id=parent)
            self._saved_ids[one] = one
        return self._saved_ids[version_id]

    def _lineage(self, saved_id: str) -> list[str]:
        """A saved version and what it was made from, the first one first."""
        lineage = [saved_id]
        while (parent := self._saved[lineage[0]].parent_id) is not None:
            lineage.insert(0, parent)
        return lineage

    def known(self, entry: Entry, edit_mask: Mask) -> Area | None:
        """The area that holds the mask, if there is one already."""
        area = self._areas.get(entry.id)
        return area if area and area.box.holds(bounds(edit_mask)) else None

    def area(self, entry: Entry, edit_mask: Mask) -> Area:
        """The same, opened in the engine now if there is none. Raises UserError where the mask is too large for one."""
        with self._opening:
            painted = bounds(edit_mask)
            return self.known(entry, edit_mask) or self._restore(entry, painted) or self._open(entry, painted)

    def prepare(self, entry: Entry) -> None:
        """Opens a picture that can be worked on as a whole, so that it is recorded before anything is painted."""
        with self._opening:
            anywhere = Box(0, 0, 1, 1)
            if area_around(anywhere, entry.image.size, self._engine.defaults.size).size == entry.image.size:
                self._open(entry, anywhere)

    def _restore(self, entry: Entry, painted: Box) -> Area | None:
        """The area that was saved, if it holds the mask and the model is the same."""
        area = self._waiting.get(entry.id)
        if area is None or not area.box.holds(painted):
            return None
        lineage = [self._saved[saved_id] for saved_id in self._lineage(area.version_id)]
        if not all(self._engine.is_ours(saved) for saved in lineage):
            return None
        version = self._engine.restore_version(lineage, area.box.part(entry.image))
        self._saved_ids[version.id] = area.version_id
        self.add(entry, version, area.box)
        del self._waiting[entry.id]
        return self._areas[entry.id]

    def _open(self, entry: Entry, painted: Box) -> Area:
        box = area_around(painted, entry.image.size, self._engine.defaults.size)
        version = self._engine.open(box.part(entry.image), **entry.settings)
        self.add(entry, version, box)
        return self._areas[entry.id]

    def add(self, entry: Entry, version: Version, box: Box) -> None:
        """`version` stands for this part of `entry` from now on."""
        self._areas[entry.id] = Area(version.id, box)
        if version.parent_id is None:
            self._roots.append(version.id)

    def edit(
        self,
        entry: Entry,
        edit_mask: Mask,
        blend_mask: Mask,
        request: EditRequest,
        on_progress: Callable[[Progress], None],
        cancel: CancelToken,
    ) -> tuple[Area, list[Candidate]]:
        """Paints part of an entry anew; masks: uint8 [H, W] of the whole picture. Candidates are of the area only,
        previews have their place in the picture. Raises what the engine's `edit` does."""
        area = self.area(entry, edit_mask)
        candidates = self._engine.edit(
            area.version_id,
            area.box.cut(edit_mask),
            blend_mask=area.box.cut(blend_mask),
            **request.for_engine(),
            on_progress=lambda progress: on_progress(area.moved(progress)),
            cancel=cancel,
        )
        return area, candidates

    def verify(
        self, area: Area, candidate: Candidate, on_progress: Callable[[Progress], None], cancel: CancelToken
    ) -> Check:
        """The same edit computed densely; previews have their place in the picture."""
        return self._engine.verify(
            candidate, on_progress=lambda progress: on_progress(area.moved(progress)), cancel=cancel
        )

    def versions(self) -> dict[str, str]:
        """The engine's version of each entry that has one now."""
        return {entry_id: area.version_id for entry_id, area in dict(self._areas).items()}

    def predict(self, area: Area, edit_mask: Mask, request: EditRequest) -> Tiles:
        """What an edit with this mask would recompute. Answers at once, also while the engine is busy."""
        prediction = self._engine.predict(
            area.version_id,
            area.box.cut(edit_mask),
            variations=request.variations,
            strength=request.strength,
            mode=request.mode,
        )
        return Tiles(area.box, prediction)

    def forget(self) -> None:
        """Lets the engine forget all of it."""
        for root in self._roots:
            self._engine.forget(root)
        self._roots, self._areas = [], {}
