"""Errors, typed by who can act on them."""


class UserError(ValueError):
    """Something the person asked for cannot be done; the message is one sentence that says what to do instead."""


class UnsupportedModel(UserError):
    """A model has a part that the sparse engine does not handle; the message names the part."""


class EngineError(RuntimeError):
    """The engine failed (out of memory, a non-finite value); the edit is lost, nothing already made is."""


class Cancelled(Exception):
    """The request was cancelled; everything is as it was before."""
