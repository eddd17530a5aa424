"""Which backend runs an operation: chosen by device when automatic, never silently replaced when forced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

import torch

Operation = Callable[..., Any]

_implementations: dict[str, dict[str, Operation]] = {}
_forced: ContextVar[str | None] = ContextVar("forced_kernel_backend", default=None)


def register(operation: str, backend: str) -> Callable[[Operation], Operation]:
    """Decorator: adds an implementation of `operation` under the name `backend`."""

    def add(function: Operation) -> Operation:
        _implementations.setdefault(operation, {})[backend] = function
        return function

    return add


def available_backends(operation: str) -> tuple[str, ...]:
    """Names of the backends that implement `operation`."""
    return tuple(_implementations[operation])


@contextlib.contextmanager
def use_backend(backend: str) -> Generator[None]:
    """Forces one backend for the calls inside; an operation that lacks it raises ValueError with the names it has."""
    token = _forced.set(backend)
    try:
        yield
    finally:
        _forced.reset(token)


def select(operation: str, device: torch.device) -> Operation:
    """The implementation for tensors on `device`: the forced one, else Triton on a GPU where it exists, else torch."""
    backends = _implementations[operation]
    forced = _forced.get()
    if forced is not None:
        if forced not in backends:
            raise ValueError(f"{operation} has no backend named {forced!r}; choose one of {', '.join(backends)}.")
        return backends[forced]
    if device.type == "cuda" and "triton" in backends:
        return backends["triton"]
    return backends["torch"]
