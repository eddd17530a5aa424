"""What goes into the editor comes out of it, through a session and over HTTP: only what was painted changes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from gradio_client import Client, handle_file
from painting_engine import PaintingEngine
from PIL import Image

from editor.images import encode_picture, open_picture
from editor.jobs import Turns
from editor.requests import EditRequest
from editor.session import EditSession

PROMPT = "a cactus"
TURN = Image.Transpose
# how a camera stores a picture so that a viewer that obeys the orientation shows it upright
STORED = {2: TURN.FLIP_LEFT_RIGHT, 3: TURN.ROTATE_180, 4: TURN.FLIP_TOP_BOTTOM, 5: TURN.TRANSPOSE, 6: TURN.ROTATE_90}
STORED |= {7: TURN.TRANSVERSE, 8: TURN.ROTATE_270}


class InSession:
    def __init__(self) -> None:
        self.session = EditSession(PaintingEngine(), Turns())

    def open(self, file: bytes) -> None:
        self.session.open(open_picture(file))

    def edit(self, mask: np.ndarray, grow: int = 0, feather: int = 0) -> np.ndarray:
        """The pixels of the edited picture, which waits to be kept."""
        list(self.session.edit(encoded(mask), EditRequest(PROMPT, grow_px=grow, feather_px=feather)))
        return np.asarray(self.session.picture(self.session.shown_id))

    def keep(self) -> None:
        self.session.keep()

    def exported(self) -> Image.Image:
        """The shown picture as its PNG file has it."""
        shown = self.session.shown_id
        source, made = self.session.source(shown), self.session.made(shown)
        return decoded(encode_picture(self.session.picture(shown), "PNG", source.alpha, made, source.exif))


class OverHttp:
    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder, self.shown = address, folder, ""
        self.client = Client(address, verbose=False, download_files=False)

    def open(self, file: bytes) -> None:
        self.shown = self.client.predict(self._file(file), api_name="/open")["picture_id"]

    def edit(self, mask: np.ndarray, grow: int = 0, feather: int = 0) -> np.ndarray:
        options = {"mask": self._file(encoded(mask)), "grow": grow, "feather": feather}
        [candidate] = self.client.predict(prompt=PROMPT, **options, api_name="/edit")["candidates"]
        self.shown = candidate["picture_id"]
        return np.asarray(self._get(candidate["url"]))

    def keep(self) -> None:
        self.shown = self.client.predict(self.shown, api_name="/commit")["picture_id"]

    def exported(self) -> Image.Image:
        return self._get(self.client.predict(self.shown, "png", api_name="/export")["url"])

    def _file(self, data: bytes) -> Any:
        path = self.folder / "sent.png"
        path.write_bytes(data)
        return handle_file(path)

    def _get(self, url: str) -> Image.Image:
        return decoded(httpx.get(self.address + url).raise_for_status().content)


Way = InSession | OverHttp


@pytest.fixture(params=["session", "http"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return InSession() if request.param == "session" else OverHttp(request.getfixturevalue("address"), tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the engine is given by each edit."""
    asked: list[dict[str, Any]] = []
    edit: Callable[..., Any] = PaintingEngine.edit

    def remembering(self, version_id, mask, prompt, **options):
        asked.append({"mask": mask, "prompt": prompt} | options)
        return edit(self, version_id, mask, prompt, **options)

    monkeypatch.setattr(PaintingEngine, "edit", remembering)
    return asked


