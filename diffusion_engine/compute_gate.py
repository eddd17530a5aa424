"""One computation at a time on a device; what somebody waits for goes before what runs ahead of need."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator


class ComputeGate:
    """Foreground work holds the gate as long as it runs; background work takes it for one step at a time."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._busy = False
        self._waiting = 0

    @contextlib.contextmanager
    def foreground(self) -> Generator[None]:
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait_for(lambda: not self._busy)
            finally:
                self._waiting -= 1
            self._busy = True
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def background(self) -> Generator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._busy and not self._waiting)
            self._busy = True
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()
