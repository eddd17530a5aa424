"""Where exported pictures are saved: one folder a day, numbered files, nothing ever overwritten."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

from diffusion_engine import UserError


def new_output(folder: Path, seed: int, suffix: str = "png") -> Path:
    """A file name of our own that nothing has yet, such as outputs/2026-11-29/0007-1234.png; the folder is made."""
    today = folder / date.today().isoformat()
    try:
        today.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("The folder for pictures cannot be made: choose another one with --output-dir.") from error
    taken = {path.name.partition("-")[0] for path in today.iterdir()}
    number = next(number for number in itertools.count(1) if f"{number:04d}" not in taken)
    return today / f"{number:04d}-{seed}.{suffix}"
