"""What files carry beside pixels: how they were made, what machines made, and what of the camera's is kept."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import ExifTags, Image, PngImagePlugin, TiffImagePlugin

from editor.images import encode_picture, open_picture
from editor.infotext import write_infotext
from editor.metadata import MAX_PROMPT_CHARACTERS, MAX_TAG_CHARACTERS, camera_tags
from tests.editor import picture_files as files

FORMATS = ("PNG", "JPEG", "WEBP")
READABLE = files.MADE_WITH
MADE = READABLE | {"strength": 0.5, "model": "starter", "version": "0.1.0", "kind": "edited"}
PICTURE = files.noise(96, 64)
BASE, DETAILS = ExifTags.Base, ExifTags.IFD.Exif

every_format = pytest.mark.parametrize("file_format", FORMATS)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@every_format
def test_how_a_picture_was_made_comes_back(file_format: str) -> None:
    picture = open_picture(encode_picture(PICTURE, file_format, parameters=MADE))
    assert picture.made == READABLE | {"source": "Deltabrush"}


@pytest.mark.parametrize(
    ("prompt", "chunk"), [("a café", b"tEXtparameters"), ("a 🎈", b"iTXtparameters")], ids=["latin-1", "unicode"]
)
def test_png_holds_infotext_in_the_narrowest_chunk_that_can(prompt: str, chunk: bytes) -> None:
    data = encode_picture(PICTURE, "PNG", parameters=MADE | {"prompt": prompt})
    assert chunk in data
    assert opened(data).info["parameters"] == write_infotext(MADE | {"prompt": prompt, "size": (96, 64)})


@pytest.mark.parametrize("file_format", ["JPEG", "WEBP"])
def test_jpeg_and_webp_hold_infotext_as_the_user_s_comment(file_format: str) -> None:
    comment = opened(encode_picture(PICTURE, file_format, parameters=MADE)).getexif().get_ifd(DETAILS)[BASE.UserComment]
    assert comment == b"UNICODE\0" + write_infotext(MADE | {"size": (96, 64)}).encode("utf-16-be")


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("generated", "trainedAlgorithmicMedia"),
        ("repainted", "trainedAlgorithmicMedia"),
        ("edited", "compositeWithTrainedAlgorithmicMedia"),
        ("opened", None),
    ],
)
@every_format
def test_the_digital_source_type_says_what_machines_made(file_format: str, kind: str, source: str | None) -> None:
    packet = opened(encode_picture(PICTURE, file_format, parameters=MADE | {"kind": kind})).info.get("xmp")
    if source is None:
        assert packet is None
        return
    [description] = ElementTree.fromstring(packet).iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}Description")
    assert description.get("{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType") == (
        f"http://cv.iptc.org/newscodes/digitalsourcetype/{source}"
    )


@every_format
def test_without_metadata_a_file_holds_pixels_and_the_srgb_tag(file_format: str) -> None:
    bare = encode_picture(PICTURE, file_format)
    data = encode_picture(PICTURE, file_format, parameters=MADE, exif=files.camera_exif(), metadata=False)
    assert data == bare
    assert encode_picture(PICTURE, file_format, parameters=MADE, exif=files.camera_exif()) != bare
    names = set(opened(data).info) - {"jfif", "jfif_version", "jfif_unit", "jfif_density", "loop", "background"}
    assert names == ({"srgb"} if file_format == "PNG" else {"icc_profile"})


@every_format
def test_prompts_that_no_file_could_hold_are_cut_not_refused(file_format: str) -> None:
    endless = "\ud800" + "🎈" * 200_000
    parameters = MADE | {"prompt": endless, "negative_prompt": "fog", "model": "\udcff\0x"}
    picture = open_picture(encode_picture(PICTURE, file_format, parameters=parameters))
    assert picture.made["prompt"] == "🎈" * (MAX_PROMPT_CHARACTERS - 1)
    parameters |= {"negative_prompt": endless}  # now too long for a JPEG's segment, which the camera's tags are not
    picture = open_picture(encode_picture(PICTURE, file_format, parameters=parameters, exif=files.camera_exif()))
    assert picture.exif is not None
    assert bool(picture.made) == (file_format == "PNG")


def tags_of(block: bytes) -> dict[str, Any]:
    """All tags by name, as a viewer reads them."""
    read = Image.Exif()
    read.load(block)
    tags = {tag: value for tag, value in read.items() if tag != DETAILS} | read.get_ifd(DETAILS)
    return {BASE(tag).name: value for tag, value in tags.items()} | read.get_ifd(ExifTags.IFD.GPSInfo)


KEPT = {
    "Make": "Canon",
    "Model": "EOS R5",
    "Artist": "Zoë Ødegård".encode().decode("latin-1"),  # Pillow takes all EXIF for Latin-1; viewers see UTF-8
    "Copyright": "(c) 2026 Zoe",
    "DateTimeOriginal": "2026:05:04 03:02:01",
    "ExposureTime": TiffImagePlugin.IFDRational(1, 250),
    "FNumber": TiffImagePlugin.IFDRational(28, 10),
    "ExposureBiasValue": TiffImagePlugin.IFDRational(-1, 3),
    "ISOSpeedRatings": 400,
    "FocalLength": 50,
    "LensModel": "RF 50mm F1.2",
}


@pytest.mark.parametrize("made", [None, MADE], ids=["alone", "with-infotext"])
@pytest.mark.parametrize("opened_as", FORMATS)
@every_format
def test_D6_camera_tags_are_kept_but_not_the_orientation(opened_as: str, file_format: str, made: dict | None) -> None:
    picture = open_picture(files.encoded(PICTURE, opened_as, exif=files.camera_exif()))
    assert picture.rgb.size == (64, 96)
    data = encode_picture(picture.rgb, file_format, parameters=made, exif=picture.exif)
    written = tags_of(opened(data).info["exif"])
    written.pop("UserComment", None)
    assert written == KEPT
    assert np.array_equal(open_picture(data).rgb.size, picture.rgb.size)  # nobody turns it again


@every_format
def test_row7_place_notes_xmp_and_script_of_the_source_are_in_no_export(file_format: str) -> None:
    options = {"exif": files.camera_exif(), "xmp": b"<x>private</x>", "comment": b"private <script>"}
    picture = open_picture(files.encoded(PICTURE, "JPEG", **options))
    for exif in (picture.exif, files.camera_exif()):  # also where somebody hands on all of it
        data = encode_picture(picture.rgb, file_format, parameters=MADE, exif=exif)
        assert b"private" not in data and "private".encode("utf-16-be") not in data and b"<script" not in data
        assert opened(data).getexif().get_ifd(ExifTags.IFD.GPSInfo) == {}


def test_row7_texts_of_a_png_are_in_no_export() -> None:
    chunks = PngImagePlugin.PngInfo()
    for key in ("Comment", "Author", "parameters", "Raw profile type exif"):
        chunks.add_text(key, "private")
    picture = open_picture(files.encoded(PICTURE, "PNG", pnginfo=chunks))
    for file_format in FORMATS:
        assert b"private" not in encode_picture(picture.rgb, file_format, exif=picture.exif, parameters=picture.made)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Canon", "Canon"),
        ("Canon\0\0\0", "Canon"),
        ("  Canon\n ", "Canon"),
        ("\x1b[31mred\x07", "[31mred"),
        ("<script>alert(1)</script>", "scriptalert(1)/script"),
        ("x" * 10_000, "x" * MAX_TAG_CHARACTERS),
        ("ZoÃ«".encode("latin-1"), "Zoë".encode()),
        (b"Zo\xeb", "Zoë".encode()),
        ("\u202egnp.exe".encode(), "gnp.exe"),
        (b"\xff\xfe\x80\x81", "ÿþ".encode()),
        ("", None),
        (" \n", None),
    ],
    ids=[
        "plain",
        "nul",
        "spaces",
        "terminal",
        "script",
        "endless",
        "utf-8",
        "latin-1",
        "rtl",
        "no-text",
        "empty",
        "blank",
    ],
)
def test_texts_of_a_camera_are_cleaned(written: str | bytes, kept: str | bytes | None) -> None:
    exif = Image.Exif()
    exif[BASE.Make] = written
    tags = open_picture(files.encoded(PICTURE, "JPEG", exif=exif)).exif
    assert (None if tags is None else dict(tags)) == (None if kept is None else {BASE.Make: kept})


@every_format
def test_tags_of_the_lens_alone_are_kept(file_format: str) -> None:
    exif = Image.Exif()
    exif.get_ifd(DETAILS)[BASE.LensModel] = "Helios 44"
    kept = camera_tags(exif)
    assert kept  # an EXIF that seems empty, Pillow does not write
    assert tags_of(opened(encode_picture(PICTURE, file_format, exif=kept)).info["exif"]) == {"LensModel": "Helios 44"}


RATIONAL = TiffImagePlugin.IFDRational


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (BASE.FNumber, RATIONAL(1, 0)),
        (BASE.FNumber, float("nan")),
        (BASE.FNumber, b"\0\1"),
        (BASE.FNumber, "wide"),
        (BASE.ISOSpeedRatings, tuple(range(9))),
        (BASE.ISOSpeedRatings, 2**40),
        (BASE.LensModel, 5),
        (BASE.LensModel, (1, 2)),
        (BASE.LensSpecification, (RATIONAL(24), RATIONAL(70), RATIONAL(0, 0), RATIONAL(0, 0))),
    ],
    ids=["infinite", "nan", "bytes", "word", "many", "too-large", "number", "numbers", "unknown-aperture"],
)
def test_values_that_do_not_fit_a_tag_are_left_out(tag: int, value: Any) -> None:
    exif = Image.Exif()
    exif.get_ifd(DETAILS)[tag] = value
    assert camera_tags(exif) is None
    assert encode_picture(PICTURE, "JPEG", exif=exif) == encode_picture(PICTURE, "JPEG")


@pytest.mark.parametrize(
    "block",
    [
        b"Exif\0\0nonsense",
        b"Exif\0\0II*\0\xff\xff\xff\x7f garbage",
        b"Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x0f\0\2\xff\xff\xff\xff\0\0\0\0",
        b"Exif\0\0MM\0*\0\0\0\x08\0\1\x87\x69\0\4\0\0\0\1\0\0\0\x08\0\0\0\0",
        files.camera_exif().tobytes()[:150],
    ],
    ids=["nonsense", "offset", "endless-text", "points-to-itself", "cut"],
)
@every_format
def test_damaged_exif_costs_neither_picture_nor_export(file_format: str, block: bytes) -> None:
    picture = open_picture(files.encoded(PICTURE, file_format, exif=block))
    open_picture(encode_picture(picture.rgb, file_format, exif=picture.exif))
    assert picture.made == {}


@every_format
def test_exports_do_not_change_the_opened_picture_s_exif(file_format: str) -> None:
    exif = open_picture(files.encoded(PICTURE, "JPEG", exif=files.camera_exif())).exif
    first = encode_picture(PICTURE, file_format, parameters=MADE, exif=exif)
    assert encode_picture(PICTURE, file_format, parameters=MADE, exif=exif) == first
    assert exif is not None and tags_of(exif.tobytes()) == KEPT
