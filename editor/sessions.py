"""The sessions of one engine, in memory and, where there is a store, on disk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from diffusion_engine import UserError
from editor.jobs import Turns
from editor.session import EditSession

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine
    from editor.autosave import SessionStore
    from editor.snapshot import Snapshot


class Sessions:
    """The sessions of one engine by key. The one unused for longest leaves the memory to make room for a new one."""

    def __init__(self, engine: EditableDiffusionEngine, store: SessionStore | None = None, limit: int = 32) -> None:
        self._engine = engine
        self._store = store
        self._turns = Turns()
        self._limit = limit
        self._sessions: OrderedDict[str, EditSession] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def engine(self) -> EditableDiffusionEngine:
        return self._engine

    def enter(self, key: str | None) -> EditSession:
        """The session `key`, from memory or from disk, or a new one if there is none (any more)."""
        with self._lock:
            session = self._find(key) or EditSession(self._engine, self._turns, changed=self._save)
            retired = self._admit(session)
        for old in retired:
            old.close()
        return session

    def begin(self, snapshot: Snapshot) -> EditSession:
        """A session of its own with what a project file holds; other sessions stay as they are."""
        session = EditSession(self._engine, self._turns, snapshot, self._save)
        with self._lock:
            retired = self._admit(session)
        for old in retired:
            old.close()
        self._save(session)
        return session

    def get(self, key: str | None) -> EditSession:
        """The session `key`; raises UserError if it is gone."""
        with self._lock:
            session = self._find(key)
            if session is None:
                raise UserError("This session is gone: reload the page to begin a new one.")
            self._sessions[session.key] = session
            self._sessions.move_to_end(session.key)
        return session

    def cancel_all(self) -> None:
        """Stops every running job within a step."""
        with self._lock:
            for session in self._sessions.values():
                session.cancel()

    def _admit(self, session: EditSession) -> list[EditSession]:
        """Puts a session in the first place; returns those that have to leave."""
        self._sessions[session.key] = session
        self._sessions.move_to_end(session.key)
        surplus = max(0, len(self._sessions) - self._limit)
        return [self._sessions.popitem(last=False)[1] for _ in range(surplus)]

    def _find(self, key: str | None) -> EditSession | None:
        if not key or key in self._sessions or self._store is None:
            return self._sessions.get(key or "")
        snapshot = self._store.load(key)
        return EditSession(self._engine, self._turns, snapshot, self._save) if snapshot else None

    def _save(self, session: EditSession) -> None:
        if self._store is not None:
            self._store.save(session.snapshot())
