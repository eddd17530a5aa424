"""Budgets: how many bytes of one kind of memory caches may take. Asked before memory is taken, so they hold always."""

from __future__ import annotations

import threading
import weakref
from collections import deque


class Budget:
    """Bytes that may be held, and that are. What is reserved belongs to an object, and comes back when that is gone."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0  # the most that was ever held
        self._held = 0
        self._lock = threading.Lock()
        self._returned: deque[int] = deque()  # of objects that are gone; those go at any moment, on any thread

    @property
    def held(self) -> int:
        with self._lock:
            return self._settled()

    @property
    def free(self) -> int:
        return self.capacity - self.held

    def reserve(self, nbytes: int) -> bool:
        """Takes bytes, all or none; says whether it did."""
        with self._lock:
            if self._settled() + nbytes > self.capacity:
                return False
            self._held += nbytes
            self.peak = max(self.peak, self._held)
            return True

    def give_back(self, nbytes: int) -> None:
        """Returns reserved bytes. May be called in the middle of anything, a finalizer included."""
        self._returned.append(nbytes)

    def give_back_with(self, owner: object, nbytes: int) -> None:
        """Returns reserved bytes once `owner` is gone."""
        weakref.finalize(owner, self.give_back, nbytes).atexit = False

    def _settled(self) -> int:
        while self._returned:
            self._held -= self._returned.popleft()
        return self._held
