"""The history of a session: a tree of pictures, each made from its parent, and where in it the person is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image

from diffusion_engine import UserError

NAME_LENGTH = 80
Made = dict[str, Any]  # how a picture was made, ready for JSON; editor/metadata.py writes it into files


def named(text: str) -> str:
    """A name for an entry from a prompt, a file's name or what a person typed: one line, not endless."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:NAME_LENGTH] or "picture"


@dataclass(frozen=True)
class Entry:
    """A picture of the history. Its id never changes, whatever the engine calls the picture after a restart.

    image: RGB; alpha: "L" or None; exif: what the camera wrote, for exports; settings: steps, guidance and sampler that
    its edits are made with; made, report: how it was made and what that cost, {} where nothing is known
    """

    id: str
    parent_id: str | None
    name: str
    image: Image.Image = field(repr=False, compare=False)
    alpha: Image.Image | None = field(default=None, repr=False, compare=False)
    exif: Image.Exif | None = field(default=None, repr=False, compare=False)
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    made: Made = field(default_factory=dict[str, Any])
    report: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Place:
    """Where an entry is drawn: its generation, and the lane of its branch, both from 0."""

    column: int
    lane: int


class History:
    """Entries in the order in which they were made; a parent always comes before its children."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._forward: dict[str, str] = {}  # the child gone back from last
        self.current: Entry | None = None

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._entries

    def __getitem__(self, entry_id: str) -> Entry:
        """Raises UserError where there is no such entry."""
        if entry_id not in self._entries:
            raise UserError("That picture is gone: choose another one from the history.")
        return self._entries[entry_id]

    @property
    def previous(self) -> Entry | None:
        """What the current entry was made from."""
        return self._entries.get(self.current.parent_id or "") if self.current else None

    @property
    def next(self) -> Entry | None:
        """The child that was gone back from last, else the newest one."""
        if self.current is None:
            return None
        children = [entry.id for entry in self if entry.parent_id == self.current.id]
        return self[self._forward.get(self.current.id, children[-1])] if children else None

    def add(self, entry: Entry) -> None:
        """Adds an entry and goes there."""
        self._entries[entry.id] = entry
        self.visit(entry.id)

    def visit(self, entry_id: str | None) -> None:
        """Goes to an entry, or, with None, to no picture at all."""
        self.current = None if entry_id is None else self[entry_id]
        if self.current and self.current.parent_id:
            self._forward[self.current.parent_id] = self.current.id

    def rename(self, entry_id: str, name: str) -> None:
        """Raises UserError unless the name says something."""
        if not name.strip():
            raise UserError("A name needs at least one letter.")
        self._entries[entry_id] = replace(self[entry_id], name=named(name))
        if self.current and self.current.id == entry_id:
            self.current = self._entries[entry_id]

    def places(self) -> dict[str, Place]:
        """Where each entry is drawn: a first child goes on in its parent's lane, every other one begins a new lane."""
        places: dict[str, Place] = {}
        continued: set[str] = set()
        lanes = 0
        for entry in self:
            parent = places.get(entry.parent_id or "")
            if parent and entry.parent_id and entry.parent_id not in continued:
                continued.add(entry.parent_id)
                places[entry.id] = Place(parent.column + 1, parent.lane)
            else:
                places[entry.id] = Place(parent.column + 1 if parent else 0, lanes)
                lanes += 1
        return places
