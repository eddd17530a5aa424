"""The one thread on which an engine computes: requests in order of arrival, and idle work while there are none."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from diffusion_engine.errors import EngineError

Result = TypeVar("Result")


class ComputeThread:
    """Runs work handed to it by any thread.

    Why one thread: OpenMP keeps a team of workers for every thread that has ever computed. With more workers than cores
    they stop spinning, so that each small parallel loop costs a sleep and a wake: measured on 2 cores, a pass by rows
    takes 1.4 times as long once a second thread has computed.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._idle_work: Callable[[], bool] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Waits for its turn and for its end; returns what `work` returns or raises what it raises.

        The caller's context variables are seen by it. Raises EngineError once the thread is closed.
        """
        if threading.current_thread() is self._thread:
            return work()
        return self._queued(work).result()

    def _queued(self, work: Callable[[], Result]) -> Future[Result]:
        outcome: Future[Result] = Future()
        context, waiting = contextvars.copy_context(), [outcome]

        def job() -> None:
            try:
                waiting[0].set_result(context.run(work))
            except BaseException as error:
                waiting[0].set_exception(error)
            # An error knows this frame: if it knew the outcome still, the cycle would keep what failed in memory.
            waiting.clear()

        with self._condition:
            if self._closed:
                raise EngineError("The engine is closed; make a new one.")
            self._jobs.append(job)
            self._wake()
        return outcome

    def when_idle(self, work: Callable[[], bool]) -> None:
        """Calls `work` again and again while nobody waits for anything, until it returns False (nothing is left)."""
        with self._condition:
            self._idle_work = work
            self._wake()

    def close(self) -> None:
        """Ends the thread after what it is at; requests that wait already are still served."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._work, name="compute", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _work(self) -> None:
        while self._work_once():
            pass

    def _work_once(self) -> bool:
        """Runs the next request, or some idle work; False once the thread is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._jobs or self._idle_work or self._closed)
            job = self._jobs.popleft() if self._jobs else None
            idle = None if job or self._closed else self._idle_work
            if idle is not None:
                self._idle_work = None
        if job is not None:
            job()
        elif idle is None:
            return False
        elif idle():
            self.when_idle(idle)
        return True
