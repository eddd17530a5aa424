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
        retired: list[EditSession] = []
        with self._lock:
            session = self._find(key)
            if session is None:
                session = EditSession(self._engine, self._turns, changed=self._save)
            self._sessions[session.key] = session
            self._sessions.move_to_end(session.key)
            while len(self._sessions) > self._limit:
                retired.append(self._sessions.popitem(last=False)[1])
        for old in retired:
            old.close()
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

    def _find(self, key: str | None) -> EditSession | None:
        if not key or key in self._sessions or self._store is None:
            return self._sessions.get(key or "")
        snapshot = self._store.load(key)
        return EditSession(self._engine, self._turns, snapshot, self._save) if snapshot else None

    def _save(self, session: EditSession) -> None:
        if self._store is not None:
            self._store.save(session.snapshot())
