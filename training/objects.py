"""The objects the starter model learns: names, synonyms, natural colours and cut-outs.

`data/objects.csv` was checked by hand against the pictures: each name and colour is what a person calls it.
"""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

from PIL import Image

DATA = Path(__file__).parent / "data"
TABLE = DATA / "objects.csv"
CUTOUTS = DATA / "cutouts.zip"
Place = Literal["air", "ground", "water"]


@dataclass(frozen=True)
class Object:
    """One thing that can be asked for."""

    name: str
    synonyms: tuple[str, ...]
    colour: str  # its natural one, "" if it has many
    place: Place  # where it is found
    recolour: bool  # its dominant hue is its body: it can be painted in another colour
    everyday: bool  # asked for more often, so shown more often
    code_point: str  # the file name of its cut-out


@cache
def objects() -> tuple[Object, ...]:
    """All of them, in the order of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_object(row) for row in csv.DictReader(file))


def _object(row: dict[str, str]) -> Object:
    return Object(
        name=row["name"],
        synonyms=tuple(word for word in row["synonyms"].split(";") if word),
        colour=row["colour"],
        place=cast(Place, row["place"]),
        recolour=row["recolour"] == "yes",
        everyday=row["everyday"] == "yes",
        code_point=row["code_point"],
    )


def cutouts() -> dict[str, Image.Image]:
    """Name of each object to its RGBA cut-out, at most 256 px a side, cropped to what is visible."""
    with zipfile.ZipFile(CUTOUTS) as archive:
        return {thing.name: _cutout(archive.read(f"{thing.code_point}.webp")) for thing in objects()}


def _cutout(data: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(data)).convert("RGBA")
    return picture.crop(picture.getchannel("A").getbbox())
