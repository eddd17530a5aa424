"""What a picture file carries beside its pixels, in and out: how it was made, where it is from, what camera took it.

Written: our own JSON, infotext and the IPTC's word for pictures by machines, and of a camera's EXIF the tags listed
here. Read: what Deltabrush, A1111, ComfyUI and InvokeAI write. All that comes from a file is untrusted: types and
ranges are checked, lengths bounded, and what does not fit is left out without a word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from numbers import Rational
from typing import Any

from PIL import ExifTags, Image, PngImagePlugin

from editor.comfyui_graph import read_graph
from editor.infotext import read_infotext, write_infotext
from editor.limits import MAX_GUIDANCE, MAX_SEED, MAX_STEPS

MAX_PROMPT_CHARACTERS = 10_000
MAX_TAG_CHARACTERS = 200
# of a whole text, to be read in milliseconds whatever it is: ordinary ones have a tenth of it
_MAX_JSON_CHARACTERS = 2**17
_MAX_INFOTEXT_CHARACTERS = 2**15
_MAX_SEGMENT_BYTES = 65_533

_OURS = "Deltabrush"
_IPTC_SOURCE = "http://cv.iptc.org/newscodes/digitalsourcetype/"
# how it was made -> the IPTC's digital source type; a picture that was only opened gets none
_DIGITAL_SOURCES = {
    "generated": "trainedAlgorithmicMedia",
    "repainted": "trainedAlgorithmicMedia",
    "edited": "compositeWithTrainedAlgorithmicMedia",
}
_XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
   Iptc4xmpExt:DigitalSourceType="{}"/>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="r"?>"""

_BASE_TEXTS = ("Make", "Model", "Artist", "Copyright")
_EXIF_TEXTS = ("DateTimeOriginal", "OffsetTimeOriginal", "SubsecTimeOriginal", "LensMake", "LensModel")
_EXIF_NUMBERS = (
    "ExposureTime",
    "FNumber",
    "ExposureProgram",
    "ISOSpeedRatings",
    "ExposureBiasValue",
    "MeteringMode",
    "Flash",
    "FocalLength",
    "FocalLengthIn35mmFilm",
    "LensSpecification",
    "WhiteBalance",
)

# Control characters, halves of characters, and marks that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_UNSAFE_IN_TAGS = re.compile(f"{_UNSAFE.pattern}|[\t\n<>]")  # a page that shows a tag as it is runs no script


def camera_tags(source: Image.Image | Image.Exif) -> Image.Exif | None:
    """Of a picture's EXIF what is kept on export: camera, lens, exposure, time, artist and copyright. None if nothing.

    Not kept is all else: place, maker notes, comments, serial numbers, thumbnails, and the orientation, as pictures
    leave upright. Texts lose control characters and angle brackets, and end after MAX_TAG_CHARACTERS. Damaged EXIF is
    none. The result is a copy.
    """
    copy = Image.Exif()
    try:
        exif = source if isinstance(source, Image.Exif) else source.getexif()
        base = _kept(exif, _BASE_TEXTS, _text_tag)
        inner = exif.get_ifd(ExifTags.IFD.Exif)
        details = _kept(inner, _EXIF_TEXTS, _text_tag) | _kept(inner, _EXIF_NUMBERS, _number_tag)
        copy.update(base)
        if details:
            _add_details(copy, details)
        copy.tobytes()
    except Exception:  # Pillow raises whatever the damaged bytes provoke, and when it writes values that do not fit
        return None
    return copy or None


def infotext(made: Mapping[str, Any], size: tuple[int, int]) -> str:
    """The text about a picture of this size (width, height); "" where nothing is known of how it was made."""
    cleaned = {name: _clean(value) if isinstance(value, str) else value for name, value in made.items()}
    return write_infotext({"size": size, **cleaned}) if made else ""


def exif_block(exif: Image.Exif | None, comment: str) -> bytes:
    """The EXIF to write, b"" for none: the camera's tags, and the comment unless the two exceed a JPEG's segment."""
    kept = None if exif is None else camera_tags(exif)
    block = kept.tobytes() if kept else b""
    if not comment:
        return block
    whole = kept or Image.Exif()
    _add_details(whole, {ExifTags.Base.UserComment: b"UNICODE\0" + comment.encode("utf-16-be")})
    commented = whole.tobytes()
    return commented if len(commented) <= _MAX_SEGMENT_BYTES else block


def xmp_packet(made: Mapping[str, Any]) -> bytes:
    """The XMP to write, b"" for none: the digital source type that follows from "kind" in `made`."""
    source = _DIGITAL_SOURCES.get(made.get("kind", ""))
    return _XMP.format(_IPTC_SOURCE + source).encode() if source else b""


