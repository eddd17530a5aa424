"""The one place that decodes pictures people bring, and the one that writes pictures out."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image, PngImagePlugin

from diffusion_engine import UserError
from editor.files import label, replace_file
from editor.limits import MAX_PIXELS, MAX_SIDE, MIN_SIDE
from editor.metadata import add_text_chunks, camera_tags, exif_block, infotext, read_made_with, xmp_packet
from editor.pixel_formats import eight_bit, split_alpha, srgb_profile, to_srgb, turn_upright

MAX_FILE_BYTES = 256 * 2**20

# TIFF is not read: its decoders are the least guarded against hostile files, and print to the terminal themselves.
READABLE = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM")
_DAMAGED = "{name} is damaged or cut off: download or save it again."
WRITABLE = {".png": "PNG", ".webp": "WEBP", ".jpg": "JPEG", ".jpeg": "JPEG"}

Source = str | os.PathLike[str] | bytes

# Pillow warns of large pictures and odd metadata; the limits here are tighter, and what matters becomes a notice.
warnings.filterwarnings("ignore", module=r"PIL\.")


@dataclass(frozen=True)
class Picture:
    """A decoded picture, upright, in 8-bit sRGB.

    `rgb` is mode "RGB"; `alpha` mode "L" of the same size, or None where the file has no transparency. `notices` are
    sentences for the person about what was converted or left out. `source_format` is one of READABLE. `exif` is what of
    the camera's is kept on export, None where the file has none of it; `made` how the picture was made, where a program
    wrote that into it: see `editor.metadata`.
    """

    rgb: Image.Image
    alpha: Image.Image | None
    notices: tuple[str, ...]
    source_format: str
    exif: Image.Exif | None = None
    made: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Decoded:
    """A file's first frame, upright but in its own mode. Masks start from here, pictures from `open_picture`."""

    image: Image.Image
    notices: tuple[str, ...]
    source_format: str


def open_picture(source: Source) -> Picture:
    """Reads a picture from a file or from its bytes. Raises UserError with what to do if it cannot be used."""
    what = "The picture"
    decoded = decode(source, what)
    width, height = decoded.image.size
    if min(width, height) < MIN_SIDE:
        name = _name(source, what)
        raise UserError(f"{name} is {width}x{height}: use a picture with sides of {MIN_SIDE} pixels or more.")
    return normalise(decoded)


def normalise(decoded: Decoded) -> Picture:
    """8-bit sRGB and alpha from pixels of any Pillow mode, with what was converted added to the notices."""
    colour, alpha = split_alpha(decoded.image)
    try:
        colour, scaled = eight_bit(colour)
    except ValueError as error:
        raise UserError(f"The picture cannot be used because {error}: save it as 8-bit or 16-bit PNG.") from error
    info = decoded.image.info
    rgb, converted = to_srgb(colour, info.get("icc_profile"))
    rgb.info = {}  # profile and metadata end here: exports carry none of it but what is checked below
    notices = decoded.notices + scaled + converted
    return Picture(rgb, alpha, notices, decoded.source_format, camera_tags(decoded.image), read_made_with(info))


def decode(source: Source, what: str) -> Decoded:
    """The first frame of a file, turned upright. `what` begins the sentence where the source has no name.
    The size is checked from the header, before any pixel is decoded. Raises UserError."""
    name = _name(source, what)
    with _stream(source) as stream:
        image = _open_header(stream, name)
        source_format = "JPEG" if image.format == "MPO" else str(image.format)  # MPO: a phone's JPEG with a depth map
        try:
            if source_format == "PNG":  # the only format with checksums; Pillow's decoder itself skips them
                image.verify()
                stream.seek(0)
                image = Image.open(stream, formats=READABLE)
            moving = source_format != "JPEG" and getattr(image, "is_animated", False)
            image.load()
        except Exception as error:
            raise UserError(_DAMAGED.format(name=name)) from error
    notices = ("Only the first frame of the animation was opened.",) if moving else ()
    try:
        return Decoded(turn_upright(image), notices, source_format)
    except Exception:  # the same for metadata, which is no reason to refuse good pixels
        return Decoded(image, (*notices, "The picture's metadata is damaged; it may lie on its side."), source_format)


