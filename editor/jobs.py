"""Long work off the caller's thread: jobs take turns at the engine, report their progress and stop within a step."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
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
    """One piece of work in its own thread; after `start` it begins as soon as it has its turn.

    Anyone may follow it, from the beginning or later, and stop following without stopping it; `cancel` does that.
    """

    def __init__(self, work: Work[Result], turns: Turns, ended: Callable[[], None] = lambda: None) -> None:
        """ended: called when the work is over, however it ended."""
        self._token = CancelToken()
        self._changed = threading.Condition()
        self._latest: Progress | None = None
        self._outcome: Future[Result] = Future()
        self._thread = threading.Thread(target=self._run, args=(work, turns, ended), name="deltabrush-job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def done(self) -> bool:
        return self._outcome.done()

    @property
    def error(self) -> BaseException | None:
        """What the work raised, once it is done."""
        return self._outcome.exception() if self.done else None

    def cancel(self) -> None:
        """Stops it within a step."""
        self._token.cancel()

    def __iter__(self) -> Generator[Progress]:
        return self.steps()

    def steps(self, every: float = 0) -> Generator[Progress]:
        """Yields the newest step as the work goes on (a slow reader skips some), then raises what the work raised.

        every: seconds to leave between two steps. Whoever shows them takes the processor from the work itself.
        """
        seen: Progress | None = None
        while (newest := self._newer_than(seen)) is not None:
            yield newest
            seen = newest
            with self._changed:
                self._changed.wait_for(lambda: self.done, every)
        self.result()

    def result(self) -> Result:
        """What the work returned, or raises what it raised; waits for it."""
        return self._outcome.result()

    def _newer_than(self, seen: Progress | None) -> Progress | None:
        """Waits for a step that has not been seen; None once the work is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.done or self._latest is not seen)
            return None if self.done else self._latest

    def _run(self, work: Work[Result], turns: Turns, ended: Callable[[], None]) -> None:
        try:
            with turns.take(self._token):
                result = work(self._report, self._token)
            self._outcome.set_result(result)
        except BaseException as error:
            self._outcome.set_exception(error)
        finally:
            ended()
            with self._changed:
                self._changed.notify_all()

    def _report(self, progress: Progress) -> None:
        with self._changed:
            self._latest = progress
            self._changed.notify_all()
