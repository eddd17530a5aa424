"""What survives the program: all that a session is, but for takes that nobody has kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diffusion_engine import SavedVersion
from editor.history import Entry
from editor.workspace import Area


@dataclass(frozen=True)
class Draft:
    """The mask on the page: its painted part as a PNG, and where that lies."""

    left: int
    top: int
    png: bytes


@dataclass(frozen=True)
class Snapshot:
    """One session. Entries are in the order in which they were made.

    versions: what the engine knew of them, by id, parents before children; areas: which of these stands for which part
    of an entry, by the entry's id
    """

    key: str
    entries: tuple[Entry, ...]
    current_id: str | None
    draft: Draft | None
    areas: Mapping[str, Area] = field(default_factory=dict[str, Area])
    versions: Mapping[str, SavedVersion] = field(default_factory=dict[str, SavedVersion])
