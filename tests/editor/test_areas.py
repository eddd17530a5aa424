"""Crops of large pictures: they hold the mask, lie in the picture, and go back to exactly where they came from."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import Progress, UserError
from editor.areas import Box, area_around, bounds
from editor.limits import MAX_WORK_PIXELS
from editor.workspace import Area

NATIVE = (512, 512)


@pytest.mark.parametrize(
    ("picture", "painted", "area"),
    [
        pytest.param((512, 512), Box(3, 4, 90, 80), Box(0, 0, 512, 512), id="native-is-taken-whole"),
        pytest.param((1024, 1024), Box(3, 4, 90, 80), Box(0, 0, 1024, 1024), id="four-times-native-is-taken-whole"),
        pytest.param((4096, 3072), Box(0, 0, 1, 1), Box(0, 0, 512, 512), id="dab-in-the-corner"),
        pytest.param((4096, 3072), Box(4095, 3071, 4096, 3072), Box(3584, 2560, 4096, 3072), id="other-corner"),
        pytest.param((4096, 3072), Box(2000, 1000, 2100, 1100), Box(1792, 768, 2304, 1280), id="middle"),
        pytest.param(
            (4096, 3072), Box(1000, 1000, 1800, 1400), Box(576, 768, 2176, 1600), id="context-grows-with-mask"
        ),
        pytest.param((10_000, 300), Box(5000, 0, 5010, 300), Box(4736, 0, 5248, 300), id="strip"),
        pytest.param((4096, 4096), Box(0, 0, 2048, 2048), Box(0, 0, 2048, 2048), id="largest-mask-has-no-context"),
    ],
)
def test_A6_the_area_of_a_mask(picture: tuple[int, int], painted: Box, area: Box) -> None:
    assert area_around(painted, picture, NATIVE) == area


def test_any_area_holds_its_mask_and_lies_in_the_picture() -> None:
    random = np.random.default_rng(0)
    for _ in range(500):
        width, height = (int(n) for n in random.integers(600, 4096, 2))
        left, top = int(random.integers(0, width)), int(random.integers(0, height))
        farthest = min(width, left + 1500), min(height, top + 1500)
        right, bottom = (int(n) + 1 for n in random.integers((left, top), farthest))
        painted = Box(left, top, right, bottom)
        area = area_around(painted, (width, height), NATIVE)
        assert area.holds(painted) and Box(0, 0, width, height).holds(area)
        assert area.size[0] * area.size[1] <= MAX_WORK_PIXELS


def test_a_mask_that_spans_too_much_is_refused_with_its_size() -> None:
    with pytest.raises(UserError, match=r"3000x3000.*4\.2 million.*smaller part"):
        area_around(Box(0, 0, 3000, 3000), (4096, 4096), NATIVE)


def test_A3_an_area_goes_back_to_exactly_where_it_came_from() -> None:
    random = np.random.default_rng(1)
    picture = Image.fromarray(random.integers(0, 256, (400, 600, 3), np.uint8))
    for _ in range(200):
        left, top = int(random.integers(0, 599)), int(random.integers(0, 399))
        box = Box(left, top, int(random.integers(left + 1, 601)), int(random.integers(top + 1, 401)))
        part = picture.crop((box.left, box.top, box.right, box.bottom))
        assert Area("v", box).whole(picture, part).tobytes() == picture.tobytes()


def test_bounds_and_cuts_are_the_same_pixels() -> None:
    mask = np.zeros((50, 80), np.uint8)
    mask[7:9, 30:61] = 255
    box = bounds(mask)
    assert box == Box(30, 7, 61, 9) and (box.cut(mask) == 255).all() and box.cut(mask).sum() == mask.sum()


def test_a_preview_moves_with_its_area() -> None:
    area = Area("v", Box(100, 200, 612, 712))
    moved = area.moved(Progress("denoise", 1, 4, Image.new("RGB", (8, 8)), (5, 6, 8, 8)))
    assert moved.place == (105, 206, 8, 8)
    nothing = Progress("record", 1, 4)
    assert area.moved(nothing) is nothing
