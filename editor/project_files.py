"""Project files: a whole session in one `.deltabrush` file, a zip of the members and the manifest of `editor.manifest`.

Members are stored, never compressed: pictures are compressed already, and latents hardly can be. So the file's size
bounds all that is in it, and a member that claims to unfold into more is no project. Nothing is ever extracted to disk.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

from diffusion_engine import UserError
from editor.files import label, replacing
from editor.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MAX_MEMBERS,
    MEMBER,
    Digests,
    digest,
    manifest,
    members,
    read_manifest,
    read_session,
)
from editor.snapshot import Snapshot

SUFFIX = ".deltabrush"
MAX_BYTES = 2**30
MAX_PIXELS = 2**29  # of all pictures together: they are in memory at once
_END = struct.Struct("<4s16x4s4H2LH")  # of a zip: where a large one has a pointer, and the record that all end with
_DIRECTORY_BYTES_EACH = 128  # of the directory, for one member
_TIME = (1980, 1, 1, 0, 0, 0)  # the same session makes the same file


def save_project(snapshot: Snapshot, path: Path) -> None:
    """Writes a session into a file, or raises UserError and leaves the old one. What is written can be opened."""
    pixels = sum(entry.image.width * entry.image.height for entry in snapshot.entries)
    making, digests = members(snapshot), Digests()
    if pixels > MAX_PIXELS or len(making) >= MAX_MEMBERS:
        raise UserError("This history is too long for one file: export its pictures, or begin a new one from here.")
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, make in making.items():
            data = make()
            if file.tell() + len(data) > MAX_BYTES - MAX_MANIFEST_BYTES:
                raise UserError(
                    "This history is too long for one file: export its pictures, or begin a new one from here."
                )
            archive.writestr(zipfile.ZipInfo(name, _TIME), data)
            digests[name] = digest(data)
        archive.writestr(zipfile.ZipInfo(MANIFEST, _TIME), manifest(snapshot, digests))


def read_project(source: Path | BinaryIO, name: str, key: str) -> Snapshot:
    """The session in a file, under a key of its own. name: of the file, for sentences. Raises UserError where it is not
    a project, damaged, or of a newer program; then nothing of it is used, and the file is as it was."""
    name = label(name)
    if isinstance(source, Path):
        try:
            if source.is_file():  # a device or a pipe is none, and may never end
                with source.open("rb") as file:
                    return read_project(file, name, key)
        except OSError as error:
            raise UserError(f"{name} cannot be read: check its name and permissions.") from error
        raise UserError(f"{name} does not exist: check the name.")
    if source.read(4) != b"PK\3\4":
        raise UserError(f"{name} is not a Deltabrush project: choose a file that ends in {SUFFIX}.")
    try:
        with _archive(source) as archive:
            told = read_manifest(archive.read(MANIFEST))
            if {*archive.namelist()} != {MANIFEST, *told["members"]}:
                raise ValueError("it holds more or less than it speaks of")
            return read_session(told, archive.read, key, MAX_PIXELS)
    except UserError:  # of a newer program
        raise
    except Exception as error:  # damaged bytes provoke anything
        raise UserError(f"{name} is damaged, so nothing of it was opened: open an earlier copy of it.") from error


def _archive(file: BinaryIO) -> zipfile.ZipFile:
    """The zip, once its directory says that it is one of ours; raises ValueError before anything is read or allocated.

    The record at its end is looked at first: the directory of a hostile file alone could fill the memory.
    """
    size = file.seek(0, os.SEEK_END)
    if size > MAX_BYTES:
        raise ValueError("it is too large")
    file.seek(-_END.size, os.SEEK_END)
    large, mark, disk, first_disk, here, count, directory, start, comment = _END.unpack(file.read(_END.size))
    if mark != b"PK\5\6" or large == b"PK\6\7" or disk or first_disk or comment or here != count:
        raise ValueError("it is cut off, or a zip of another kind")
    if not 0 < count <= MAX_MEMBERS or directory > count * _DIRECTORY_BYTES_EACH or start + directory + 22 != size:
        raise ValueError("its directory is not one of ours")
    archive = zipfile.ZipFile(file)
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) != count or len(names) != count or not all(_is_ours(info) for info in infos):
        raise ValueError("a member is not one of ours")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("members overlap")
    return archive


def _is_ours(info: zipfile.ZipInfo) -> bool:
    plain = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
    plain = plain and not info.flag_bits and not info.extra and not info.comment
    named = MEMBER.fullmatch(info.orig_filename) or info.orig_filename == MANIFEST
    kept = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)  # no link, no folder, no device
    return plain and kept and bool(named) and (info.filename != MANIFEST or info.file_size <= MAX_MANIFEST_BYTES)
