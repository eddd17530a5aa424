"""One person's editing: the history, what waits to be kept, and the one running job."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diffusion_engine import UserError
from editor import masks
from editor.areas import Box
from editor.arguments import program_version
from editor.history import Entry, History, Made, named
from editor.images import Picture
from editor.jobs import Job, Turns, Work
from editor.proposals import MADE_WITH, MAX_TAKES, SETTINGS, Proposal, Take, made_by, new_take_id
from editor.requests import EditRequest, GenerateRequest
from editor.snapshot import Draft, Snapshot
from editor.workspace import Tiles, Workspace

if TYPE_CHECKING:
    from PIL import Image

    from diffusion_engine import EditableDiffusionEngine, Version


class EditSession:
    """Owns everything one person works on; the engine is shared. Safe to call from several threads.

    `generate` and `edit` start a job and return it; it stores its result when it is done, whether or not anyone follows
    it. A cancelled or failed one leaves the shown picture and the history behind it as they were.
    `document` changes when the mask on the page belongs to another picture; `used_masks` when a mask has served.
    """

    def __init__(
        self,
        engine: EditableDiffusionEngine,
        turns: Turns,
        snapshot: Snapshot | None = None,
        changed: Callable[[EditSession], None] = lambda session: None,
    ) -> None:
        """changed: called after each change that a snapshot would show."""
        self.key = snapshot.key if snapshot else secrets.token_urlsafe(16)
        self.history = History()
        self.proposal: Proposal | None = None
        self.job: Job[None] | None = None
        self.job_size: tuple[int, int] | None = None
        self.upload: tuple[str, bytes] | None = None  # name, file
        self.project: Path | None = None  # the file that was saved last
        self.draft: Draft | None = None
        self.offered_seed: int | None = None  # of an example: used once, although seeds are not locked
        self.document = self.used_masks = 0
        self._engine = engine
        self._turns = turns
        self._changed = changed
        self._running = threading.Lock()
        self._workspace = Workspace(engine, snapshot.areas, snapshot.versions) if snapshot else Workspace(engine)
        self.other_model = self._workspace.other_model  # that made part of this; to be told once
        if snapshot:
            for entry in snapshot.entries:
                self.history.add(entry)
            self.history.visit(snapshot.current_id)
            self.draft = snapshot.draft

    def snapshot(self) -> Snapshot:
        current = self.history.current
        return Snapshot(
            self.key, tuple(self.history), current.id if current else None, self.draft, *self._workspace.saved()
        )

    @property
    def running(self) -> bool:
        return self.job is not None and not self.job.done

    @property
    def current(self) -> Entry | None:
        return self.history.current

    @property
    def shown_id(self) -> str | None:
        """Names the picture to show: the chosen take while some wait, else the current entry."""
        if self.proposal:
            return self.proposal.shown_id
        return self.current.id if self.current else None

    @property
    def before(self) -> Entry | None:
        """What the shown picture was made from."""
        return self.current if self.proposal else self.history.previous

    def picture(self, picture_id: str) -> Image.Image:
        """The pixels, RGB, of an entry or of a waiting take; raises UserError if they are gone."""
        take = self._take(picture_id)
        if take and self.current:
            return take.area.whole(self.current.image, take.candidate.image)
        return self.history[picture_id].image

    def source(self, picture_id: str) -> Entry:
        """The entry whose transparency and camera data a picture has: itself, or for a take what it was made from."""
        return self.current if self._take(picture_id) and self.current else self.history[picture_id]

    def made(self, picture_id: str) -> Made:
        """How a picture was made, ready for JSON."""
        take = self._take(picture_id)
        return made_by(take, self.source(picture_id)) if take else self.history[picture_id].made

    def generate(self, request: GenerateRequest) -> Job[None]:
        """Starts a new picture. Following the job raises UserError, EngineError, Cancelled."""

        def work(on_progress, token):
            self._commit()
            version = self._engine.generate(**asdict(request), on_progress=on_progress, cancel=token)
            self._begin_document()
            made = {name: getattr(version, name) for name in MADE_WITH} | {"kind": "generated"}
            self._add_version(version, Box(0, 0, *version.image.size), version.image, made)

        return self._start(work, request.size)

    def open(
        self,
        picture: Picture,
        *,
        name: str = "",
        steps: int | None = None,
        guidance: float | None = None,
        sampler: str | None = None,
    ) -> None:
        """Makes a picture from outside the current one; the engine records it in the background."""
        settings = {"steps": steps, "guidance": guidance, "sampler": sampler}
        made = picture.made | {"kind": "opened"}
        entry = Entry(secrets.token_hex(6), None, named(name), picture.rgb, picture.alpha, picture.exif, settings, made)
        with self._exclusive(), self._turns.take():
            self._workspace.prepare(entry)
            self._commit()
            self._begin_document()
            self._add(entry)

    def edit(self, mask: bytes | masks.Mask | None, request: EditRequest) -> Job[None]:
        """Starts painting the masked part anew; the takes then wait in `proposal`. Raises UserError at once where the
        mask, a file or uint8 [H, W] of the picture's size, cannot be used; following the job raises as `generate`.

        Takes that wait already stay beside the new ones when the mask is the same one; when it is another, the shown
        one is kept first.
        """
        if self.current is None:
            raise UserError("There is no picture yet: generate one or open one first.")
        painted = self._read(mask, self.current.image.size)
        edit_mask = masks.grow(painted, request.grow_px)
        if masks.is_empty(edit_mask):
            raise UserError("Nothing is left of the mask: shrink it less, or paint a larger part.")
        blend = masks.feather(edit_mask, request.feather_px)

        def work(on_progress, token):
            if self.proposal and not np.array_equal(painted, self.proposal.painted):
                self._commit()
            assert self.current is not None
            area, candidates = self._workspace.edit(self.current, edit_mask, blend, request, on_progress, token)
            cut = area.box.cut(blend)
            mode = "dense" if candidates[0].report.mode == "dense" else "sparse"
            tiles = self._workspace.predict(area, edit_mask, replace(request, mode=mode))
            new = [Take(new_take_id(), request, candidate, area, cut) for candidate in candidates]
            old = self.proposal.takes if self.proposal else ()
            self.proposal = Proposal((*old, *new)[-MAX_TAKES:], painted, new[0].id, tiles)

        return self._start(work, self.current.image.size)

    def check(self) -> Job[None]:
        """Starts computing the shown take once more, densely: how near it came is told, and the dense result waits
        beside it, to be taken instead. Following the job raises as that of `edit`."""
        if self.proposal is None or self.current is None:
            raise UserError("There is nothing to check: paint something first.")
        take = self.proposal.shown

        def work(on_progress, token):
            assert self.proposal is not None
            check = self._workspace.verify(take.area, take.candidate, on_progress, token)
            self.proposal = self.proposal.checked(take, check)

        return self._start(work, self.current.image.size)

    def versions(self) -> dict[str, str]:
        """The engine's versions that stand for entries, by the entry's id."""
        return self._workspace.versions()

    def cancel(self) -> None:
        """Stops the running job within a step; without one nothing happens."""
        if self.job is not None:
            self.job.cancel()

    def paint(self, draft: Draft | None, request: EditRequest, *, settled: bool) -> Tiles | None:
        """Remembers the mask on the page, and says what an edit with it would recompute; None where nothing is painted.

        settled: the pointer is up; only then a large picture's crop is opened, which takes a moment.
        """
        self.draft = draft
        if settled:
            self._changed(self)
        if draft is None or self.current is None:
            return None
        entry, painted = self.current, masks.placed(draft.png, (draft.left, draft.top), self.current.image.size)
        edit_mask = masks.grow(painted, request.grow_px)
        if masks.is_empty(edit_mask):
            return None
        area = self._workspace.known(entry, edit_mask)
        if area is None and settled and not self.running:
            area = self._workspace.area(entry, edit_mask)
        return self._workspace.predict(area, edit_mask, request) if area else None

    def choose(self, take_id: str) -> None:
        """Shows the waiting take of this name."""
        with self._exclusive():
            if self.proposal is None or self._take(take_id) is None:
                raise UserError("That variation is gone: paint again to get new ones.")
            self.proposal = replace(self.proposal, shown_id=take_id)

    def keep(self) -> None:
        """Makes the shown take an entry of the history; its mask is done with."""
        with self._exclusive():
            self._keep()

    def drop(self) -> None:
        """Lets go of what waits; the mask stays, to be used again."""
        with self._exclusive():
            self.proposal = None

    def undo(self) -> None:
        """Goes back to what the shown picture was made from; a waiting take is kept, to be found by `redo`."""
        with self._exclusive():
            self._keep()
            if self.history.previous:
                self._visit(self.history.previous.id)

    def redo(self) -> None:
        """Goes on to where `undo` came from, else to the newest edit of the current entry."""
        with self._exclusive():
            if self.proposal is None and self.history.next:
                self._visit(self.history.next.id)

    def visit(self, entry_id: str) -> None:
        """Goes to any entry of the history. A waiting take is kept first, so nothing is lost."""
        with self._exclusive():
            target = self.history[entry_id]
            self._keep()
            self._visit(target.id)

    def leave(self) -> None:
        """Puts the picture aside to begin another one; it stays in the history."""
        with self._exclusive():
            self._keep()
            self.history.visit(None)
            self._begin_document()
            self._changed(self)

    def rename(self, entry_id: str, name: str) -> None:
        self.history.rename(entry_id, name)
        self._changed(self)

    def changed_outside(self) -> int:
        """Counts the pixels of the shown take that differ from the current picture where the blend mask is 0. Of a
        large picture only the area is looked at: the rest is the current picture's own."""
        if self.proposal is None or self.current is None:
            return 0
        take = self.proposal.shown
        box = take.area.box
        old = self.current.image.crop((box.left, box.top, box.right, box.bottom))
        differs = (np.asarray(take.candidate.image) != np.asarray(old)).any(axis=2)
        return int(np.count_nonzero(differs & (take.blend == 0)))

    def close(self) -> None:
        """Stops what runs and lets the engine forget every version."""
        self.cancel()
        with self._running, self._turns.take():
            self._workspace.forget()
            self.proposal = None

    def _take(self, picture_id: str) -> Take | None:
        takes = self.proposal.takes if self.proposal else ()
        return next((take for take in takes if take.id == picture_id), None)

    @staticmethod
    def _read(mask: bytes | masks.Mask | None, size: tuple[int, int]) -> masks.Mask:
        painted = masks.read_mask(mask, size) if isinstance(mask, bytes) and mask else mask
        if not isinstance(painted, np.ndarray) or masks.is_empty(painted):
            raise UserError("Paint over the part that should change first.")
        return painted

    def _keep(self) -> None:
        if self.proposal:
            with self._turns.take():
                self._commit()
            self.used_masks += 1

    def _commit(self) -> None:
        """Makes an entry of the take that waits, if one does; the caller holds the engine's turn."""
        if self.proposal and self.current:
            take = self.proposal.shown
            image, made = self.picture(take.id), made_by(take, self.current)
            version = self._engine.commit(take.candidate)
            self._add_version(version, take.area.box, image, made, self.current)

    def _add_version(
        self, version: Version, box: Box, image: Image.Image, made: Made, parent: Entry | None = None
    ) -> None:
        """Adds an entry that the engine made; `version` stands for it in this part of the picture."""
        settings = {name: getattr(version, name) for name in SETTINGS}
        made = settings | made
        made |= {"model": version.model_name, "version": program_version(), "id": version.id}
        entry = Entry(
            id=version.id,
            parent_id=parent.id if parent else None,
            name=named(made["prompt"]),
            image=image,
            alpha=parent.alpha if parent else None,
            exif=parent.exif if parent else None,
            settings=settings,
            made=made,
            report=version.report.as_dict(),
        )
        self._workspace.add(entry, version, box)
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.proposal = None
        self.history.add(entry)
        self._changed(self)

    def _visit(self, entry_id: str) -> None:
        here, there = self.current, self.history[entry_id]
        if here is None or here.image.size != there.image.size:
            self._begin_document()
        self.history.visit(entry_id)
        self._changed(self)

    def _begin_document(self) -> None:
        """The mask on the page belongs to another picture."""
        self.document += 1
        self.draft = None

    def _start(self, work: Work[None], size: tuple[int, int]) -> Job[None]:
        self._hold()
        self.job_size = size
        self.job = Job(work, self._turns, self._running.release)
        self.job.start()  # not before it is known here, so that no cancel is lost
        return self.job

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        self._hold()
        try:
            yield
        finally:
            self._running.release()

    def _hold(self) -> None:
        while not self._running.acquire(timeout=0.02):  # two quick clicks follow one another
            if self.running:  # a job can take long
                raise UserError("This picture is being painted: wait for it, or stop it first.")
