"""What waits to be kept: the results of the edits that were tried with one mask."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from editor.history import Entry
from editor.masks import Mask
from editor.requests import EditRequest
from editor.workspace import Area, Tiles

if TYPE_CHECKING:
    from diffusion_engine import Candidate, Report

SETTINGS = ("steps", "guidance", "sampler")  # of a picture; its edits share them
MADE_WITH = ("prompt", "negative_prompt", "seed", "steps", "guidance", "sampler")
MAX_TAKES = 8  # each holds the rows it recomputed


@dataclass(frozen=True)
class Take:
    """One result of an edit, waiting to be kept or dropped. blend: uint8 [h, w], of the area."""

    id: str
    request: EditRequest
    candidate: Candidate
    area: Area
    blend: Mask

    @property
    def report(self) -> Report:
        return self.candidate.report


@dataclass(frozen=True)
class Proposal:
    """The takes of one mask, from all prompts tried with it. painted: uint8 [H, W]; tiles: what was recomputed."""

    takes: tuple[Take, ...]
    painted: Mask
    shown_id: str
    tiles: Tiles

    @property
    def shown(self) -> Take:
        return next(take for take in self.takes if take.id == self.shown_id)


def made_by(take: Take, parent: Entry) -> dict[str, Any]:
    """How a take was made: what was asked for, over what its picture was made with."""
    inherited = {"negative_prompt": parent.made.get("negative_prompt")} | parent.settings
    asked = {key: value for key, value in asdict(take.request).items() if value is not None and key != "variations"}
    made = {key: value for key, value in (inherited | asked).items() if value is not None}
    whole = parent.made.get("kind") in ("generated", "repainted")
    kind = "repainted" if whole else "edited"
    return made | {"seed": take.candidate.seed, "kind": kind, "parent": parent.id}
