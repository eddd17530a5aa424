"""Writing pictures: lossless where promised, transparency back, under safe names, never half a file."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import UserError
from editor.files import check_writable, label, replace_file
from editor.images import open_picture, output_format, save_picture
from editor.outputs import new_output
from tests.editor import picture_files as files

MAGIC = {".png": b"\x89PNG", ".webp": b"RIFF", ".jpg": b"\xff\xd8\xff", ".jpeg": b"\xff\xd8\xff", ".PNG": b"\x89PNG"}


@pytest.mark.parametrize("suffix", list(MAGIC))
def test_B4_D2_content_is_what_the_suffix_says_and_tagged_srgb(tmp_path: Path, suffix: str) -> None:
    image, path = files.smooth(97, 65), tmp_path / f"out{suffix}"
    save_picture(image, path)
    assert path.read_bytes().startswith(MAGIC[suffix])
    with Image.open(path) as written:
        name = "sRGB".encode("utf-16-be")  # as profiles spell it
        tagged = "srgb" in written.info if written.format == "PNG" else name in written.info["icc_profile"]
    assert tagged
    picture = open_picture(path)
    error = np.abs(np.asarray(picture.rgb).astype(int) - np.asarray(image))
    assert error.max() == 0 if "j" not in suffix else error.mean() < 2
    assert picture.notices == ()


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_D1_transparency_comes_back_and_colours_under_it_stay(tmp_path: Path, suffix: str) -> None:
    pixels = np.asarray(files.noise(96, 64, 4)).copy()
    pixels[:32, :, 3] = 0
    picture = open_picture(files.encoded(Image.fromarray(pixels), "PNG"))
    save_picture(picture.rgb, tmp_path / f"out{suffix}", picture.alpha)
    with Image.open(tmp_path / f"out{suffix}") as written:
        assert np.array_equal(written, pixels)


def test_saving_leaves_the_picture_in_memory_as_it_was(tmp_path: Path) -> None:
    image = files.noise(96, 64)
    save_picture(image, tmp_path / "out.png", Image.new("L", image.size, 9))
    assert image.mode == "RGB"


def test_jpeg_refuses_transparency_but_not_an_opaque_alpha(tmp_path: Path) -> None:
    image, alpha = files.noise(96, 64), Image.new("L", (96, 64), 255)
    save_picture(image, tmp_path / "opaque.jpg", alpha)
    alpha.putpixel((3, 3), 254)
    with pytest.raises(UserError, match=r"out\.jpg cannot hold the picture's transparency: end its name"):
        save_picture(image, tmp_path / "out.jpg", alpha)
    assert not (tmp_path / "out.jpg").exists()


def test_parameters_are_json_under_our_own_key(tmp_path: Path) -> None:
    parameters = {"prompt": 'Steps: 3, "quoted"\nand a 🎈', "seed": 7, "strength": 0.5}
    save_picture(files.noise(96, 64), tmp_path / "out.png", parameters=parameters)
    with Image.open(tmp_path / "out.png") as written:
        assert json.loads(written.info["deltabrush"]) == parameters


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpg"])
def test_same_picture_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    save_picture(files.noise(96, 64), first)
    save_picture(files.noise(96, 64), second)
    assert first.read_bytes() == second.read_bytes()
    assert b"\x07\xea" not in first.read_bytes()[:200]  # 2026: the colour profile has no date


@pytest.mark.parametrize("name", ["out", "out.gif", "out.tif", "out.png.txt", ".png", "out.", "out.jp2"])
def test_unknown_suffixes_are_refused_by_name(name: str) -> None:
    with pytest.raises(UserError, match=r"does not end in .png, .webp or .jpg: choose one of these") as refused:
        output_format(name)
    assert name in str(refused.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing/out.png", "The folder of out.png does not exist: create it"),
        ("folder.png", "folder.png is a folder: add a file name"),
        ("file/out.png", "The folder of out.png does not exist"),
        ("x" * 300 + ".png", "cannot be used as a file name: choose a shorter"),
        ("a\0b.png", "cannot be used as a file name"),
    ],
    ids=["no-folder", "is-a-folder", "folder-is-a-file", "endless", "nul"],
)
def test_a_place_that_cannot_be_written(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=sentence):
        check_writable(tmp_path / name)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.png"
    replace_file(path, b"old")

    def disk_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = {"write": "pathlib.Path.open", "fsync": "os.fsync", "replace": "os.replace"}[step]
    monkeypatch.setattr(target, disk_full)
    with pytest.raises(UserError, match=r"out.png could not be written \(No space left on device\): free some space"):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["out.png"]
    assert path.read_bytes() == b"old"


def test_a_file_is_forced_to_the_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda number: (order.append("fsync"), fsync(number)))
    monkeypatch.setattr("os.replace", lambda old, new: (order.append("replace"), replace(old, new)))
    replace_file(tmp_path / "out.bin", b"data")
    assert order == ["fsync", "replace", "fsync"]  # the last for the name, which the folder holds
    assert (tmp_path / "out.bin").read_bytes() == b"data"


NAMES = {
    "parent": "../x.png",
    "absolute": "/etc/x.png",
    "backslashes": "..\\..\\x.png",
    "nul": "a\0b.png",
    "newline": "two\nlines.png",
    "escape": "\x1b[2Jx.png",
    "endless": "x" * 300 + ".png",
    "device": "CON.png",
    "dot-file": ".hidden.png",
    "right-to-left": "\u202egnp.exe",
    "no-text": os.fsdecode(b"\xff.png"),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=[f"row10-{name}" for name in NAMES])
def test_a_name_is_shown_as_a_harmless_label_only(name: str) -> None:
    shown = label(name)
    assert shown.isprintable() and shown.isascii() and "/" not in shown and len(shown) <= 80
    with pytest.raises(UserError) as refused:
        open_picture(name)
    assert shown in str(refused.value) and str(refused.value).isprintable()


def test_row10_files_in_the_output_folder_have_our_own_names(tmp_path: Path) -> None:
    for seed in (7, 2**63 - 1):
        save_picture(files.noise(96, 64), new_output(tmp_path, seed))
    [day] = tmp_path.iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day.name)
    assert sorted(path.name for path in day.iterdir()) == ["0001-7.png", f"0002-{2**63 - 1}.png"]
