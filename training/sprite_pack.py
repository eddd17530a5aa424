"""`python -m training.sprite_pack`: packs the cut-outs of all objects from the npm package they come from.

The pack is committed, so training needs no registry; this shows where it is from, and makes it anew when the table of
objects changes. The art is Microsoft's Fluent Emoji (MIT, see NOTICE). Not all of it is under that licence: flags,
paperclips, the technologist and the video game must stay out of the table.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from diffusion_engine import UserError
from training.objects import CUTOUTS, objects

PACKAGE = "@lobehub/fluent-emoji-3d@1.1.0"
SHA256 = "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58"
FLAGS = ("1f1e", "1f1f", "1f38c", "1f3c1", "1f3f3", "1f3f4", "1f6a9")
NOT_FREE = (*FLAGS, "1f4ce", "1f587", "1f9d1-200d-1f4bb", "1f3ae")  # what refused code points begin with
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same pictures make the same bytes


def fetch(folder: Path) -> Path:
    """The package's archive, checked against its hash. Raises UserError if npm or the hash fails."""
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
    try:
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{PACKAGE} could not be fetched: install npm and check the network.") from error
    archive = folder / name
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise UserError(f"{PACKAGE} is not the one this project was made with: its SHA-256 is {found}.")
    return archive


def pack(archive: Path, path: Path) -> None:
    """Writes the cut-outs named in the table of objects from the package to `path`, a zip of webp files. The same
    pictures make the same bytes. Raises UserError if the table names art that is not free or not in the package."""
    codes = sorted(thing.code_point for thing in objects())
    refused = [code for code in codes if code.startswith(NOT_FREE)]
    if refused:
        raise UserError(f"The art of {', '.join(refused)} is not free: remove it from the table of objects.")
    with tarfile.open(archive) as package:
        pictures = {code: _picture(package, code) for code in codes}  # all of them before the old pack is written over
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as packed:
        for code, picture in pictures.items():
            packed.writestr(zipfile.ZipInfo(f"{code}.webp", LONG_AGO), picture)


def _picture(package: tarfile.TarFile, code: str) -> bytes:
    try:
        file = package.extractfile(f"package/assets/{code}.webp")
    except KeyError:
        file = None
    if file is None:
        raise UserError(f"{PACKAGE} has no picture {code}: correct the table of objects.")
    return file.read()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.sprite_pack", description="Packs the cut-outs.")
    parser.add_argument("--archive", type=Path, help="the package, if it is already here (default: fetched by npm)")
    parser.add_argument("--output", type=Path, default=CUTOUTS, help="where to write the pack")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        pack(options.archive or fetch(Path(folder)), options.output)
    print(f"{options.output.name}: {len(objects())} cut-outs, {options.output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
