"""Mask rules against their definitions, written out the slow way."""

from __future__ import annotations

import io
import math
from collections import deque
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import UserError
from editor.components import peak_of_component
from editor.masks import feather, grow, harden, is_empty, read_mask
from tests.editor import picture_files as files

HEIGHT, WIDTH = 41, 53


def blank() -> np.ndarray:
    return np.zeros((HEIGHT, WIDTH), np.uint8)


def painted(rows: slice | int, columns: slice | int, level: int = 255) -> np.ndarray:
    mask = blank()
    mask[rows, columns] = level
    return mask


def speckled(share: float, seed: int = 0, grey: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    levels = random.integers(1, 256, (HEIGHT, WIDTH)) if grey else 255
    return np.where(random.random((HEIGHT, WIDTH)) < share, levels, 0).astype(np.uint8)


def disc(radius: float) -> np.ndarray:
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.where((y - 20) ** 2 + (x - 26) ** 2 <= radius**2, 255, 0).astype(np.uint8)


MASKS = {
    "empty": blank(),
    "full": np.full_like(blank(), 255),
    "one-pixel": painted(20, 30),
    "corner": painted(0, 0),
    "2x2": painted(slice(20, 22), slice(30, 32)),
    "8x1": painted(20, slice(10, 18)),
    "disc": disc(12),
    "border": painted(slice(None), slice(0, 9)),
    "sparse": speckled(0.02),
    "dense": speckled(0.9),
    "half": speckled(0.5),
    "grey": speckled(0.3, grey=True),
    "faint": painted(slice(5, 9), slice(5, 30), 3),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


def distance_to_outside(inside: np.ndarray) -> np.ndarray:
    outside = np.argwhere(~inside)
    distances = np.full(inside.shape, math.inf)
    for y, x in np.argwhere(inside):
        if len(outside):
            distances[y, x] = math.sqrt(((outside - (y, x)) ** 2).sum(axis=1).min())
    distances[~inside] = 0
    return distances


def component_numbers(inside: np.ndarray) -> np.ndarray:
    numbers, count = np.zeros(inside.shape, int), 0
    for start in map(tuple, np.argwhere(inside)):
        if numbers[start]:
            continue
        count += 1
        numbers[start], queue = count, deque([start])
        while queue:
            y, x = queue.popleft()
            for place in ((y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)):
                if 0 <= place[0] < HEIGHT and 0 <= place[1] < WIDTH and inside[place] and not numbers[place]:
                    numbers[place] = count
                    queue.append(place)
    return numbers


@every_mask
@pytest.mark.parametrize("px", [0, 1, 2.5, 7, 60])
def test_grow_makes_a_disc_of_every_pixel(mask: np.ndarray, px: float) -> None:
    expected, (y, x) = blank(), np.mgrid[:HEIGHT, :WIDTH]
    for row, column in np.argwhere(mask):
        reached = (y - row) ** 2 + (x - column) ** 2 <= px * px
        expected[reached] = np.maximum(expected[reached], mask[row, column])
    assert np.array_equal(grow(mask, px), expected)


@every_mask
@pytest.mark.parametrize("px", [1, 3, 100])
def test_shrinking_is_growing_what_is_not_painted(mask: np.ndarray, px: int) -> None:
    assert np.array_equal(grow(mask, -px), 255 - grow(255 - mask, px))
    assert (grow(mask, -px) <= mask).all()


def test_the_border_does_not_eat_into_a_shrinking_mask() -> None:
    assert (grow(MASKS["full"], -5) == 255).all()
    assert np.array_equal(grow(painted(slice(None), slice(0, 9)), -5), painted(slice(None), slice(0, 4)))


@every_mask
@pytest.mark.parametrize("px", [0, 0.5, 1, 4, 8, 64, 300])
def test_feather_by_its_definition(mask: np.ndarray, px: float) -> None:
    opacity = mask * np.minimum(distance_to_outside(mask > 0), px + 1)
    areas = component_numbers(mask > 0)
    expected = np.zeros(mask.shape)
    for number in range(1, areas.max() + 1):
        area = areas == number
        expected[area] = 255 * opacity[area] / opacity[area].max()
    expected[expected >= 253.5] = 255
    assert np.abs(feather(mask, px) - expected).max() <= 0.51  # rounding to whole levels


@every_mask
@pytest.mark.parametrize("px", [0, 4, 64])
def test_feather_is_never_wider_and_shows_every_stroke(mask: np.ndarray, px: int) -> None:
    blend, areas = feather(mask, px), component_numbers(mask > 0)
    assert not blend[mask == 0].any()
    assert all(blend[areas == number].max() == 255 for number in range(1, areas.max() + 1))


@pytest.mark.parametrize("px", [0, 4, 64])
@pytest.mark.parametrize("name", ["one-pixel", "corner", "8x1", "2x2"])
def test_A9_a_thin_dab_is_fully_shown(name: str, px: int) -> None:
    assert np.array_equal(feather(MASKS[name], px), MASKS[name])


def test_a_dab_beside_a_large_stroke_is_shown_and_one_that_touches_it_is_part_of_it() -> None:
    apart, touching = disc(12), disc(12)
    apart[20, 40], touching[20, 39] = 255, 255
    assert feather(apart, 8)[20, 40] == 255
    assert feather(touching, 8)[20, 39] < 64


def test_C3_the_ramp_has_its_width_and_rises_to_the_inside() -> None:
    ramp = feather(painted(slice(None), slice(10, None)), 4)[20]
    assert not ramp[:10].any() and ramp[10:15].tolist() == [51, 102, 153, 204, 255]
    assert (ramp[15:] == 255).all()  # and does not fall again towards the picture's border
    assert (np.diff(ramp.astype(int)) >= 0).all()


def test_a_ramp_wider_than_sixteen_bit_squares_can_count() -> None:
    mask = np.zeros((3, 1000), np.uint8)
    mask[:, 10:] = 255
    expected = np.minimum(np.arange(1, 991) / 401, 1) * 255
    assert np.abs(feather(mask, 400)[1, 10:] - expected).max() <= 1.5  # 254 counts as 255


def test_a_full_mask_has_no_ramp() -> None:
    assert (feather(MASKS["full"], 8) == 255).all()


def test_a_wider_feather_never_shows_more() -> None:
    blends = [feather(disc(12), px).astype(int) for px in range(0, 40)]
    assert all((wider <= narrower).all() for narrower, wider in pairwise(blends))


def test_A12_grey_levels_stay_in_order() -> None:
    mask = blank()
    mask[:, 1:] = np.linspace(1, 255, WIDTH - 1)
    for px in (0, 4):
        assert (np.diff(feather(mask, px).astype(int), axis=1) >= 0).all()
    assert len(np.unique(feather(mask, 0))) > WIDTH - 5


@pytest.mark.parametrize(("level", "shown"), [(255, 255), (254, 255), (253, 253), (128, 128)])
def test_A11_nearly_opaque_is_opaque(level: int, shown: int) -> None:
    mask = painted(slice(10, 20), slice(10, 20))
    mask[12, 12] = level
    assert feather(mask, 0)[12, 12] == shown


@pytest.mark.parametrize(
    ("levels", "hard"),
    [
        ([127, 128, 255], [0, 255, 255]),
        ([0, 254, 1], [0, 255, 0]),
        ([100, 127, 3], [0, 255, 0]),
        ([0, 1, 0], [0, 255, 0]),
        ([1, 1, 1], [255, 255, 255]),
        ([0, 0, 0], [0, 0, 0]),
        ([60, 0, 255], [255, 0, 255]),
    ],
    ids=str,
)
def test_hard_masks_cut_at_128_but_lose_no_stroke(levels: list[int], hard: list[int]) -> None:
    assert harden(np.array([levels], np.uint8)).tolist() == [hard]


@every_mask
def test_peaks_of_connected_areas(mask: np.ndarray) -> None:
    values = np.random.default_rng(1).random(mask.shape).astype(np.float32)
    inside, areas = mask > 0, component_numbers(mask > 0)
    expected = np.zeros_like(values)
    for number in range(1, areas.max() + 1):
        expected[areas == number] = values[areas == number].max()
    assert np.array_equal(peak_of_component(inside, values), expected)


def test_one_area_that_winds_through_the_whole_picture() -> None:
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[::2] = True
    inside[1::4, -1] = inside[3::4, 0] = True
    values = np.arange(inside.size).reshape(inside.shape)
    assert np.unique(peak_of_component(inside, values)).tolist() == [0, values[inside].max()]


@pytest.mark.parametrize("area_px", [np.s_[0:0, 0:0], np.s_[7:8, 9:10]], ids=["empty", "one-pixel"])
def test_is_empty(area_px: tuple[slice, slice]) -> None:
    mask = blank()
    mask[area_px] = 1
    assert is_empty(mask) == (mask.sum() == 0)


@every_mask
def test_nothing_changes_its_argument(mask: np.ndarray) -> None:
    before = mask.copy()
    for result in (grow(mask, 3), grow(mask, -3), grow(mask, 0), feather(mask, 0), feather(mask, 4), harden(mask)):
        result[...] = 77
    assert np.array_equal(mask, before)


# Reading

SIZE = (96, 64)
STROKE = np.s_[10:20, 30:50]


def _canvas(background: tuple[int, ...], stroke: tuple[int, ...]) -> Image.Image:
    pixels = np.empty((SIZE[1], SIZE[0], len(background)), np.uint8)
    pixels[:], pixels[STROKE] = background, stroke
    return Image.fromarray(pixels.squeeze(-1) if len(background) == 1 else pixels)


@pytest.mark.parametrize(
    ("image", "background", "stroke"),
    [
        (_canvas((0,), (255,)), 0, 255),
        (_canvas((7,), (200,)), 7, 200),
        (_canvas((0,), (255,)).convert("1"), 0, 255),
        (_canvas((0, 0, 0), (255, 255, 255)), 0, 255),
        (_canvas((0, 0, 0), (255, 255, 255)).convert("P"), 0, 255),
        (_canvas((0, 0, 0), (255, 0, 0)), 0, 76),
        (_canvas((0, 0, 0, 0), (255, 255, 255, 255)), 0, 255),
        (_canvas((0, 0, 0, 0), (0, 0, 0, 255)), 0, 255),
        (_canvas((0, 0, 0, 0), (140, 80, 220, 115)), 0, 115),
        (_canvas((255, 255, 255, 0), (255, 255, 255, 254)), 0, 254),
        (_canvas((0, 0), (0, 200)), 0, 200),
        (_canvas((0, 0, 0, 255), (255, 255, 255, 255)), 0, 255),
        (_canvas((255, 255, 255, 255), (255, 255, 255, 255)), 255, 255),
        (_canvas((0, 0, 0, 255), (0, 0, 0, 255)), 0, 0),
        (_canvas((0, 0, 0, 255), (255, 255, 255, 128)), 0, 128),
        (_canvas((0, 0, 0, 0), (0, 0, 0, 0)), 0, 0),
    ],
    ids=[
        "L",
        "L-grey",
        "1",
        "RGB",
        "P",
        "RGB-red",
        "layer-white",
        "layer-black",
        "layer-veil",
        "alpha-254",
        "LA",
        "RGBA-opaque",
        "RGBA-all-white",
        "RGBA-all-black",
        "RGBA-both",
        "layer-empty",
    ],
)
def test_A15_G12_what_counts_as_painted(image: Image.Image, background: int, stroke: int) -> None:
    expected = np.full((SIZE[1], SIZE[0]), background, np.uint8)
    expected[STROKE] = stroke
    for source in (image, files.encoded(image, "PNG")):
        assert np.array_equal(read_mask(source, SIZE), expected)


def test_a_stroke_of_one_colour_with_the_rounding_of_a_browser_s_canvas() -> None:
    layer = np.zeros((SIZE[1], SIZE[0], 4), np.uint8)
    layer[STROKE] = (140, 80, 220, 255)
    layer[10, 30:50] = (143, 77, 217, 97)  # an anti-aliased edge, divided by its alpha again
    layer[19, 30:50] = (255, 0, 255, 1)
    assert np.array_equal(read_mask(Image.fromarray(layer), SIZE), layer[..., 3])


def test_a_sixteen_bit_mask_keeps_its_levels() -> None:
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    assert np.array_equal(read_mask(files.deep_png(levels), (256, 256)), np.rint(levels / 257))


@pytest.mark.parametrize("quality", [50, 75, 95])
def test_jpeg_specks_are_no_strokes(quality: int) -> None:
    data = files.encoded(_canvas((0,), (255,)), "JPEG", quality=quality)
    mask = read_mask(data, SIZE)
    assert (mask[12:18, 32:48] == 255).all()
    far = mask.copy()
    far[8:24, 24:56] = 0  # the blocks of 8x8 that the stroke touches
    assert is_empty(far)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_is_turned_upright_like_the_picture(orientation: int) -> None:
    upright = np.asarray(_canvas((0,), (255,)))
    stored = Image.fromarray(files.turned(upright, orientation))
    data = files.with_orientation(stored, "PNG", orientation)
    assert np.array_equal(read_mask(data, SIZE), upright)
    assert np.array_equal(read_mask(Image.open(io.BytesIO(data)), SIZE), upright)


@pytest.mark.parametrize("size", [(64, 96), (95, 64), (1, 1), (960, 640)], ids=str)
def test_a_mask_of_another_size_is_refused_with_both_sizes(size: tuple[int, int]) -> None:
    image = Image.new("L", size, 255)
    for source in (image, files.encoded(image, "PNG")):
        with pytest.raises(UserError, match=f"The mask is {size[0]}x{size[1]} but the picture is 96x64: make the mask"):
            read_mask(source, SIZE)


def test_a_mask_file_that_is_no_picture_is_refused() -> None:
    with pytest.raises(UserError, match="The mask is not a PNG"):
        read_mask(b"hello", SIZE)
