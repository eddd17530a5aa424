"""Composed pictures: objects where the layout says, nothing changed elsewhere, no fringes, the same at every size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw

from tests.training.conftest import plain, put, whole
from training import compositor
from training.backgrounds import draw_background
from training.compositor import Compositor, Pictures
from training.layouts import Layout, Placed
from training.objects import Object, cutouts

GREY = (0.5, 0.5, 0.5)
SIDE = 128


def on_grey(*layouts: Layout, side: int = SIDE) -> Pictures:
    return Compositor([plain(GREY, side)]).compose([0] * len(layouts), layouts, side)


def extents(placed: Placed) -> tuple[float, float]:
    width, height = cutouts()[placed.thing.name].size
    return width / max(width, height) * placed.size, height / max(width, height) * placed.size


@pytest.mark.parametrize(
    "placed",
    [
        put("balloon"),
        put("car", size=0.9),
        put("giraffe", x=0.3, y=0.6, size=0.7),
        put("snake", x=0.7, y=0.25, size=0.2),
        put("bus", x=0.35, y=0.7, size=0.5, mirrored=True),
        put("whale", x=0.5, y=0.95, size=0.4),
        put("cookie", x=0.02, y=0.5, size=0.3),
        put("dress", x=0.5, y=0.5, size=0.4, paint="green"),
        put("book", x=0.5, y=0.5, size=0.05),
    ],
    ids=["middle", "wide", "tall", "flat", "mirrored", "cut below", "cut at the left", "painted", "tiny"],
)
def test_an_object_is_where_the_layout_says(placed: Placed) -> None:
    seen = on_grey(whole(placed)).alphas[0, 0] > 0.4
    rows, columns = (torch.nonzero(seen.any(axis)).flatten() for axis in (1, 0))
    found = [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]
    width, height = extents(placed)
    edges = (placed.x - width / 2, placed.y - height / 2, placed.x + width / 2, placed.y + height / 2)
    right = [min(max(edge, 0), 1) * SIDE for edge in edges]
    assert max(abs(one - other) for one, other in zip(found, right, strict=True)) <= 2, (found, right)


@pytest.mark.parametrize(
    ("left", "top", "side"),
    [(0, 0, 1), (0.25, 0.5, 0.5), (0.5, 0, 0.5), (0, 0.375, 0.5)],
    ids=["all of it", "a window", "the top right corner", "the left edge"],
)
def test_elsewhere_the_picture_is_the_window_of_the_background(left: float, top: float, side: float) -> None:
    background = draw_background(np.random.default_rng(4), 128)
    out = round(128 * side)
    layout = Layout(left, top, side, (put("car", x=0.3, y=0.7, size=0.4), put("bird", x=0.8, y=0.3, size=0.25)))
    pictures = Compositor([plain(GREY), background]).compose([1], [layout], out)
    x, y = round(128 * left), round(128 * top)
    window = torch.from_numpy(background.image[y : y + out, x : x + out]).permute(2, 0, 1)
    free = pictures.alphas[0].sum(0) == 0
    assert 0.5 < free.float().mean() < 0.98
    assert (pictures.images[0] - window).abs()[:, free].max() < 0.5 / 255 + 1e-4
    assert (pictures.images[0] - window).abs()[:, ~free].max() > 0.1


def test_a_window_between_pixels_is_interpolated() -> None:
    ramp = plain(GREY, 64)
    ramp.image[:] = np.linspace(0.1, 0.9, 64, dtype=np.float32)[None, :, None]
    shifted = Compositor([ramp]).compose([0], [Layout(0.3 / 64, 0, 0.5, ())], 32).images[0, 0, 5]
    wanted = torch.linspace(0.1, 0.9, 64)[:32] + 0.3 * 0.8 / 63
    assert (shifted - wanted).abs().max() < 1 / 255


def test_only_what_stands_casts_a_shadow_and_only_at_its_foot() -> None:
    flying, standing = on_grey(whole(put("chair", size=0.4)), whole(put("chair", size=0.4, stands=True))).images
    darker = (flying - standing).amax(0)
    assert darker.min() >= 0
    foot = round((0.5 + extents(put("chair", size=0.4))[1] / 2) * SIDE)
    assert darker[foot, SIDE // 2] > 0.05
    assert darker[: SIDE // 2].max() < 1e-3 and darker[:, : SIDE // 8].max() < 1e-3 and darker[-20:].max() < 1e-3


@pytest.mark.parametrize("name", ["car", "guitar", "dog"])
def test_mirrored_is_the_mirror_image(name: str) -> None:
    pictures = on_grey(*(whole(put(name, mirrored=mirrored)) for mirrored in (False, True)))
    as_it_is, mirrored = pictures.images
    assert (as_it_is - mirrored).abs().max() > 0.2
    assert (as_it_is.flip(-1) - mirrored).abs().max() < 1e-4
    assert torch.equal(pictures.alphas[0] > 0.5, pictures.alphas[1].flip(-1) > 0.5)


def lean(alpha: torch.Tensor) -> float:
    """The angle of a shape's long axis, in degrees clockwise from the horizontal."""
    x, y = torch.arange(alpha.shape[-1]).float(), torch.arange(alpha.shape[0]).float()[:, None]
    x, y = x - (alpha * x).sum() / alpha.sum(), y - (alpha * y).sum() / alpha.sum()
    xx, yy, xy = (float((alpha * moment).sum()) for moment in (x * x, y * y, x * y))
    return math.degrees(math.atan2(2 * xy, xx - yy) / 2)


