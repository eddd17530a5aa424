"""Progress events, and the token that cancels a request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diffusion_engine.errors import Cancelled

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Progress:
    """One step done. `step` counts from 1 within its stage: "record", "denoise" or "decode".

    preview: RGB, of the part of the picture that is changing; place: where it lies, (left, top, width, height)
    """

    stage: str
    step: int
    steps: int
    preview: Image.Image | None = None
    place: tuple[int, int, int, int] | None = None
    seconds_left: float | None = None


OnProgress = Callable[[Progress], None]


class CancelToken:
    """Cancels one request from any thread; the engine looks at it once per step."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def raise_if_cancelled(self) -> None:
        if self._event.is_set():
            raise Cancelled("The request was cancelled.")
