"""One person's editing: the picture as it stands, its history, the candidates that wait, and the one running job."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from diffusion_engine import CancelToken, Progress, UserError
from editor import masks
from editor.arguments import program_version
from editor.images import Picture
from editor.jobs import Job, Turns, Work
from editor.requests import EditRequest, GenerateRequest

if TYPE_CHECKING:
    from PIL import Image

    from diffusion_engine import Candidate, EditableDiffusionEngine, Version


MADE_WITH = ("prompt", "negative_prompt", "seed", "steps", "guidance", "sampler")


@dataclass(frozen=True)
class Proposal:
    """Candidates of one edit, waiting to be kept or dropped. `painted`, `blend`: uint8 [H, W]."""

    number: int
    request: EditRequest
    candidates: tuple[Candidate, ...]
    painted: masks.Mask
    blend: masks.Mask
    shown: int = 0

    @property
    def candidate(self) -> Candidate:
        return self.candidates[self.shown]

    @property
    def picture_ids(self) -> list[str]:
        """What `EditSession.picture` calls the candidates."""
        return [f"candidate-{self.number}-{index}" for index in range(len(self.candidates))]


class EditSession:
    """Owns everything one person works on; the engine is shared. Safe to call from several threads.

    `generate` and `edit` are generators: they yield progress and store their result when they are exhausted. A
    cancelled, failed or abandoned one leaves the shown picture and the history behind it as they were.
    `mask_id` changes when a painted mask no longer belongs to the picture and must be cleared.
    """

    def __init__(self, engine: EditableDiffusionEngine, turns: Turns) -> None:
        self.key = secrets.token_urlsafe(16)
        self.versions: dict[str, Version] = {}
        self.current: Version | None = None
        self.proposal: Proposal | None = None
        self.upload: bytes | None = None
        self.mask_id = 0
        self._engine = engine
        self._turns = turns
        self._alpha: dict[str, Image.Image | None] = {}
        self._running = threading.Lock()
        self._token: CancelToken | None = None
        self._edits = 0

    @property
    def running(self) -> bool:
        return self._running.locked()

    @property
    def shown_id(self) -> str | None:
        """Names the picture to show: the chosen candidate while candidates wait, else the current version."""
        if self.proposal:
            return self.proposal.picture_ids[self.proposal.shown]
        return self.current.id if self.current else None

    @property
    def before(self) -> Version | None:
        """What the shown picture was made from."""
        if self.proposal or self.current is None:
            return self.current
        return self.versions.get(self.current.parent_id or "")

    def picture(self, picture_id: str) -> Image.Image:
        """The pixels, RGB, of a version or of a waiting candidate; raises UserError if they are gone."""
        if picture_id in self.versions:
            return self.versions[picture_id].image
        if self.proposal and picture_id in self.proposal.picture_ids:
            return self.proposal.candidates[self.proposal.picture_ids.index(picture_id)].image
        raise UserError("That picture is gone: choose another one from the history.")

    def alpha(self, picture_id: str) -> Image.Image | None:
        """The transparency ("L") that the opened picture had; edits inherit it unchanged."""
        return self._alpha[picture_id if picture_id in self.versions or self.current is None else self.current.id]

    def parameters(self, picture_id: str) -> dict[str, Any]:
        """How a picture was made, ready for JSON."""
        base = self.versions.get(picture_id) or self.current
        if base is None:
            return {}
        made = {name: getattr(base, name) for name in MADE_WITH} | {"model": base.model_name}
        if self.proposal and picture_id in self.proposal.picture_ids:
            seed = self.proposal.candidates[self.proposal.picture_ids.index(picture_id)].seed
            made |= {key: value for key, value in asdict(self.proposal.request).items() if value is not None}
            made |= {"seed": seed}
        return made | {"version": program_version()}

    def generate(self, request: GenerateRequest) -> Generator[Progress]:
        """Makes a new picture. Yields progress; raises UserError, EngineError, Cancelled."""

        def work(on_progress, token):
            self._commit()
            return self._engine.generate(
                request.prompt,
                negative_prompt=request.negative_prompt,
                size=request.size,
                steps=request.steps,
                seed=request.seed,
                guidance=request.guidance,
                on_progress=on_progress,
                cancel=token,
            )

        with self._exclusive():
            version = yield from self._follow(work)
            self._add(version, alpha=None)
            self.mask_id += 1

    def open(self, picture: Picture, *, steps: int | None = None, guidance: float | None = None, seed: int = 0) -> None:
        """Makes a picture from outside the current version; the engine records it in the background."""
        with self._exclusive(), self._turns.take():
            version = self._engine.open(picture.rgb, steps=steps, guidance=guidance, seed=seed)
            self._commit()
            self._add(version, picture.alpha)
            self.mask_id += 1

    def edit(self, mask: bytes | Image.Image | None, request: EditRequest) -> Generator[Progress]:
        """Paints the masked part anew; the candidates then wait in `proposal`. Yields progress; raises as `generate`.

        Candidates that wait already are replaced when the mask is the same one, and kept as a version, the shown one,
        when it is another.
        """
        with self._exclusive():
            if self.current is None:
                raise UserError("There is no picture yet: generate one or open one first.")
            painted = self._read(mask)
            edit_mask = masks.grow(painted, request.grow_px)
            if masks.is_empty(edit_mask):
                raise UserError("Nothing is left of the mask: shrink it less, or paint a larger part.")
            blend = masks.feather(edit_mask, request.feather_px)

            def work(on_progress, token):
                return self._engine.edit(
                    self._base_of_edit(painted).id,
                    edit_mask,
                    blend_mask=blend,
                    **request.for_engine(),
                    on_progress=on_progress,
                    cancel=token,
                )

            candidates = yield from self._follow(work)
            self._edits += 1
            self.proposal = Proposal(self._edits, request, tuple(candidates), painted, blend)

    def cancel(self) -> None:
        """Stops the running job within a step; without one nothing happens."""
        token = self._token
        if token is not None:
            token.cancel()

    def choose(self, picture_id: str) -> None:
        """Shows the waiting candidate of this name."""
        with self._exclusive():
            if self.proposal is None or picture_id not in self.proposal.picture_ids:
                raise UserError("That variation is gone: paint again to get new ones.")
            self.proposal = replace(self.proposal, shown=self.proposal.picture_ids.index(picture_id))

    def keep(self) -> None:
        """Makes the shown candidate a version; its mask is done with."""
        with self._exclusive():
            self._keep()
            self.mask_id += 1

    def undo(self) -> None:
        """Drops waiting candidates; without any, goes back to the parent version."""
        with self._exclusive():
            if self.proposal:
                self.proposal = None
            elif self.before:
                self.current = self.before

    def visit(self, version_id: str) -> None:
        """Goes to any version of the history. Waiting candidates are kept first, so nothing is lost."""
        with self._exclusive():
            target = self.versions.get(version_id)
            if target is None:
                raise UserError("That version is gone: choose another one from the history.")
            if self.proposal or self.current is None or self.current.image.size != target.image.size:
                self.mask_id += 1
            self._keep()
            self.current = target

    def leave(self) -> None:
        """Puts the picture aside to begin another one; it stays in the history."""
        with self._exclusive():
            self._keep()
            self.current = None
            self.mask_id += 1

    def changed_outside(self) -> int:
        """Counts the pixels of the shown candidate that differ from its parent where the blend mask is 0."""
        if self.proposal is None or self.current is None:
            return 0
        new, old = np.asarray(self.proposal.candidate.image), np.asarray(self.current.image)
        return int(np.count_nonzero((new != old).any(axis=2) & (self.proposal.blend == 0)))

    def hints(self, prompt: str) -> list[str]:
        """Sentences about words of the prompt that the model will not see or does not know."""
        unknown, cut = self._engine.unknown_words(prompt), self._engine.truncated_words(prompt)
        sentences = [f"This model does not know {', '.join(unknown)}."] if unknown else []
        return [*sentences, f"The prompt is too long; the model will not see: {cut}"] if cut else sentences

    def close(self) -> None:
        """Stops what runs and lets the engine forget every version."""
        self.cancel()
        with self._running, self._turns.take():
            for version in self.versions.values():
                if version.parent_id is None:
                    self._engine.forget(version.id)
            self.versions, self.current, self.proposal = {}, None, None

    def _read(self, mask: bytes | Image.Image | None) -> masks.Mask:
        painted = masks.read_mask(mask, self.current.image.size) if mask and self.current else None
        if painted is None or masks.is_empty(painted):
            raise UserError("Paint over the part that should change first.")
        return painted

    def _base_of_edit(self, painted: masks.Mask) -> Version:
        """The version that an edit with this mask starts from; the caller holds the engine's turn."""
        if self.proposal and not np.array_equal(painted, self.proposal.painted):
            self._commit()
        assert self.current is not None
        return self.current

    def _keep(self) -> None:
        if self.proposal:
            with self._turns.take():
                self._commit()

    def _commit(self) -> None:
        """Makes a version of what waits, if anything does; the caller holds the engine's turn."""
        if self.proposal:
            parent_id = self.proposal.candidate.parent_id
            self._add(self._engine.commit(self.proposal.candidate), self._alpha[parent_id])

    def _add(self, version: Version, alpha: Image.Image | None) -> None:
        self.versions[version.id] = self.current = version
        self._alpha[version.id] = alpha
        self.proposal = None

    def _follow(self, work: Work):
        """Runs `work` as this session's job and yields its progress; returns its result."""
        self._token = CancelToken()  # before the work begins, so that no cancel is lost
        job = Job(work, self._turns, self._token)
        try:
            yield from job.progress()
        finally:
            self._token = None
        return job.result()

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        while not self._running.acquire(timeout=0.02):  # two quick clicks follow one another
            if self._token is not None:  # a job can take long
                raise UserError("This picture is being painted: wait for it, or stop it first.")
        try:
            yield
        finally:
            self._running.release()