@pytest.mark.parametrize("mirrored", [False, True], ids=["as it is", "mirrored"])
@pytest.mark.parametrize("degrees", [-12, 7, 12])
def test_degrees_turn_clockwise(degrees: float, mirrored: bool) -> None:
    layouts = [whole(put("toothbrush", degrees=turn, mirrored=mirrored)) for turn in (0, degrees)]
    upright, turned = (lean(alphas[0]) for alphas in on_grey(*layouts).alphas)
    assert abs(turned - upright - degrees) < 0.5


def test_nearer_objects_hide_farther_ones() -> None:
    far, near = put("house", x=0.45, size=0.6), put("car", x=0.55, y=0.6, size=0.5)
    alone = on_grey(whole(far), whole(near))
    both = on_grey(whole(far, near))
    assert both.alphas.sum(1).max() <= 1 + 1e-5
    assert torch.allclose(both.alphas[0, 1], alone.alphas[1, 0])
    assert torch.allclose(both.alphas[0, 0], alone.alphas[0, 0] * (1 - alone.alphas[1, 0]), atol=1e-5)
    opaque = alone.alphas[1, 0] > 0.999
    assert opaque.sum() > 500 and (both.alphas[0, 0][opaque] < 0.002).all()
    assert (both.images[0] - alone.images[1])[:, opaque].abs().max() < 0.005


def test_a_batch_is_its_pictures_one_by_one() -> None:
    random = np.random.default_rng(1)
    backgrounds = [draw_background(random, 128) for _ in range(3)]
    layouts = [
        whole(),
        whole(put("cat", x=0.2, size=0.3, stands=True), put("dog", size=0.3), put("pig", x=0.8, size=0.3)),
        Layout(0.1, 0.3, 0.6, (put("sun", y=0.2, size=0.9, degrees=7),)),
        whole(put("rocket", paint=None, size=0.1), put("star", paint="blue", size=0.45, x=0.2)),
    ]
    chosen = [2, 0, 1, 2]
    together = Compositor(backgrounds).compose(chosen, layouts, 64)
    for i, (index, layout) in enumerate(zip(chosen, layouts, strict=True)):
        alone = Compositor(backgrounds).compose([index], [layout], 64)
        assert torch.allclose(together.images[i], alone.images[0], atol=1e-6)
        count = len(layout.objects)
        assert torch.allclose(together.alphas[i, :count], alone.alphas[0, :count], atol=1e-6)
        assert (together.alphas[i, count:] == 0).all()


@pytest.mark.parametrize("size", [0.9, 0.62, 0.45, 0.31, 0.2, 0.12], ids=str)
@pytest.mark.parametrize("name", ["zebra", "bicycle", "strawberry"])
def test_levels_of_the_pyramid_agree(name: str, size: float) -> None:
    """Drawn twice as large and reduced, an object is the same picture."""
    layout = whole(put(name, x=0.48, y=0.53, size=size))
    small, large = on_grey(layout, side=64), on_grey(layout, side=128)
    difference = (F.avg_pool2d(large.images, 2) - small.images).abs()
    seen = small.alphas[0, 0] > 0.5
    assert difference.mean() < 0.01 and difference[0][:, seen].mean() < 0.08
    assert (F.avg_pool2d(large.alphas, 2) - small.alphas).abs().mean() < 0.008


