"""What a person at a terminal sees and can do while the engine works: notes, a progress bar, Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from tqdm import tqdm

from diffusion_engine import Cancelled, CancelToken, Progress


def note(sentence: str) -> None:
    print(f"Note: {sentence}", file=sys.stderr)


class ProgressBar:
    """Call it with each `Progress`. One bar per stage on a terminal's stderr; nothing at all in a pipe."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, progress: Progress) -> None:
        if self._bar is None or progress.stage != self._stage:
            self.__exit__()
            self._stage = progress.stage
            self._bar = tqdm(total=progress.steps, desc=progress.stage, unit="step", disable=not sys.stderr.isatty())
        self._bar.update(progress.step - self._bar.n)


@contextmanager
def cancel_on_interrupt() -> Generator[CancelToken]:
    """A token that the first Ctrl-C cancels, so that the engine stops between two steps; a second one interrupts at
    once. Raises Cancelled where the work ended before it looked at the token."""
    token = CancelToken()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if token.cancelled:
            raise KeyboardInterrupt
        token.cancel()

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield token
    finally:
        signal.signal(signal.SIGINT, previous)
    if token.cancelled:
        raise Cancelled
