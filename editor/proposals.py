"""What waits to be kept: the results of the edits that were tried with one mask."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from editor.history import Entry
from editor.masks import Mask
from editor.requests import EditRequest
from editor.workspace import Area, Tiles

if TYPE_CHECKING:
    from diffusion_engine import Candidate, Check, Report

SETTINGS = ("steps", "guidance", "sampler")  # of a picture; its edits share them
MADE_WITH = ("prompt", "negative_prompt", "seed", "steps", "guidance", "sampler")
MAX_TAKES = 8  # each holds the rows it recomputed


@dataclass(frozen=True)
class Take:
    """One result of an edit, waiting to be kept or dropped.

    blend: uint8 [h, w], of the area; check_db: how near it is to the same edit computed densely, once that was asked
    """

    id: str
    request: EditRequest
    candidate: Candidate
    area: Area
    blend: Mask
    check_db: float | None = None

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

    def checked(self, take: Take, check: Check) -> Proposal:
        """With what a check of one take found, and its dense result beside it; the oldest others leave if need be."""
        request = replace(take.request, mode="dense")
        dense = replace(take, id=new_take_id(), request=request, candidate=check.dense)
        found = replace(take, check_db=check.psnr_db)
        others = [one for one in self.takes if one.id != take.id]
        place = self.takes.index(take)
        room = max(0, len(others) + 2 - MAX_TAKES)
        before, after = others[:place], others[place:]
        dropped = min(room, len(before))
        return replace(self, takes=(*before[dropped:], found, dense, *after[: len(after) - (room - dropped)]))


def new_take_id() -> str:
    return f"take-{secrets.token_hex(6)}"


def made_by(take: Take, parent: Entry) -> dict[str, Any]:
    """How a take was made: what was asked for, over what its picture was made with."""
    inherited = {"negative_prompt": parent.made.get("negative_prompt")} | parent.settings
    asked = {key: value for key, value in asdict(take.request).items() if value is not None and key != "variations"}
    made = {key: value for key, value in (inherited | asked).items() if value is not None}
    whole = parent.made.get("kind") in ("generated", "repainted")
    kind = "repainted" if whole else "edited"
    return made | {"seed": take.candidate.seed, "kind": kind, "parent": parent.id}
