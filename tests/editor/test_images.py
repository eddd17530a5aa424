"""Reading pictures: every format, mode, orientation and lie; one sentence for each that cannot be used."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from diffusion_engine import UserError
from editor.images import Decoded, normalise, open_picture
from editor.pixel_formats import srgb_profile
from tests.editor import picture_files as files

SIZE = (96, 64)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::PIL.Image.DecompressionBombWarning")


@pytest.mark.parametrize(
    ("written_as", "options", "exact"),
    [
        ("PNG", {}, True),
        ("WEBP", {"lossless": True}, True),
        ("BMP", {}, True),
        ("JPEG", {"quality": 95}, False),
        ("JPEG", {"quality": 95, "progressive": True}, False),
        ("WEBP", {"quality": 95}, False),
        ("GIF", {}, False),
    ],
    ids=["png", "webp-lossless", "bmp", "jpeg", "jpeg-progressive", "webp", "gif"],
)
def test_formats(tmp_path: Path, written_as: str, options: dict, exact: bool) -> None:
    image = files.smooth(*SIZE)
    path = tmp_path / "named.bin"  # what a file is, its content says
    path.write_bytes(files.encoded(image, written_as, **options))
    for source in (path, str(path), path.read_bytes()):
        picture = open_picture(source)
        assert (picture.source_format, picture.rgb.mode, picture.rgb.size) == (written_as, "RGB", SIZE)
        assert (picture.alpha, picture.notices) == (None, ())
        error = np.abs(np.asarray(picture.rgb).astype(int) - np.asarray(image))
        assert error.max() == 0 if exact else error.mean() < 6


def _palette(alpha: bytes | int | None) -> Image.Image:
    image = Image.new("P", SIZE, 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    if alpha is not None:
        image.info["transparency"] = alpha
    return image


def test_row8_D4_a_cmyk_jpeg() -> None:
    picture = open_picture(files.encoded(Image.new("CMYK", SIZE, (55, 155, 205, 0)), "JPEG", quality=95))
    assert np.abs(np.asarray(picture.rgb).astype(int) - (200, 100, 50)).max() <= 4


def _declared_transparent(mode: str, colour: int | tuple[int, ...]) -> Image.Image:
    image = Image.new(mode, SIZE, colour)
    image.info["transparency"] = colour
    return image


@pytest.mark.parametrize(
    ("image", "colour", "alpha"),
    [
        (Image.new("1", SIZE, 1), (255, 255, 255), None),
        (Image.new("L", SIZE, 99), (99, 99, 99), None),
        (_declared_transparent("L", 99), (99, 99, 99), 0),
        (Image.new("LA", SIZE, (99, 7)), (99, 99, 99), 7),
        (Image.new("La", SIZE, (50, 128)), (99, 99, 99), 128),
        (_palette(None), (200, 100, 50), None),
        (_palette(b"\xff\x07"), (200, 100, 50), 7),
        (_palette(1), (200, 100, 50), 0),
        (_palette(b"\xff\x00"), (200, 100, 50), 0),
        (Image.new("PA", SIZE, (0, 7)), (0, 0, 0), 7),
        (Image.new("RGB", SIZE, (200, 100, 50)), (200, 100, 50), None),
        (_declared_transparent("RGB", (200, 100, 50)), (200, 100, 50), 0),
        (Image.new("RGBA", SIZE, (200, 100, 50, 0)), (200, 100, 50), 0),
        (Image.new("RGBa", SIZE, (100, 50, 25, 128)), (199, 99, 49), 128),
        (Image.new("RGBX", SIZE, (200, 100, 50, 0)), (200, 100, 50), None),
        (Image.new("CMYK", SIZE, (55, 155, 205, 0)), (200, 100, 50), None),
        (Image.new("RGB", SIZE, (200, 100, 50)).convert("YCbCr"), (199, 99, 49), None),
        (Image.new("LAB", SIZE, (138, 128, 128)), (130, 130, 130), None),
        (Image.new("HSV", SIZE, (0, 0, 77)), (77, 77, 77), None),
        (Image.new("I", SIZE, 65535), (255, 255, 255), None),
        (Image.new("I", SIZE, 2**31 - 1), (255, 255, 255), None),
        (Image.new("I", SIZE, 99), (99, 99, 99), None),
        (Image.new("I", SIZE, -5), (0, 0, 0), None),
        (Image.new("F", SIZE, 0.5), (128, 128, 128), None),
        (Image.new("F", SIZE, 99.0), (99, 99, 99), None),
        (Image.new("I;16", SIZE, 257 * 99), (99, 99, 99), None),
        (Image.new("I;16L", SIZE, 257 * 99), (99, 99, 99), None),
        (Image.new("I;16B", SIZE, 257 * 99), (99, 99, 99), None),
    ],
    ids=lambda value: value.mode + ("+tRNS" if value.info else "") if isinstance(value, Image.Image) else None,
)
def test_row8_D4_modes(image: Image.Image, colour: tuple[int, int, int], alpha: int | None) -> None:
    picture = normalise(Decoded(image, (), "PNG"))
    assert (picture.rgb.mode, picture.rgb.size) == ("RGB", SIZE)
    assert np.abs(np.asarray(picture.rgb).astype(int) - colour).max() <= (2 if image.mode == "LAB" else 0)
    if alpha is None:
        assert picture.alpha is None
    else:
        assert picture.alpha is not None
        assert (picture.alpha.mode, picture.alpha.getextrema()) == ("L", (alpha, alpha))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e12], ids=str)
def test_a_float_that_is_no_shade_is_refused(value: float) -> None:
    pixels = np.zeros((64, 64), np.float32)
    pixels[5, 5] = value
    with pytest.raises(UserError, match="not a finite number: save it as"):
        normalise(Decoded(Image.fromarray(pixels), (), "PNG"))


def test_row8_D3_sixteen_bits_are_scaled_not_clipped() -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    picture = open_picture(files.deep_png(ramp))
    assert np.array_equal(np.asarray(picture.rgb)[..., 0], (ramp.astype(np.uint32) + 128) // 257)
    assert picture.notices == ("Grey levels on a scale of 0 to 65535 were rounded to 8 bits.",)


def test_row8_D3_sixteen_bit_colours_keep_all_levels() -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    red = np.asarray(open_picture(files.deep_png(np.stack([ramp, ramp[::-1], ramp.T], axis=-1))).rgb)[..., 0]
    assert np.abs(red - ramp / 257).max() <= 1


@pytest.mark.parametrize("level", [0, 256, 1000, 65535])
def test_one_transparent_level_of_sixteen_bits(level: int) -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    declared = level.to_bytes(2, "big")
    grey = open_picture(files.deep_png(ramp, files.png_chunk(b"tRNS", declared))).alpha
    colour = open_picture(files.deep_png(np.dstack([ramp] * 3), files.png_chunk(b"tRNS", declared * 3))).alpha
    assert grey is not None and colour is not None
    assert np.array_equal(np.asarray(grey) == 0, ramp == level)
    assert np.array_equal(np.asarray(colour) == 0, ramp >> 8 == level >> 8)  # Pillow keeps 8 bits of each colour


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_row7_A1_every_orientation_is_turned_upright(orientation: int, file_format: str) -> None:
    upright = np.full((64, 128, 3), 40, np.uint8)
    upright[:16, :32] = (250, 40, 40)  # the dab, top left
    upright[48:, :32] = (40, 40, 250)  # and one below it, or a mirror image would pass
    picture = open_picture(
        files.with_orientation(
            Image.fromarray(files.turned(upright, orientation)), file_format, orientation, quality=95
        )
    )
    assert picture.rgb.size == (128, 64)
    assert np.abs(np.asarray(picture.rgb).astype(int) - upright).mean() < 3
    assert picture.rgb.getexif() == {}


def test_alpha_is_turned_with_the_colours() -> None:
    upright = np.asarray(files.noise(96, 64, 4))
    picture = open_picture(files.with_orientation(Image.fromarray(files.turned(upright, 6)), "PNG", 6))
    assert picture.alpha is not None
    assert np.array_equal(np.dstack([picture.rgb, picture.alpha]), upright)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_senseless_orientation_is_none(orientation: int) -> None:
    image = files.noise(*SIZE)
    assert np.array_equal(open_picture(files.with_orientation(image, "PNG", orientation)).rgb, image)


@pytest.mark.parametrize(
    ("exif", "notices"),
    [
        (b"Exif\0\0II*\0\xff\xff\xff\x7f garbage", ()),
        (b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0", ()),
        (b"Exif\0\0nonsense", ("The picture's metadata is damaged; it may lie on its side.",)),
    ],
    ids=["offset", "cut", "nonsense"],
)
def test_damaged_metadata_does_not_cost_the_picture(exif: bytes, notices: tuple[str, ...]) -> None:
    image = files.noise(*SIZE)
    picture = open_picture(files.encoded(image, "PNG", exif=exif))
    assert np.array_equal(picture.rgb, image)
    assert picture.notices == notices


def test_damaged_metadata_beside_the_orientation_does_not_cost_the_turn() -> None:
    upright = np.asarray(files.noise(96, 64))
    entries = struct.pack("<HHHIIHHII", 2, 0x0112, 3, 1, 6, 0x8825, 13, 1, 0xFFFFFF)  # the second points nowhere
    data = files.encoded(Image.fromarray(files.turned(upright, 6)), "PNG", exif=b"Exif\0\0II*\0\x08\0\0\0" + entries)
    assert np.array_equal(open_picture(data).rgb, upright)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (files.empty_png(30000, 30000), "The picture is too large: .* up to 8192 and 16.8 million pixels, so make it"),
        (files.png(9000, 9000, 1, 0, bytes(9000 * 1126)), "The picture is 9000x9000: .* so make it smaller"),
        (files.empty_png(20000, 10000), "The picture is too large: .* so make it smaller"),
        (files.empty_png(6000, 4000), "The picture is 6000x4000: .* so make it smaller"),
        (files.empty_png(65500, 1), "The picture is 65500x1: .* so make it smaller"),
        (files.empty_png(4097, 4096), "The picture is 4097x4096: .* so make it smaller"),
        (files.empty_png(8193, 64), "The picture is 8193x64: .* so make it smaller"),
        (files.lying_jpeg(65500, 64), "The picture is 65500x64: .* so make it smaller"),
        (files.lying_webp(12000, 12000), "The picture is 12000x12000: .* so make it smaller"),
        (files.lying_webp(16384, 16384), "The picture is too large: .* so make it smaller"),
        (files.lying_gif(60000, 2), "The picture is 60000x64: .* so make it smaller"),
        (files.lying_bmp(9000, 9000), "The picture is 9000x9000: .* so make it smaller"),
    ],
    ids=[
        "row2-bomb",
        "row3-81-MP",
        "D7-200-MP",
        "D7-24-MP",
        "row9-line",
        "png-1-over",
        "row9-side",
        "jpeg",
        "webp",
        "webp-bomb",
        "gif",
        "bmp",
    ],
)
def test_too_large_is_refused_from_the_header(data: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", lambda self: pytest.fail("pixels were allocated"))
    tracemalloc.start()
    with pytest.raises(UserError, match=sentence):
        open_picture(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_file_too_large_to_read_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "endless.png"
    path.write_bytes(files.encoded(files.noise(*SIZE), "PNG"))
    with path.open("r+b") as file:
        file.truncate(257 * 2**20)  # a hole: takes no space
    with pytest.raises(UserError, match=r"endless\.png is larger than 256 MB: save it smaller"):
        open_picture(path)


@pytest.mark.parametrize(
    ("size", "ok"),
    [
        ((64, 64), True),
        ((63, 64), False),
        ((64, 63), False),
        ((64, 1), False),
        ((1, 1), False),
        ((7, 9), False),
        ((8192, 64), True),
        ((8192, 512), True),
        ((65, 67), True),
    ],
    ids=str,
)
def test_row9_A5_limits_of_the_sides(size: tuple[int, int], ok: bool) -> None:
    data = files.encoded(Image.new("L", size), "PNG")
    if ok:
        assert open_picture(data).rgb.size == size
    else:
        with pytest.raises(UserError, match=f"is {size[0]}x{size[1]}: use a picture with sides of 64 pixels or more"):
            open_picture(data)


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
    ],
    ids=["png", "jpeg", "jpeg-progressive", "webp", "webp-lossless", "gif", "bmp"],
)
@pytest.mark.parametrize("image", [files.noise(96, 64), files.smooth(96, 64)], ids=["noise", "smooth"])
def test_row5_a_truncated_file_is_refused_never_half_grey(image: Image.Image, file_format: str, options: dict) -> None:
    whole = files.encoded(image, file_format, **options)
    open_picture(whole)
    for sixteenths in range(1, 16):
        with pytest.raises(UserError, match=r"damaged or cut off: download|not a PNG, JPEG, WebP, GIF or BMP"):
            open_picture(whole[: len(whole) * sixteenths // 16])


def test_row5_tolerance_of_truncated_files_stays_off() -> None:
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


@pytest.mark.parametrize(
    ("file_format", "options"),
    [("JPEG", {}), ("WEBP", {}), ("WEBP", {"lossless": True}), ("GIF", {}), ("BMP", {})],
    ids=["jpeg", "webp", "webp-lossless", "gif", "bmp"],
)
def test_row5_a_flipped_bit_gives_a_whole_picture_or_one_sentence(file_format: str, options: dict) -> None:
    """These formats have no checksums: a flipped bit of the pixels cannot be told from another picture."""
    whole = files.encoded(files.smooth(96, 64), file_format, **options)
    for place in range(0, len(whole), 1 + len(whole) // 300):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        try:
            picture = open_picture(bytes(flipped))
        except UserError as refused:
            assert str(refused).startswith("The picture ")
        else:
            assert picture.rgb.mode == "RGB" and min(picture.rgb.size) >= 64


def test_row5_a_flipped_bit_anywhere_in_a_png_is_noticed() -> None:
    whole = files.encoded(files.smooth(96, 64), "PNG")
    for place in range(8, len(whole) - 12):  # up to the end marker, which holds no picture
        flipped = bytearray(whole)
        flipped[place] ^= 4
        with pytest.raises(UserError):
            open_picture(bytes(flipped))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        np.random.default_rng(3).bytes(1000),
        b"<html><body>hi</body></html>",
        b'<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"/>',
        b"%PDF-1.7\n%...",
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        files.encoded(files.noise(64, 64), "TIFF"),
        files.encoded(files.noise(64, 64), "ICO"),
    ],
    ids=["empty", "zeros", "random", "html", "svg", "pdf", "eps", "tiff", "ico"],
)
def test_row1_what_is_no_picture_is_named(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "holiday.png"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"holiday\.png is not a PNG, JPEG, WebP, GIF or BMP picture: save it as one"):
        open_picture(path)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere.png", "nowhere.png does not exist: check the name"),
        ("/dev/zero", "zero does not exist: check the name"),
        (".", "is a folder: name a picture in it"),
        ("a\0b.png", r"a\?b.png does not exist: check the name"),
        ("two\nlines\u202e.png", r"two\?lines\?.png does not exist"),
        ("x" * 300, "x{77}... cannot be read: check its name"),
    ],
    ids=["missing", "device", "folder", "nul", "control", "endless"],
)
def test_a_path_that_cannot_be_read(path: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refused:
        open_picture(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file_format", ["PNG", "WEBP", "GIF"])
def test_row6_D4_an_animation_opens_as_its_first_frame(file_format: str) -> None:
    first, second = Image.new("RGB", SIZE, (255, 0, 0)), Image.new("RGB", SIZE, (0, 0, 255))
    options = {"lossless": True} if file_format == "WEBP" else {}
    picture = open_picture(files.encoded(first, file_format, save_all=True, append_images=[second] * 49, **options))
    assert np.array_equal(picture.rgb, first)
    assert picture.notices == ("Only the first frame of the animation was opened.",)


def test_a_phone_s_jpeg_with_a_second_picture_is_a_jpeg() -> None:
    data = files.encoded(files.smooth(*SIZE), "MPO", save_all=True, append_images=[files.noise(*SIZE)])
    picture = open_picture(data)
    assert (picture.source_format, picture.notices) == ("JPEG", ())


def _srgb_from_p3(colour: tuple[int, int, int], exponent: float) -> np.ndarray:
    """By the definition of both colour spaces, without a colour engine."""
    srgb = np.array(
        [[0.4360747, 0.3850649, 0.1430804], [0.2225045, 0.7168786, 0.0606169], [0.0139322, 0.0971045, 0.7141733]]
    )
    p3 = np.array(list(files.P3_PRIMARIES.values())).T
    linear = np.linalg.solve(srgb, p3 @ (np.array(colour) / 255) ** exponent).clip(0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
@pytest.mark.parametrize("colour", [(200, 100, 50), (50, 180, 90), (120, 120, 120), (255, 255, 255)], ids=str)
def test_D2_display_p3_becomes_srgb(colour: tuple[int, int, int], file_format: str) -> None:
    options = {"lossless": True} if file_format == "WEBP" else {}
    picture = open_picture(
        files.encoded(Image.new("RGB", SIZE, colour), file_format, icc_profile=files.p3_profile(), **options)
    )
    assert np.abs(np.asarray(picture.rgb)[5, 5] - _srgb_from_p3(colour, 2.2)).max() <= 2
    assert picture.notices == ("Colours were converted from the picture's own profile to sRGB.",)


def test_a_grey_profile_is_applied_to_grey() -> None:
    picture = open_picture(files.encoded(Image.new("L", SIZE, 128), "PNG", icc_profile=files.grey_profile(1.0)))
    assert np.abs(np.asarray(picture.rgb)[5, 5] - _srgb_from_p3((128, 128, 128), 1.0)).max() <= 2


def test_alpha_passes_the_profile_untouched() -> None:
    image = files.noise(*SIZE, 4)
    picture = open_picture(files.encoded(image, "PNG", icc_profile=files.p3_profile()))
    assert picture.alpha is not None
    assert np.array_equal(picture.alpha, np.asarray(image)[..., 3])
    assert not np.array_equal(picture.rgb, np.asarray(image)[..., :3])


def test_a_picture_tagged_srgb_keeps_its_exact_values() -> None:
    image = files.noise(256, 256)
    picture = open_picture(files.encoded(image, "PNG", icc_profile=srgb_profile()))
    assert np.array_equal(picture.rgb, image)
    assert picture.notices == ()


@pytest.mark.parametrize(
    "profile",
    [b"nonsense", files.p3_profile()[:200], files.grey_profile(1.0), b"\xff" * 4000],
    ids=["nonsense", "cut", "grey-in-colour", "noise"],
)
def test_a_profile_that_does_not_work_is_left_out_with_a_notice(profile: bytes) -> None:
    image = files.noise(*SIZE)
    picture = open_picture(files.encoded(image, "PNG", icc_profile=profile))
    assert np.array_equal(picture.rgb, image)
    assert picture.notices == (
        "The colour profile is damaged or does not fit the picture; colours were taken as sRGB.",
    )
