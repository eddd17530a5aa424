"""File names shown to people, and files that are either written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from diffusion_engine import UserError

ASIDE = ".deltabrush-"  # how the name of a file that is not yet in place begins


def label(path: str | os.PathLike[str]) -> str:
    """The file's name, safe to print: a name may hold control characters, right-to-left marks, or be endless."""
    name = "".join(character if character.isprintable() else "?" for character in Path(path).name)
    return name if len(name) <= 80 else name[:77] + "..."


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises UserError, before any work, if a file of this name cannot be written here."""
    path = Path(path)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # a new file, or one in a folder that is missing, which is said below
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        raise UserError(f"{label(path)} cannot be used as a file name: choose a shorter, plain one.") from error
    if path.is_dir():
        raise UserError(f"{label(path)} is a folder: add a file name to it.")
    if not path.parent.is_dir():
        raise UserError(f"The folder of {label(path)} does not exist: create it, or choose another one.")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"The folder of {label(path)} cannot be written to: choose another one.")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """A file to write to, aside; at the end it is forced to the disk and moved into place, so that a crash leaves the
    old file or the new one, never half of one. Raises UserError when the disk is full or the folder is gone; the old
    file stays, as it does after any other exception."""
    path = Path(path)
    aside = path.with_name(f"{ASIDE}{secrets.token_hex(8)}.part")
    try:
        with aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _force_folder(path.parent)
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise UserError(
            f"{label(path)} could not be written ({reason}): free some space or choose another folder."
        ) from error
    finally:
        with suppress(OSError):  # a folder that is gone
            aside.unlink(missing_ok=True)


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes `data` as `replacing` does."""
    with replacing(path) as file:
        file.write(data)


def _force_folder(folder: Path) -> None:
    """Forces the new name to the disk; some file systems cannot, and lose no more than the name."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