def add_text_chunks(chunks: PngImagePlugin.PngInfo, made: Mapping[str, Any], size: tuple[int, int]) -> None:
    """Adds to a PNG of this size what `made` holds, as infotext and as JSON, and the XMP."""
    if made:
        chunks.add_text("parameters", infotext(made, size))
        chunks.add_text("deltabrush", json.dumps(dict(made)))
    if packet := xmp_packet(made):
        chunks.add_itxt("XML:com.adobe.xmp", packet.decode())


def read_made_with(info: Mapping[Any, Any]) -> dict[str, Any]:
    """How a picture was made, from Pillow's `info` of an opened file; {} where nothing is known. Never raises.

    prompt, negative_prompt, sampler: str; seed, steps: int; guidance: float; source: the program that wrote it. Those
    that are missing, of another type or out of range are left out.
    """
    if ours := _checked(_json(info.get("deltabrush")), _OURS):
        return ours
    text = info.get("parameters") or _user_comment(info.get("exif"))
    made = read_infotext(text) if isinstance(text, str) and len(text) <= _MAX_INFOTEXT_CHARACTERS else {}
    if "steps" in made:  # else it is a comment of another kind
        return _checked(made, _OURS if "version" in made else "A1111")
    if comfyui := _checked(read_graph(_json(info.get("prompt"))), "ComfyUI"):
        return comfyui
    return _checked(_invokeai(_json(info.get("invokeai_metadata"))), "InvokeAI")


def _add_details(exif: Image.Exif, details: dict[int, Any]) -> None:
    exif.get_ifd(ExifTags.IFD.Exif).update(details)
    exif[ExifTags.IFD.Exif] = exif.get_ifd(ExifTags.IFD.Exif)  # else Pillow takes it for empty


def _kept(tags: Mapping[int, Any], names: tuple[str, ...], check: Callable[[Any], Any]) -> dict[int, Any]:
    checked = {ExifTags.Base[name].value: check(tags.get(ExifTags.Base[name])) for name in names}
    return {tag: value for tag, value in checked.items() if value is not None}


def _text_tag(value: Any) -> str | bytes | None:
    """Cleaned; in UTF-8 where it is not ASCII, as Pillow itself writes ASCII only."""
    if isinstance(value, str):  # Pillow took the bytes for Latin-1
        value = value.encode("latin-1", "replace")
    if not isinstance(value, bytes):
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value.decode("latin-1")
    text = _UNSAFE_IN_TAGS.sub("", text[:MAX_TAG_CHARACTERS]).strip()
    return (text if text.isascii() else text.encode()) or None


def _number_tag(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    fits = len(values) <= 4 and all(isinstance(v, int | float | Rational) and math.isfinite(v) for v in values)
    return value if fits else None


def _clean(text: str, limit: int = MAX_PROMPT_CHARACTERS) -> str:
    return _UNSAFE.sub("", text[:limit])


def _user_comment(block: Any) -> str:
    if not isinstance(block, bytes):
        return ""
    exif = Image.Exif()
    try:
        exif.load(block)
        comment = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.UserComment)
    except Exception:  # as above
        return ""
    if not isinstance(comment, bytes) or len(comment) > 4 * _MAX_INFOTEXT_CHARACTERS:
        return ""
    code, text = comment[:8], comment[8:]
    if code == b"UNICODE\0":  # programs disagree on the byte order; in infotext the high bytes are mostly 0
        order = "utf-16-le" if text[1::2].count(0) > text[::2].count(0) else "utf-16-be"
        return text.decode(order, "replace").strip("\0")
    return text.decode("utf-8", "replace").strip("\0") if code in (b"ASCII\0\0\0", bytes(8)) else ""


def _json(text: Any) -> Any:
    if not isinstance(text, str) or len(text) > _MAX_JSON_CHARACTERS:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _invokeai(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict):
        return {}
    names = {"prompt": "positive_prompt", "guidance": "cfg_scale", "sampler": "scheduler"}
    return metadata | {name: metadata[theirs] for name, theirs in names.items() if theirs in metadata}


def _checked(made: Any, source: str) -> dict[str, Any]:
    if not isinstance(made, dict):
        return {}
    checked: dict[str, Any] = {}
    value: Any
    for name, limit in (
        ("prompt", MAX_PROMPT_CHARACTERS),
        ("negative_prompt", MAX_PROMPT_CHARACTERS),
        ("sampler", MAX_TAG_CHARACTERS),
    ):
        if isinstance(value := made.get(name), str):
            checked[name] = _clean(value, limit)
    for name, kinds, least, most in (
        ("seed", int, 0, MAX_SEED),
        ("steps", int, 1, MAX_STEPS),
        ("guidance", int | float, 0, MAX_GUIDANCE),
    ):
        value = made.get(name)
        if isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most:  # also refuses nan
            checked[name] = value
    return checked | {"source": source} if checked else {}