def disc(colour: tuple[int, int, int], hidden: tuple[int, int, int]) -> Image.Image:
    """A disc of one colour; where it is transparent the file says another."""
    picture, mask = Image.new("RGB", (200, 200), hidden), Image.new("L", (800, 800))
    ImageDraw.Draw(mask).ellipse((20, 20, 780, 780), fill=255)
    mask = mask.resize((200, 200), Image.Resampling.BOX)
    picture.paste(colour, (0, 0), mask.point(lambda value: 255 if value else 0))
    picture.putalpha(mask)
    return picture


@pytest.mark.parametrize("hidden", [(0, 0, 0), (255, 255, 255), (0, 0, 255)], ids=["black", "white", "blue"])
@pytest.mark.parametrize("size", [0.9, 0.35, 0.08], ids=str)
def test_edges_have_no_fringe(monkeypatch: pytest.MonkeyPatch, size: float, hidden: tuple[int, int, int]) -> None:
    """An orange disc on the same orange is not seen at all, whatever its transparent pixels hold."""
    orange = (230, 140, 40)
    thing = Object("disc", (), "orange", "air", False, False, "0")
    monkeypatch.setattr(compositor, "objects", lambda: (thing,))
    monkeypatch.setattr(compositor, "cutouts", lambda: {"disc": disc(orange, hidden)})
    monkeypatch.setattr(compositor, "_cutout_pyramid", compositor._cutout_pyramid.__wrapped__)
    red, green, blue = (value / 255 for value in orange)
    placed = replace(put("balloon", size=size, degrees=5), thing=thing)
    pictures = Compositor([plain((red, green, blue))]).compose([0], [whole(placed)], SIDE)
    assert ((pictures.alphas > 0.1) & (pictures.alphas < 0.9)).sum() > 10
    assert (pictures.images[0] - torch.tensor((red, green, blue))[:, None, None]).abs().max() < 3 / 255


@pytest.mark.parametrize("name", ["ghost", "crow", "rose"], ids=["white", "black", "red"])
def test_what_shows_through_is_the_background(name: str) -> None:
    """Over black and over white, a picture differs by exactly what the object leaves free."""
    grounds = [plain((0, 0, 0)), plain((1, 1, 1))]
    pictures = Compositor(grounds).compose([0, 1], [whole(put(name))] * 2, SIDE)
    black, white = pictures.images
    assert (white - black - (1 - pictures.alphas[0])).abs().max() < 0.02


@pytest.mark.parametrize(
    ("light", "low", "high"), [(1, 0.99, 1.01), (0.9, 0.9, 1), (0.6, 0.7, 0.85)], ids=["day", "dull", "night"]
)
def test_light_falls_on_objects(light: float, low: float, high: float) -> None:
    grounds = [plain(GREY), plain(GREY, light=light)]
    day, there = Compositor(grounds).compose([0, 1], [whole(put("ghost"))] * 2, 64).images
    body = on_grey(whole(put("ghost")), side=64).alphas[0, 0] > 0.99
    assert low < float(there[:, body].mean() / day[:, body].mean()) < high


def test_a_replaced_background_brings_its_light() -> None:
    made = Compositor([plain(GREY), plain(GREY)])
    night = plain((0.1, 0.1, 0.3), light=0.5)
    made.replace(1, night)
    again = made.compose([0, 1], [whole(put("ghost"))] * 2, 64)
    wanted = Compositor([plain(GREY), night]).compose([0, 1], [whole(put("ghost"))] * 2, 64)
    assert torch.equal(again.images, wanted.images)


def test_every_object_can_be_drawn_in_every_paint() -> None:
    _, extents_of, index = compositor._cutout_pyramid(torch.device("cpu"))
    assert len(set(index.values())) == len(index) == len(extents_of)
    assert math.isclose(float(extents_of.amax(1).min()), 1)


def test_composing_changes_no_background() -> None:
    background = plain(GREY)
    before, made = background.image.tobytes(), Compositor([background])
    first = made.compose([0], [whole(put("car", stands=True))], 64).images
    assert torch.equal(made.compose([0], [whole(put("car", stands=True))], 64).images, first)
    assert background.image.tobytes() == before