def encoded(pixels: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", **options)
    return buffer.getvalue()


def decoded(file: bytes) -> Image.Image:
    return Image.open(io.BytesIO(file))


def noise(size: tuple[int, int], channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (size[1], size[0], channels), np.uint8)


def box(size: tuple[int, int], left: int, top: int, right: int, bottom: int) -> np.ndarray:
    """A mask of one rectangle."""
    mask = np.zeros((size[1], size[0]), np.uint8)
    mask[top:bottom, left:right] = 255
    return mask


def changes(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    assert old.shape == new.shape
    return (old != new).any(axis=2)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_A1_a_dab_top_left_of_a_turned_photo_changes_its_top_left(way: Way, orientation: int) -> None:
    upright = np.full((64, 128, 3), 120, np.uint8)
    upright[:16, :32] = (250, 40, 40)
    stored = Image.fromarray(upright)
    if orientation in STORED:
        stored = stored.transpose(STORED[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    way.open(encoded(np.asarray(stored), exif=exif))
    mask = box((128, 64), 0, 0, 24, 16)
    edited = way.edit(mask)
    assert np.array_equal(changes(upright, edited), mask > 0)
    exported = way.exported()
    assert 0x0112 not in exported.getexif() and np.array_equal(exported, edited)


@pytest.mark.parametrize("size", [(427, 640), (1023, 769), (65, 71)], ids=str)
def test_A5_G10_a_picture_of_any_size_comes_back_as_it_was(way: Way, size: tuple[int, int]) -> None:
    picture, mask = noise(size), box(size, size[0] - 21, size[1] - 13, *size)
    way.open(encoded(picture))
    assert np.array_equal(way.exported(), picture)
    way.edit(mask)
    changed = changes(picture, np.asarray(way.exported()))
    assert changed[mask > 0].mean() > 0.99 and not changed[mask == 0].any()


def test_A6_growing_by_nothing_is_allowed_and_by_more_covers_more(way: Way) -> None:
    picture, mask = noise((130, 90)), box((130, 90), 60, 40, 70, 50)
    way.open(encoded(picture))
    by_nothing, by_one, by_some, by_all = (changes(picture, way.edit(mask, grow)).sum() for grow in (0, 1, 32, 256))
    assert (by_nothing, by_one, by_all) == (100, 140, 130 * 90)
    assert 140 < by_some < 130 * 90


@pytest.mark.parametrize("dab", [(1, 1), (2, 2), (8, 1)], ids=str)
def test_A9_the_smallest_dab_shows_whatever_the_feather(way: Way, dab: tuple[int, int]) -> None:
    picture, mask = noise((130, 90)), box((130, 90), 61, 43, 61 + dab[0], 43 + dab[1])
    way.open(encoded(picture))
    hard = way.edit(mask)
    assert np.array_equal(changes(picture, hard), mask > 0)
    for feather in (4, 64):
        assert np.array_equal(way.edit(mask, feather=feather), hard)


def test_A15_an_inverted_mask_leaves_the_dab_alone(way: Way) -> None:
    picture, mask = noise((130, 90)), box((130, 90), 61, 43, 81, 53)
    way.open(encoded(picture))
    changed = changes(picture, way.edit(255 - mask))
    assert not changed[mask > 0].any() and changed[mask == 0].mean() > 0.99


def test_B2_ten_edits_in_ten_places_leave_the_rest_alone() -> None:
    way, size = InSession(), (600, 400)  # larger than the engine takes whole
    picture, touched = noise(size), np.zeros((400, 600), bool)
    way.open(encoded(picture))
    for number in range(10):
        left, top = 137 * number % 550, 211 * number % 350
        mask = box(size, left, top, left + 50, top + 50)
        way.edit(mask, feather=4)
        way.keep()
        touched |= mask > 0
    changed = changes(picture, np.asarray(way.exported()))
    assert not changed[~touched].any() and changed[touched].mean() > 0.9


def test_C4_the_feather_is_of_the_blend_mask_only(way: Way, asked: list[dict[str, Any]]) -> None:
    way.open(encoded(noise((130, 90))))
    for feather in (0, 4, 64):
        way.edit(box((130, 90), 30, 20, 90, 70), feather=feather)
    blends = [call.pop("blend_mask") for call in asked]
    masks = [call.pop("mask") for call in asked]
    for call in asked:
        del call["on_progress"], call["cancel"]
    assert asked[0] == asked[1] == asked[2]
    assert all(np.array_equal(mask, masks[0]) for mask in masks)
    assert len({blend.tobytes() for blend in blends}) == 3


def test_D7_a_large_picture_is_worked_on_by_a_part(asked: list[dict[str, Any]]) -> None:
    way, size = InSession(), (4096, 1024)
    picture, mask = np.full((1024, 4096, 3), 120, np.uint8), box(size, 3000, 700, 3040, 750)
    way.open(encoded(picture))
    assert np.array_equal(changes(picture, way.edit(mask)), mask > 0)
    assert asked[0]["mask"].size < 512 * 512


def test_D1_G11_transparency_comes_back_and_colours_under_it_stay(way: Way) -> None:
    picture, mask = noise((130, 90), 4), box((130, 90), 30, 20, 90, 70)
    picture[:45, :, 3] = 0
    way.open(encoded(picture))
    way.edit(mask)
    exported = np.asarray(way.exported())
    assert np.array_equal(exported[..., 3], picture[..., 3])
    changed = changes(picture[..., :3], exported[..., :3])
    assert changed[mask > 0].mean() > 0.99 and not changed[mask == 0].any()