def output_format(path: str | os.PathLike[str]) -> str:
    """ "PNG", "WEBP" or "JPEG", from the file's suffix. Raises UserError for any other, before any work starts."""
    try:
        return WRITABLE[Path(path).suffix.lower()]
    except KeyError:
        raise UserError(f"{label(path)} does not end in .png, .webp or .jpg: choose one of these.") from None


def save_picture(
    rgb: Image.Image,
    path: str | os.PathLike[str],
    alpha: Image.Image | None = None,
    parameters: Mapping[str, Any] | None = None,
    exif: Image.Exif | None = None,
    metadata: bool = True,
) -> None:
    """Writes a picture in the format of the file's suffix, as `encode_picture` does. Raises UserError."""
    file_format = output_format(path)
    check_alpha_fits(path, alpha)
    replace_file(path, encode_picture(rgb, file_format, alpha, parameters, exif, metadata))


def encode_picture(
    rgb: Image.Image,
    file_format: str,
    alpha: Image.Image | None = None,
    parameters: Mapping[str, Any] | None = None,
    exif: Image.Exif | None = None,
    metadata: bool = True,
) -> bytes:
    """A file's bytes, tagged as sRGB: lossless "PNG" or "WEBP", or "JPEG" at quality 95.

    `alpha` ("L", the size of `rgb`) goes back into PNG and WebP, with the colours under alpha 0 as they are; JPEG takes
    none. `parameters`, how the picture was made, and `exif`, of which the camera's tags are kept, are embedded as
    `editor.metadata` says; nothing is without `metadata`.
    """
    image = rgb
    if alpha is not None and file_format != "JPEG":
        image = rgb.copy()
        image.putalpha(alpha)
    made = parameters if parameters and metadata else {}
    exif = exif if metadata else None
    buffer = io.BytesIO()
    if file_format == "PNG":
        chunks = PngImagePlugin.PngInfo()
        chunks.add(b"sRGB", b"\0")  # the standard's own tag: perceptual intent
        add_text_chunks(chunks, made, rgb.size)
        image.save(buffer, "PNG", pnginfo=chunks, exif=exif_block(exif, ""))
    else:
        options = {"lossless": True, "exact": True} if file_format == "WEBP" else {"quality": 95, "subsampling": 0}
        carried = {"exif": exif_block(exif, infotext(made, rgb.size)), "xmp": xmp_packet(made)}
        image.save(buffer, file_format, icc_profile=srgb_profile(), **options, **carried)
    return buffer.getvalue()


def check_alpha_fits(path: str | os.PathLike[str], alpha: Image.Image | None) -> None:
    """Raises UserError if a file of this suffix would lose the picture's transparency."""
    if output_format(path) == "JPEG" and alpha is not None and alpha.getextrema() != (255, 255):
        raise UserError(f"{label(path)} cannot hold the picture's transparency: end its name in .png or .webp.")


def _name(source: Source, what: str) -> str:
    return what if isinstance(source, bytes) else label(source)


@contextmanager
def _stream(source: Source) -> Generator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    path, name = Path(source), label(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()  # a device or a pipe is neither, and may never end
        file = path.open("rb") if is_file else None
    except OSError as error:
        raise UserError(f"{name} cannot be read: check its name and permissions.") from error
    if is_folder:
        raise UserError(f"{name} is a folder: name a picture in it.")
    if file is None:
        raise UserError(f"{name} does not exist: check the name.")
    with file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            raise UserError(f"{name} is larger than {MAX_FILE_BYTES // 2**20} MB: save it smaller, as PNG or JPEG.")
        yield file


def _open_header(stream: BinaryIO, name: str) -> Image.Image:
    """The picture with its header read and its size checked, its pixels not yet decoded."""
    limits = f"a picture may have sides up to {MAX_SIDE} and {MAX_PIXELS / 1e6:.1f} million pixels, so make it smaller"
    try:
        image = Image.open(stream, formats=READABLE)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"{name} is too large: {limits}.") from error
    except Exception as error:  # a decoder raises whatever the damaged bytes provoke
        stream.seek(0)
        if stream.read(16).startswith(_SIGNATURES):
            raise UserError(_DAMAGED.format(name=name)) from error
        raise UserError(f"{name} is not a PNG, JPEG, WebP, GIF or BMP picture: save it as one of these.") from error
    width, height = image.size
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise UserError(f"{name} is {width}x{height}: {limits}.")
    return image
