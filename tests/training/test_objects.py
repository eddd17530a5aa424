"""The table of objects, its cut-outs, painting them in other colours, and packing them."""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import UserError
from training import sprite_pack
from training.backgrounds import SCENES
from training.colours import HUES, NEAR_HUE, PAINTS, RGB, dominant_hue, hue_distance, recoloured
from training.objects import CUTOUTS, TABLE, Object, cutouts, objects

NATURAL_HUES = {**HUES, "brown": HUES["orange"]}
RECOLOURABLE = [thing.name for thing in objects() if thing.recolour]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Image.Image]:
    return cutouts()


def hsv(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB").convert("HSV")).astype(int)


def test_every_row_has_a_cutout_and_every_cutout_a_row(pictures: dict[str, Image.Image]) -> None:
    assert list(pictures) == [thing.name for thing in objects()]
    with zipfile.ZipFile(CUTOUTS) as archive:
        assert sorted(archive.namelist()) == sorted(f"{thing.code_point}.webp" for thing in objects())


def test_cutouts_are_cropped_and_large_enough_to_learn_from(pictures: dict[str, Image.Image]) -> None:
    for name, picture in pictures.items():
        assert picture.mode == "RGBA" and 160 <= max(picture.size) <= 256, name
        alpha = picture.getchannel("A")
        assert alpha.getbbox() == (0, 0, *picture.size), name
        assert np.mean(np.asarray(alpha) > 0) > 0.1, name


def test_names_and_synonyms_are_unique_and_lower_case() -> None:
    names = [name for thing in objects() for name in (thing.name, *thing.synonyms)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert all(name == name.lower().strip() and "  " not in name for name in names)
    assert not set(names) & set(SCENES), "a scene is no object"


def test_the_table_says_only_what_is_defined() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert row["colour"] in (*RGB, ""), row
            assert row["place"] in ("air", "ground", "water"), row
            assert {row["recolour"], row["everyday"]} <= {"yes", "no"}, row
            assert row["recolour"] == "no" or row["colour"] in NATURAL_HUES, row


@pytest.mark.parametrize("name", RECOLOURABLE)
def test_a_recolourable_cutout_has_its_natural_colour(pictures: dict[str, Image.Image], name: str) -> None:
    colour = next(thing.colour for thing in objects() if thing.name == name)
    assert hue_distance(np.array(dominant_hue(pictures[name])), NATURAL_HUES[colour]) < NEAR_HUE


@pytest.mark.parametrize("colour", HUES)
@pytest.mark.parametrize("name", ["car", "balloon", "fish", "cat", "dress", "tulip", "book"])
def test_a_painted_cutout_has_the_colour(pictures: dict[str, Image.Image], name: str, colour: str) -> None:
    cutout = pictures[name]
    before, after = hsv(cutout), hsv(recoloured(cutout, colour))
    near = hue_distance(before[..., 0], dominant_hue(cutout)) < NEAR_HUE
    body = near & (before[..., 1] > 60) & (before[..., 2] > 60) & (np.asarray(cutout.getchannel("A")) > 250)
    assert body.mean() > 0.05
    turn = np.exp(2j * np.pi * after[..., 0][body] / 256).mean()
    assert hue_distance(np.angle(turn) / 2 / np.pi * 256 % 256, HUES[colour]) < 12


@pytest.mark.parametrize("colour", ["white", "black"])
@pytest.mark.parametrize("name", ["car", "balloon", "cat", "umbrella"])
def test_white_and_black_have_no_hue(pictures: dict[str, Image.Image], name: str, colour: str) -> None:
    cutout = pictures[name]
    before, after = hsv(cutout), hsv(recoloured(cutout, colour))
    near = hue_distance(before[..., 0], dominant_hue(cutout)) < NEAR_HUE
    body = near & (np.asarray(cutout.getchannel("A")) > 250)
    assert after[body, 1].mean() < 40
    assert after[body, 2].mean() > 190 if colour == "white" else after[body, 2].mean() < 90


@pytest.mark.parametrize("colour", PAINTS)
@pytest.mark.parametrize(("name", "hue"), [("car", 150), ("tulip", 85), ("bird", 30)], ids=["windows", "leaf", "beak"])
def test_other_hues_stay(pictures: dict[str, Image.Image], name: str, hue: int, colour: str) -> None:
    cutout = pictures[name]
    painted = recoloured(cutout, colour)
    was = hsv(cutout)
    other = (hue_distance(was[..., 0], hue) < 25) & (was[..., 1] > 50) & (np.asarray(cutout)[..., 3] > 250)
    other &= hue_distance(was[..., 0], dominant_hue(cutout)) >= NEAR_HUE
    assert other.sum() > 100
    change = np.asarray(painted.convert("RGB"))[other].astype(int) - np.asarray(cutout.convert("RGB"))[other]
    assert np.abs(change).max() <= 8, "more than the rounding of HSV"
    assert painted.getchannel("A").tobytes() == cutout.getchannel("A").tobytes()


def table(*codes: str) -> tuple[Object, ...]:
    return tuple(Object(code, (), "", "ground", False, False, code) for code in codes)


def archive_of(path: Path, codes: list[str], date: int = 0) -> Path:
    with tarfile.open(path, "w:gz") as package:
        for code in codes:
            data = f"picture of {code}".encode()
            info = tarfile.TarInfo(f"package/assets/{code}.webp")
            info.size, info.mtime = len(data), date
            package.addfile(info, io.BytesIO(data))
    return path


def test_the_same_pictures_make_the_same_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprite_pack, "objects", lambda: table("2600", "1f415"))
    codes = ["2600", "1f415", "1f4ce"]
    sprite_pack.pack(archive_of(tmp_path / "a.tgz", codes), tmp_path / "a.zip")
    monkeypatch.setattr(sprite_pack, "objects", lambda: table("1f415", "2600"))
    sprite_pack.pack(archive_of(tmp_path / "b.tgz", codes[::-1], date=1_700_000_000), tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == {
            "1f415.webp": b"picture of 1f415",
            "2600.webp": b"picture of 2600",
        }


@pytest.mark.parametrize(
    "code",
    ["1f4ce", "1f587", "1f9d1-200d-1f4bb", "1f3ae", "1f1f8-1f1ea", "1f3f4-200d-2620-fe0f", "1f6a9"],
    ids=["paperclip", "paperclips", "technologist", "video game", "flag of a country", "pirate flag", "red flag"],
)
def test_art_that_is_not_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    archive = archive_of(tmp_path / "a.tgz", ["1f415", code])
    (tmp_path / "pack.zip").write_bytes(b"the old pack")
    monkeypatch.setattr(sprite_pack, "objects", lambda: table("1f415", code))
    with pytest.raises(UserError, match=f"{code} is not free: remove it"):
        sprite_pack.pack(archive, tmp_path / "pack.zip")
    assert (tmp_path / "pack.zip").read_bytes() == b"the old pack"


def test_nothing_in_the_table_is_refused() -> None:
    assert not [thing.name for thing in objects() if thing.code_point.startswith(sprite_pack.NOT_FREE)]


def test_a_picture_that_the_package_lacks_leaves_the_old_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path / "a.tgz", ["1f415"])
    (tmp_path / "pack.zip").write_bytes(b"the old pack")
    monkeypatch.setattr(sprite_pack, "objects", lambda: table("1f415", "1f999"))
    with pytest.raises(UserError, match="has no picture 1f999: correct the table"):
        sprite_pack.pack(archive, tmp_path / "pack.zip")
    assert (tmp_path / "pack.zip").read_bytes() == b"the old pack"


def npm_that_fetches(data: bytes) -> Any:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        (Path(command[-1]) / "package.tgz").write_bytes(data)
        return subprocess.CompletedProcess(command, 0, "package.tgz\n")

    return run


def test_a_package_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprite_pack.subprocess, "run", npm_that_fetches(b"something else"))
    found = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(UserError, match=f"not the one this project was made with: its SHA-256 is {found}"):
        sprite_pack.fetch(tmp_path)


def test_a_package_with_the_right_hash_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprite_pack.subprocess, "run", npm_that_fetches(b"the package"))
    monkeypatch.setattr(sprite_pack, "SHA256", hashlib.sha256(b"the package").hexdigest())
    assert sprite_pack.fetch(tmp_path).read_bytes() == b"the package"


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("npm"), subprocess.CalledProcessError(1, "npm")],
    ids=["no npm", "no network"],
)
def test_without_npm_or_network_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(sprite_pack.subprocess, "run", run)
    with pytest.raises(UserError, match="install npm and check the network"):
        sprite_pack.fetch(tmp_path)
