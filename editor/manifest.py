"""What a session is made of on disk: members, which are files of their own, and a manifest that vouches for each.

A folder of the autosave and a project file hold the same. Members never change: what has a name has its content. The
manifest is one line of JSON and one with its SHA-256; it is written last, so it never speaks of what is not there.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from PIL import Image

from diffusion_engine import SavedVersion, UserError
from editor.areas import Box
from editor.history import Entry, named
from editor.images import decode
from editor.limits import MAX_SEED
from editor.metadata import camera_tags
from editor.proposals import SETTINGS
from editor.snapshot import Draft, Snapshot
from editor.workspace import Area

FORMAT = 2
MANIFEST = "session.json"
MEMBER = re.compile(r"[0-9a-z-]{1,40}\.(png|safetensors)")
MAX_MEMBERS = 20_000
MAX_MANIFEST_BYTES = 64 * 2**20
_ID = re.compile(r"[0-9a-z-]{1,40}")

Digests = dict[str, dict[str, Any]]  # of members by their names: {"bytes", "sha256"}


def members(snapshot: Snapshot) -> dict[str, Callable[[], bytes]]:
    """Every member by its name, and what makes its bytes."""
    made: dict[str, Callable[[], bytes]] = {}
    for entry in snapshot.entries:
        made[f"{entry.id}.png"] = lambda entry=entry: _png(entry)
    for version_id, saved in snapshot.versions.items():
        made[f"{version_id}.safetensors"] = lambda saved=saved: _arrays(saved)
    if snapshot.draft:
        png = snapshot.draft.png
        made[_mask_name(png)] = lambda: png
    return made


def manifest(snapshot: Snapshot, digests: Digests) -> bytes:
    """Describes a session whose members are these."""
    draft, areas = snapshot.draft, snapshot.areas
    told = {
        "format": FORMAT,
        "current": snapshot.current_id,
        "mask": {"left": draft.left, "top": draft.top, "file": _mask_name(draft.png)} if draft else None,
        "entries": [
            {
                "id": entry.id,
                "parent": entry.parent_id,
                "name": entry.name,
                "settings": entry.settings,
                "made": entry.made,
                "report": entry.report,
                "area": _told_area(areas[entry.id]) if entry.id in areas else None,
            }
            for entry in snapshot.entries
        ],
        "versions": [
            {"id": version_id, "parent": saved.parent_id, "facts": saved.facts}
            for version_id, saved in snapshot.versions.items()
        ],
        "members": digests,
    }
    line = json.dumps(told).encode()
    return line + b"\n" + _digest(line).encode() + b"\n"


def read_manifest(data: bytes) -> dict[str, Any]:
    """A manifest of any format up to this one, as this one has it; its fields are not checked yet.

    Raises UserError where the format is a newer one, and ValueError or whatever else damaged bytes provoke.
    """
    line, _, trailer = data.partition(b"\n")
    told = json.loads(line)
    number = told["format"]
    if type(number) is not int or number < 1:
        raise ValueError("it has no format")
    if number > FORMAT:
        raise UserError(
            f"This was saved by a newer Deltabrush (format {number}, and this one reads up to {FORMAT}): update it."
        )
    if number >= 2 and trailer.decode() != f"{_digest(line)}\n":
        raise ValueError("the manifest is damaged")
    while number < FORMAT:
        told = MIGRATIONS[number](told)
        number += 1
    return told


def read_session(
    told: dict[str, Any], member: Callable[[str], bytes], key: str, max_pixels: float = math.inf
) -> Snapshot:
    """The session that a manifest describes. member: the bytes of one by its name, unchecked; max_pixels: of all
    pictures together.

    Raises ValueError, or whatever else damaged bytes provoke; then nothing of it can be trusted.
    """
    digests: Digests | None = told["members"]
    used: set[str] = set()

    def fetch(name: str) -> bytes:
        if not MEMBER.fullmatch(name) or name in used:
            raise ValueError("a name is not one of ours")
        used.add(name)
        data = member(name)
        if digests is not None and digests[name] != digest(data):
            raise ValueError(f"{name} is damaged")
        return data

    entries: dict[str, Entry] = {}
    for one in told["entries"]:
        entry = _entry(one, entries, fetch)
        max_pixels -= entry.image.width * entry.image.height
        if max_pixels < 0:
            raise ValueError("its pictures are too many to be opened at once")
        entries[entry.id] = entry
    versions: dict[str, SavedVersion] = {}
    for one in told["versions"]:
        version_id, parent = _checked_id(one["id"]), one["parent"]
        if version_id in versions or parent not in (None, *versions):
            raise ValueError("a version is not where it belongs")
        arrays = safetensors.numpy.load(fetch(f"{version_id}.safetensors"))
        versions[version_id] = SavedVersion(parent, one["facts"], arrays)
    areas = {one["id"]: _area(one["area"], entries[one["id"]], versions) for one in told["entries"] if one["area"]}
    if told["current"] is not None and told["current"] not in entries:
        raise ValueError("it names a picture that it does not hold")
    mask = told["mask"]
    draft = Draft(_whole(mask["left"]), _whole(mask["top"]), fetch(mask["file"])) if mask else None
    if digests is not None and used != digests.keys():
        raise ValueError("it holds more than it speaks of")
    return Snapshot(key, tuple(entries.values()), told["current"], draft, areas, versions)


def digest(data: bytes) -> dict[str, Any]:
    """What a manifest says of a member."""
    return {"bytes": len(data), "sha256": _digest(data)}


def _from_1(told: dict[str, Any]) -> dict[str, Any]:
    """Format 1 kept pictures and a mask under one name, and no checksums."""
    entries = [one | {"area": None} for one in told["entries"]]
    mask = told["mask"] and told["mask"] | {"file": "mask.png"}
    return told | {"entries": entries, "mask": mask, "versions": [], "members": None}


MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}  # each to the next format


def _entry(told: dict[str, Any], before: Mapping[str, Entry], fetch: Callable[[str], bytes]) -> Entry:
    entry_id, parent = _checked_id(told["id"]), told["parent"]
    if entry_id in before or parent not in (None, *before):
        raise ValueError("a picture is not where it belongs")
    settings, made, report = (_dict(told[name]) for name in ("settings", "made", "report"))
    seed, numbers = made.get("seed", 0), [value for name, value in settings.items() if name != "sampler"]
    if not settings.keys() <= {*SETTINGS} or not all(value is None or _is_number(value) for value in numbers):
        raise ValueError("its settings are not ones of ours")
    if type(seed) is not int or not 0 <= seed <= MAX_SEED or (report and not _is_number(report["seconds"]["total"])):
        raise ValueError("it is not as this program writes it")
    image = _picture(fetch(f"{entry_id}.png"))
    return Entry(
        entry_id,
        parent,
        named(told["name"]),
        image.convert("RGB"),
        image.getchannel("A") if image.mode == "RGBA" else None,
        camera_tags(image),
        settings,
        made,
        report,
    )


def _picture(data: bytes) -> Image.Image:
    try:
        decoded = decode(data, "The picture")
    except UserError as error:  # which says what to do with a file of its own
        raise ValueError("a picture is damaged") from error
    if decoded.source_format != "PNG" or decoded.image.mode not in ("RGB", "RGBA"):
        raise ValueError("a picture is not as this program writes it")
    return decoded.image


def _told_area(area: Area) -> dict[str, Any]:
    return {"version": area.version_id, "box": [area.box.left, area.box.top, area.box.right, area.box.bottom]}


def _area(told: dict[str, Any], entry: Entry, versions: Mapping[str, SavedVersion]) -> Area:
    left, top, right, bottom = (_whole(edge) for edge in told["box"])
    width, height = entry.image.size
    fits = 0 <= left < right <= width and 0 <= top < bottom <= height
    if not fits or versions[told["version"]].facts["size"] != [right - left, bottom - top]:
        raise ValueError("a version is not of the picture that it belongs to")
    return Area(told["version"], Box(left, top, right, bottom))


def _arrays(saved: SavedVersion) -> bytes:
    # safetensors writes memory as it lies, in whatever order
    return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in saved.arrays.items()})


def _png(entry: Entry) -> bytes:
    image = entry.image
    if entry.alpha is not None:
        image = image.copy()
        image.putalpha(entry.alpha)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1, exif=entry.exif or Image.Exif())
    return buffer.getvalue()


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not as this program writes it")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _checked_id(value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("an id is not one of ours")
    return value


def _mask_name(png: bytes) -> str:
    return f"mask-{_digest(png)[:16]}.png"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
