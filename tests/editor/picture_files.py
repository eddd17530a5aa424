"""Picture files for the tests, also ones no library writes: turned, lying, deep, wide-gamut."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin

# how a picture was made, as files say it and programs read it
MADE_WITH = {
    "prompt": 'a cactus, "big"\nSteps: 3',
    "negative_prompt": "fog",
    "seed": 7,
    "steps": 20,
    "guidance": 5.5,
    "sampler": "euler a",
}


def encoded(image: Image.Image, file_format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def noise(width: int, height: int, channels: int = 3, seed: int = 0) -> Image.Image:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def smooth(width: int, height: int) -> Image.Image:
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, (x + y) / 2], axis=-1).astype(np.uint8))


def mask(width: int, height: int, box: tuple[int, int, int, int] = (20, 10, 60, 40)) -> Image.Image:
    """Black, with a white box (left, top, right, bottom)."""
    image = Image.new("L", (width, height), 0)
    image.paste(255, box)
    return image


def turned(upright: np.ndarray, orientation: int) -> np.ndarray:
    """The pixels as a camera stores them so that a viewer obeying the EXIF orientation shows `upright`."""
    swapped = upright.swapaxes(0, 1)
    return np.ascontiguousarray(
        {
            1: upright,
            2: upright[:, ::-1],
            3: upright[::-1, ::-1],
            4: upright[::-1],
            5: swapped,
            6: swapped[::-1],
            7: swapped[::-1, ::-1],
            8: swapped[:, ::-1],
        }[orientation]
    )


def with_orientation(image: Image.Image, file_format: str, orientation: int, **options: Any) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(image, file_format, exif=exif, **options)


def camera_exif() -> Image.Exif:
    """What a camera writes: what is kept on export, and much that is not, marked "private"."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Canon", "EOS R5"
    exif[ExifTags.Base.Artist] = "Zoë Ødegård".encode()
    exif[ExifTags.Base.Copyright] = "(c) 2026 Zoe"
    exif[ExifTags.Base.Orientation] = 6
    exif[ExifTags.Base.ImageDescription] = "<script>private</script>"
    exif[ExifTags.Base.Software] = "private 1.0"
    exif[ExifTags.Base.XPComment] = "private".encode("utf-16-le")
    details = exif.get_ifd(ExifTags.IFD.Exif)
    details[ExifTags.Base.DateTimeOriginal] = "2026:05:04 03:02:01"
    details[ExifTags.Base.ExposureTime] = TiffImagePlugin.IFDRational(1, 250)
    details[ExifTags.Base.FNumber] = TiffImagePlugin.IFDRational(28, 10)
    details[ExifTags.Base.ExposureBiasValue] = TiffImagePlugin.IFDRational(-1, 3)
    details[ExifTags.Base.ISOSpeedRatings] = 400
    details[ExifTags.Base.FocalLength] = TiffImagePlugin.IFDRational(50)
    details[ExifTags.Base.LensModel] = "RF 50mm F1.2"
    details[ExifTags.Base.BodySerialNumber] = "private"
    details[ExifTags.Base.UserComment] = b"ASCII\0\0\0private"
    details[ExifTags.Base.MakerNote] = b"private"
    exif.get_ifd(ExifTags.IFD.GPSInfo).update({1: "N", 2: (52.0, 31.0, 12.0), 29: "private"})
    return exif


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour_type: int, data: bytes, *extra: bytes) -> bytes:
    """A PNG with any header; `data` are the unfiltered rows' bytes before compression, filter bytes included."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + b"".join(extra)
        + png_chunk(b"IDAT", zlib.compress(data))
        + png_chunk(b"IEND", b"")
    )


def deep_png(values: np.ndarray, *extra: bytes) -> bytes:
    """16 bits per channel: [H, W] grey, or [H, W, 3]."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return png(values.shape[1], values.shape[0], 16, 0 if values.ndim == 2 else 2, rows, *extra)


def empty_png(width: int, height: int) -> bytes:
    """A header and nothing else: 45 bytes that claim any size."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + png_chunk(b"IDAT", b"\x78\x9c\x03\x00\x00")
    )


def lying_webp(width: int, height: int) -> bytes:
    """An animated WebP that claims a canvas of any size."""
    frames = [Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")]
    data = bytearray(encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]))
    data[24:27], data[27:30] = (width - 1).to_bytes(3, "little"), (height - 1).to_bytes(3, "little")
    return bytes(data)


def lying_gif(width: int, height: int) -> bytes:
    data = bytearray(encoded(Image.new("L", (64, 64)), "GIF"))
    data[6:10] = struct.pack("<HH", width, height)
    return bytes(data)


def lying_bmp(width: int, height: int) -> bytes:
    data = bytearray(encoded(Image.new("RGB", (64, 64)), "BMP"))
    data[18:26] = struct.pack("<ii", width, height)
    return bytes(data)


def lying_jpeg(width: int, height: int) -> bytes:
    data = bytearray(encoded(Image.new("RGB", (64, 64)), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def _fixed(*numbers: float) -> bytes:
    return b"".join(struct.pack(">i", round(number * 65536)) for number in numbers)


def icc_profile(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        table += name + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    size = start + len(body)
    header = (
        struct.pack(">I", size)
        + bytes(4)
        + b"\x02\x10\0\0"
        + b"mntr"
        + space
        + b"XYZ "
        + bytes(12)
        + b"acsp"
        + bytes(28)
        + _fixed(0.9642, 1.0, 0.8249)
        + bytes(48)
    )
    return header + table + body


def _gamma(exponent: float) -> bytes:
    return b"curv" + bytes(4) + struct.pack(">IH", 1, round(exponent * 256))


# Primaries of Display P3, adapted to D50, as columns X Y Z.
P3_PRIMARIES = {
    b"rXYZ": (0.51512, 0.24120, -0.00105),
    b"gXYZ": (0.29198, 0.69225, 0.04189),
    b"bXYZ": (0.15710, 0.06657, 0.78407),
}
WHITE = {b"wtpt": b"XYZ " + bytes(4) + _fixed(0.9642, 1.0, 0.8249)}


def p3_profile(exponent: float = 2.2) -> bytes:
    tags = {name: b"XYZ " + bytes(4) + _fixed(*xyz) for name, xyz in P3_PRIMARIES.items()}
    return icc_profile(b"RGB ", WHITE | tags | {name: _gamma(exponent) for name in (b"rTRC", b"gTRC", b"bTRC")})


def grey_profile(exponent: float) -> bytes:
    return icc_profile(b"GRAY", WHITE | {b"kTRC": _gamma(exponent)})
