"""What survives the program: all that a session is, but for takes that nobody has kept."""

from __future__ import annotations

from dataclasses import dataclass

from editor.history import Entry


@dataclass(frozen=True)
class Draft:
    """The mask on the page: its painted part as a PNG, and where that lies."""

    left: int
    top: int
    png: bytes


@dataclass(frozen=True)
class Snapshot:
    """One session. Entries are in the order in which they were made."""

    key: str
    entries: tuple[Entry, ...]
    current_id: str | None
    draft: Draft | None
