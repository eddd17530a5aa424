"""Long work off the caller's thread: jobs take turns at the engine, report their progress and stop within a step."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Generic, TypeVar

from diffusion_engine import Cancelled, CancelToken, Progress, UserError

Result = TypeVar("Result")
Work = Callable[[Callable[[Progress], None], CancelToken], Result]


class Turns:
    """One job at a time, first come first served; who finds the line full is told at once."""

    def __init__(self, waiting_limit: int = 8) -> None:
        self._waiting_limit = waiting_limit
        self._line: deque[object] = deque()
        self._moved = threading.Condition()

    @contextmanager
    def take(self, token: CancelToken | None = None) -> Generator[None]:
        """Waits for its turn and holds it. Raises UserError if the line is full, Cancelled if stopped while waiting."""
        ticket = object()
        with self._moved:
            if len(self._line) > self._waiting_limit:
                raise UserError(f"{self._waiting_limit} others are waiting already: try again in a minute.")
            self._line.append(ticket)
        try:
            with self._moved:
                while self._line[0] is not ticket:
                    if token is not None and token.cancelled:
                        raise Cancelled
                    self._moved.wait(0.1)
            yield
        finally:
            with self._moved:
                self._line.remove(ticket)
                self._moved.notify_all()


class Job(Generic[Result]):
    """One piece of work in its own thread, begun as soon as it has its turn; `token` stops it."""

    def __init__(self, work: Work[Result], turns: Turns, token: CancelToken) -> None:
        self._token = token
        self._events: SimpleQueue[Progress | None] = SimpleQueue()
        self._outcome: Future[Result] = Future()
        self._thread = threading.Thread(target=self._run, args=(work, turns), name="deltabrush-job", daemon=True)
        self._thread.start()

    def progress(self) -> Generator[Progress]:
        """Yields the newest step as the work goes on (a slow reader skips some). Leaving early stops the work."""
        try:
            while (event := self._newest()) is not None:
                yield event
        finally:
            self._token.cancel()
            self._thread.join()

    def result(self) -> Result:
        """What the work returned, or raises what it raised."""
        return self._outcome.result()

    def _run(self, work: Work[Result], turns: Turns) -> None:
        try:
            with turns.take(self._token):
                result = work(self._events.put, self._token)
            self._outcome.set_result(result)
        except BaseException as error:
            self._outcome.set_exception(error)
        finally:
            self._events.put(None)

    def _newest(self) -> Progress | None:
        event = self._events.get()
        while event is not None and not self._events.empty():
            event = self._events.get()
        return event
