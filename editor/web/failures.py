"""Mistakes of our own: the traceback goes to the log, and whoever met one is told its number."""

from __future__ import annotations

import logging
import secrets

log = logging.getLogger(__name__)


def logged(error: BaseException) -> str:
    """The number under which the log now has the error."""
    number = secrets.token_hex(3)
    log.error("error %s", number, exc_info=error)
    return number


def apology(error: BaseException) -> str:
    """The sentence for programs; the page has it in its own words."""
    return f"Something went wrong inside the editor (number {logged(error)} in its log)."
