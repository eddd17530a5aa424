"""Scenes that are not a land under a sky: plain colours, walls, a table, grass, clouds, water, space, lava."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from training.colours import RGB
from training.grammar import with_article
from training.skies import DAYLIGHT, draw_clouds
from training.textures import (
    Array,
    Place,
    Region,
    Sketch,
    below,
    gradient,
    grid,
    noise,
    paint,
    rgb,
    smooth,
    spots,
    uniform,
    varied,
)

COLOURS = {name: rgb(*channels) for name, channels in RGB.items()}


@dataclass(frozen=True)
class Interior:
    """A painted scene of one or two flat parts."""

    name: str
    image: Array
    light: Array
    regions: tuple[Region, ...]
    place: Place = "plain"
    horizon: float | None = None


def plain_name(colour: str) -> str:
    return f"a plain {colour} background"


def table_name(colour: str) -> str:
    return f"a wooden table and {with_article(colour)} wall"


def draw_interior(random: np.random.Generator, size: int) -> Interior:
    """Paint one of the scenes; plain colours and tables come more often, for there are twelve of each."""
    kinds = (_plain, _plain, _table, _table, *(_whole(name) for name in _WHOLE))
    return kinds[random.integers(len(kinds))](random, size)


def _any_colour(random: np.random.Generator) -> tuple[str, Array]:
    name = tuple(COLOURS)[random.integers(len(COLOURS))]
    return name, varied(random, COLOURS[name] * random.uniform(0.93, 1.05), 0.006)


def _plain(random: np.random.Generator, size: int) -> Interior:
    name, colour = _any_colour(random)
    x, y = grid(size)
    image = colour * (1.06 - 0.2 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))[..., None]
    phrase = plain_name(name)
    return Interior(phrase, image, DAYLIGHT, (Region(phrase, 0, 1),))


def _table(random: np.random.Generator, size: int) -> Interior:
    name, colour = _any_colour(random)
    x, y = grid(size)
    edge = float(random.uniform(0.55, 0.7))
    image = (colour * 0.84 + 0.12) * (1.06 - 0.12 * x - 0.1 * y)[..., None]
    wood = varied(random, rgb(172, 118, 74), 0.015)
    grain = 0.06 * noise(random, size, wide=9, tall=0.7) + 0.04 * noise(random, size, wide=5, tall=0.5)
    paint(image, below(edge, size), wood * (1.1 - 0.35 * (y - edge) + grain)[..., None])
    boards = Sketch(size)
    for depth in (0.22, 0.56):
        height = edge + (1 - edge) * depth
        boards.box(0, height, 1, height + 0.003 + 0.003 * depth, wood * 0.62)
    boards.onto(image, 0.8)
    paint(image, below(edge, size) - below(edge + 0.012, size), wood * 1.25)
    paint(image, np.exp(-np.clip(edge - y, 0, 1) / 0.02) * (1 - below(edge, size)) * 0.2, rgb(30, 25, 25))
    wall = f"{with_article(name)} wall"
    regions = (Region(wall, 0, edge), Region("a wooden table", edge, 1))
    return Interior(table_name(name), image, DAYLIGHT, regions, "table", edge)


def _brick_wall(random: np.random.Generator, size: int) -> Array:
    x, y = grid(size)
    height, width = 0.0625, 0.15
    row = np.floor(y / height)
    along = x / width + 0.5 * (row % 2)
    tones = random.random((17, 9)).astype(np.float32)[row.astype(np.intp) % 17, np.floor(along).astype(np.intp) % 9]
    brick = varied(random, rgb(176, 88, 68), 0.025)
    image = brick * (0.86 + 0.24 * tones + 0.05 * noise(random, size))[..., None]
    beside = np.abs(along - np.floor(along) - 0.5) * width - width / 2
    above = np.abs(y / height - row - 0.5) * height - height / 2
    joint = smooth(-0.007, -0.004, np.maximum(beside, above))
    paint(image, joint, rgb(206, 196, 184) * (1 + 0.03 * noise(random, size))[..., None])
    return image


def _green_grass(random: np.random.Generator, size: int) -> Array:
    green = varied(random, rgb(96, 170, 64), 0.02)
    image = green * (0.74 + 0.06 * noise(random, size, wide=1.5))[..., None]
    blades = Sketch(size)
    count = 1000
    for x, y in zip(uniform(random, 0, 1, count), np.sort(uniform(random, 0.02, 1.16, count)), strict=True):
        height, lean = random.uniform(0.07, 0.15), random.uniform(-0.04, 0.04)
        tone = green * random.uniform(0.76, 1.2)
        blades.polygon([(x - 0.008, y), (x + lean, y - height), (x + 0.008, y)], tone)
    blades.onto(image, 0.85)
    return image


def _underwater(random: np.random.Generator, size: int) -> Array:
    x, y = grid(size)
    image = gradient(size, [varied(random, rgb(92, 196, 222)), varied(random, rgb(26, 118, 182)), rgb(8, 52, 108)])
    lean = random.uniform(-0.5, 0.5)
    along = (x + lean * y) * 2 * np.pi
    rays = np.zeros((size, size), np.float32)
    for pace in (3, 5, 8):
        rays += np.sin(pace * random.uniform(0.8, 1.2) * along + random.uniform(0, 6.28)) / 3
    paint(image, smooth(0.1, 0.9, rays) * np.clip(1 - y * 1.25, 0, 1) * 0.4, rgb(214, 246, 250))
    bubbles = Sketch(size)
    for _ in range(int(random.integers(8, 22))):
        left, top, radius = random.uniform(0, 1), random.uniform(0.05, 1), random.uniform(0.004, 0.014)
        bubbles.ellipse(left, top, radius, radius, rgb(150, 214, 236))
        bubbles.ellipse(left - 0.35 * radius, top - 0.35 * radius, radius * 0.3, radius * 0.3, rgb(240, 252, 255))
    bubbles.onto(image, 0.6)
    return image


def _outer_space(random: np.random.Generator, size: int) -> Array:
    image = gradient(size, [rgb(6, 6, 22), rgb(18, 11, 42), rgb(8, 7, 26)])
    for colour in (rgb(150, 60, 170), rgb(50, 90, 190)):
        cloud = smooth(0.1, 2.2, noise(random, size, wide=1.2)) * 0.6
        paint(image, cloud, varied(random, colour, 0.06))
    count = 240
    glory = uniform(random, 0, 1, count) ** 5
    x, y = uniform(random, 0, 1, count), uniform(random, 0, 1, count)
    image += spots(size, x, y, 0.002 + 0.004 * glory, 0.6 + 0.6 * glory)[..., None]
    return image


def _white_clouds(random: np.random.Generator, size: int) -> Array:
    image = gradient(size, [varied(random, rgb(104, 168, 232), 0.02), rgb(172, 210, 243)])
    soft = smooth(-0.4, 1.2, noise(random, size, wide=1.4)) * 0.6
    paint(image, soft, rgb(236, 243, 250))
    draw_clouds(random, image, 3.2, rgb(255, 255, 255), low=1.05)
    return image


def _lava(random: np.random.Generator, size: int) -> Array:
    field = noise(random, size, wide=0.8, tall=0.8) + 0.3 * noise(random, size, wide=0.5, tall=0.5)
    heat = np.exp(-np.abs(field) / 0.32)
    rock = varied(random, rgb(58, 40, 40), 0.012) * (1 + 0.15 * noise(random, size, wide=0.6, tall=0.6))[..., None]
    paint(rock, smooth(0.1, 0.6, heat), rgb(226, 74, 24))
    paint(rock, smooth(0.45, 0.95, heat), rgb(255, 200, 80))
    return rock


_WHOLE: dict[str, tuple[Callable[[np.random.Generator, int], Array], Place, Array]] = {
    "a brick wall": (_brick_wall, "plain", DAYLIGHT),
    "green grass": (_green_grass, "plain", DAYLIGHT),
    "underwater": (_underwater, "underwater", rgb(190, 228, 245)),
    "outer space": (_outer_space, "space", DAYLIGHT),
    "white clouds": (_white_clouds, "sky", DAYLIGHT),
    "lava": (_lava, "plain", rgb(255, 226, 206)),
}


def _whole(name: str) -> Callable[[np.random.Generator, int], Interior]:
    """The scene that is one thing from edge to edge."""
    painter, place, light = _WHOLE[name]
    return lambda random, size: Interior(name, painter(random, size), light, (Region(name, 0, 1),), place)


INTERIORS = (*map(plain_name, COLOURS), *map(table_name, COLOURS), *_WHOLE)
