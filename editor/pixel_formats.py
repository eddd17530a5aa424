"""What a file's pixels mean: orientation, every Pillow mode, 16-bit and float scales, alpha and colour profiles."""

from __future__ import annotations

import io

import numpy as np
from PIL import ExifTags, Image, ImageCms

_SRGB = ImageCms.createProfile("sRGB")
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_GREY_MODES = ("1", "L")
_DEEP_MODES = ("I", "F")  # "I;16" and its byte orders are named "I;16..."


def turn_upright(image: Image.Image) -> Image.Image:
    """The picture as its EXIF orientation says it is seen. Damaged metadata may raise anything, as it is read here."""
    turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return image if turn is None else image.transpose(turn)


def split_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """(colour without transparency, alpha "L" or None). Colours under alpha 0 are kept as the file has them."""
    if not image.has_transparency_data:
        return (image.convert("RGB") if image.mode in ("P", "RGBX") else image), None
    if image.mode == "La":  # Pillow converts premultiplied grey to nothing but LA
        image = image.convert("LA")
    alpha = _alpha(image)
    if image.mode == "LA":
        return image.getchannel("L"), alpha
    if image.mode in (*_GREY_MODES, *_DEEP_MODES) or image.mode.startswith("I;16"):
        return image, alpha  # one grey level is declared transparent
    return image.convert("RGBA").convert("RGB"), alpha


def _alpha(image: Image.Image) -> Image.Image:
    transparent = image.info.get("transparency")
    if image.mode.startswith("I;16"):  # Pillow would compare low bytes only
        return Image.fromarray(np.where(np.asarray(image) == transparent, 0, 255).astype(np.uint8))
    if isinstance(transparent, tuple) and max(transparent) > 255:  # of 16-bit colours, Pillow keeps the high bytes
        image = image.copy()
        image.info["transparency"] = tuple(level >> 8 for level in transparent)
    return image.convert("RGBA").getchannel("A")


def eight_bit(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    """Grey of 16 or 32 bits or float scaled (never clipped) to "L"; other modes as they are. Second: notices.

    16-bit values are divided by 257. Wider ones do not say what white is, so white is the smallest usual one
    (1.0 for floats, 255, 65535, 2^31 - 1) that is not below the brightest pixel.
    Raises ValueError if a float is not finite, or larger than all of these.
    """
    if image.mode.startswith("I;16"):
        white = 65535
    elif image.mode in _DEEP_MODES:
        brightest = float(np.asarray(image).max())
        scales = ((1.0,) if image.mode == "F" else ()) + (255, 65535, 2**31 - 1)
        white = next((scale for scale in scales if brightest <= scale), None)
        if white is None:
            raise ValueError("a pixel is not a finite number")
    else:
        return image, ()
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a pixel is not a finite number")
    grey = np.rint(values.clip(0, white) * (255 / white)).astype(np.uint8)
    return Image.fromarray(grey), (f"Grey levels on a scale of 0 to {white:g} were rounded to 8 bits.",)


def to_srgb(colour: Image.Image, profile: bytes | None) -> tuple[Image.Image, tuple[str, ...]]:
    """An 8-bit picture without alpha as sRGB "RGB", through its colour profile where it has one. Second: notices.
    A profile that is broken, or is for another kind of picture, is left out with a notice."""
    if not profile:
        return colour.convert("RGB"), ()
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = _mode_of_profile(profile, colour.mode)
        transform = ImageCms.buildTransform(
            source,
            _SRGB,
            mode,
            "RGB",
            renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
            flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
        )
        if _changes_nothing(transform, mode):
            return colour.convert("RGB"), ()
        converted = ImageCms.applyTransform(colour.convert(mode), transform)
        assert converted is not None  # None only when working in place
    except (ImageCms.PyCMSError, OSError, ValueError):
        return colour.convert("RGB"), (
            "The colour profile is damaged or does not fit the picture; colours were taken as sRGB.",
        )
    return converted, ("Colours were converted from the picture's own profile to sRGB.",)


def srgb_profile() -> bytes:
    """The sRGB profile as bytes to tag a file with; without the date, so that equal pictures are equal files."""
    profile = bytearray(ImageCms.ImageCmsProfile(_SRGB).tobytes())
    profile[24:36] = bytes(12)
    return bytes(profile)


def _mode_of_profile(profile: bytes, mode: str) -> str:
    """The mode in which the profile reads a picture of this mode. Raises ValueError where it does not fit."""
    space = profile[16:20].decode("latin-1").strip()
    if space == "RGB" and mode != "CMYK":
        return "RGB"
    if space == "GRAY" and mode in _GREY_MODES:
        return "L"
    if space == "CMYK" and mode == "CMYK":
        return "CMYK"
    raise ValueError(f"a {space} profile in a {mode} picture")


def _changes_nothing(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """True for a profile that is sRGB under whatever name: such pictures keep their exact values, which a trip through
    the colour engine would move by rounding. Tried on a grid of colours; one level of 255 is rounding."""
    if mode == "CMYK":
        return False
    levels = np.linspace(0, 255, 17).round().astype(np.uint8)
    grid = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(17, -1, 3)
    probe = Image.fromarray(grid if mode == "RGB" else np.arange(256, dtype=np.uint8)[None])
    after = ImageCms.applyTransform(probe, transform)
    assert after is not None
    before = np.asarray(probe.convert("RGB")).astype(np.int16)
    return bool(np.abs(before - np.asarray(after)).max() <= 1)
