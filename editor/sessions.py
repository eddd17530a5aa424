"""The sessions of one engine."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from diffusion_engine import UserError
from editor.jobs import Turns
from editor.session import EditSession

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine


class Sessions:
    """The sessions of one engine by key; the one unused for longest makes room for a new one."""

    def __init__(self, engine: EditableDiffusionEngine, limit: int = 32) -> None:
        self._engine = engine
        self._turns = Turns()
        self._limit = limit
        self._sessions: OrderedDict[str, EditSession] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def engine(self) -> EditableDiffusionEngine:
        return self._engine

    def enter(self, key: str | None) -> EditSession:
        """The session `key`, or a new one if there is none (any more)."""
        retired = []
        with self._lock:
            session = self._sessions.get(key or "")
            if session is None:
                session = EditSession(self._engine, self._turns)
                self._sessions[session.key] = session
                while len(self._sessions) > self._limit:
                    retired.append(self._sessions.popitem(last=False)[1])
            self._sessions.move_to_end(session.key)
        for old in retired:
            old.close()
        return session

    def get(self, key: str | None) -> EditSession:
        """The session `key`; raises UserError if it is gone."""
        with self._lock:
            session = self._sessions.get(key or "")
            if session is None:
                raise UserError("The editor was restarted: reload the page to go on.")
            self._sessions.move_to_end(session.key)
        return session

    def cancel_all(self) -> None:
        """Stops every running job within a step."""
        with self._lock:
            for session in self._sessions.values():
                session.cancel()
