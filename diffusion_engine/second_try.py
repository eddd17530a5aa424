"""Out of memory: what failed is tried once more with less held, and then it fails with one sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch

from diffusion_engine.compute_thread import Result
from diffusion_engine.errors import EngineError


def with_second_try(work: Callable[[], Result], make_room: Callable[[], None]) -> Result:
    """What `work` returns. Where memory does not suffice it runs again after `make_room`; EngineError if that fails."""
    outcome = _attempt(work)
    if outcome is None:
        make_room()  # the machine has less memory than we were given
        outcome = _attempt(work)
    if outcome is None:
        raise EngineError("There was not enough memory; try a smaller picture, fewer variations or a smaller cache.")
    return outcome[0]


def _attempt(work: Callable[[], Result]) -> tuple[Result] | None:
    """What `work` returns; None where memory did not suffice. Its traceback, which would keep the tensors of what
    failed alive, is gone then."""
    try:
        return (work(),)
    except (torch.OutOfMemoryError, MemoryError):
        return None
    except RuntimeError as problem:  # a CPU allocation fails with a plain RuntimeError
        if "can't allocate memory" not in str(problem):
            raise
        return None
