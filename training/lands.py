"""Lands below a sky: hills, mountains, water, forests, a city, fields, painted from far to near."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from training.scenery import (
    AUTUMN,
    MEADOW,
    SNOW,
    Scene,
    draw_leafy_tree,
    draw_tower,
    paint_fallen_leaves,
    paint_far_pines,
    paint_flowers,
    paint_peaks,
    paint_pines,
    paint_water,
)
from training.skies import Sky
from training.textures import (
    Array,
    Place,
    Region,
    Sketch,
    below,
    grid,
    noise,
    paint,
    receding,
    rgb,
    smooth,
    spots,
    uniform,
    varied,
)

GRASS = rgb(104, 172, 76)
SAND = rgb(240, 216, 166)
DUNE = rgb(228, 182, 112)
WATER = rgb(38, 112, 172)
RED_ROCK = rgb(196, 98, 62)


@dataclass(frozen=True)
class Land:
    """A painted land: where it starts, where things stand, and what its parts are."""

    name: str
    top: float  # only sky is seen above
    ground: float
    regions: tuple[Region, ...]
    place: Place = "land"


def _bottom(line: Array) -> float:
    return float(np.clip(line.max(), 0, 0.95))


def _simple(name: str, lines: list[Array], ground: float | None = None) -> Land:
    """A land that is one thing from its first line to the bottom of the picture."""
    full = _bottom(lines[0])
    top = min(float(line.min()) for line in lines)
    return Land(name, top, full if ground is None else ground, (Region(name, full, 1),))


def _hills(scene: Scene) -> Land:
    start = scene.uniform(0.46, 0.6)
    lines = [scene.rolling(start + 0.13 * i, 0.055 - 0.008 * i, 0.8 + 0.3 * i, 0.22) for i in range(3)]
    for i, line in enumerate(lines):
        scene.layer(line, scene.lit(varied(scene.random, GRASS, 0.015) * (0.84 + 0.08 * i), 0.28 - 0.14 * i))
    return _simple("green hills", lines)


def _dunes(scene: Scene) -> Land:
    start = scene.uniform(0.48, 0.6)
    lines: list[Array] = []
    for i in range(3):
        wave = scene.rolling(0, 1, 0.55 + 0.15 * i, 0.12)
        line = (start + 0.13 * i + 0.11 * np.abs(wave) - 0.04).astype(np.float32)
        lines.append(line)
        scene.layer(line, scene.lit(DUNE * (0.92 + 0.05 * i), 0.2 - 0.1 * i), 0.012, 0.25, 0.24, lean=0.9)
    ripples = receding(noise(scene.random, scene.size, wide=5, tall=0.5), start)
    image = scene.image
    image *= 1 + 0.025 * (ripples * below(lines[2], scene.size))[..., None]
    return _simple("desert dunes", lines)


def _mountains(scene: Scene, name: str, meadow: Array, snow: bool) -> Land:
    start = scene.uniform(0.58, 0.68)
    outline = np.minimum(
        paint_peaks(scene, start + 0.02, scene.uniform(0.36, 0.46), 0.45, snow),
        paint_peaks(scene, start + 0.05, scene.uniform(0.22, 0.32), 0.12, snow),
    )
    line = scene.rolling(start, 0.018, 1, 0.3)
    scene.layer(line, scene.lit(varied(scene.random, meadow, 0.012)))
    regions = (Region(name, _bottom(np.minimum(outline, line)), 1),)
    return Land(name, float(outline.min()), _bottom(line), regions)


def _sea(scene: Scene) -> Land:
    horizon = scene.uniform(0.46, 0.62)
    paint_water(scene, horizon, varied(scene.random, WATER, 0.015), 0.25)
    return Land("the sea", horizon, horizon, (Region("the sea", horizon, 1),), "sea")


def _beach(scene: Scene) -> Land:
    horizon = scene.uniform(0.42, 0.54)
    paint_water(scene, horizon, varied(scene.random, rgb(40, 138, 184), 0.015), 0.2)
    shore = scene.rolling(horizon + scene.uniform(0.14, 0.2), 0.02, 0.7, 0.3)
    _, y = grid(scene.size)
    paint(scene.image, smooth(-0.08, 0, y - shore) * 0.55, scene.lit(rgb(120, 214, 214)))
    paint(scene.image, below(shore - 0.012, scene.size), scene.lit(rgb(250, 252, 252)))
    scene.layer(shore, scene.lit(varied(scene.random, SAND, 0.012)), 0.012, 0.12, 0)
    wet = np.exp(-np.clip(y - shore, 0, 1) / 0.02) * below(shore, scene.size)
    paint(scene.image, 0.3 * wet, scene.lit(rgb(170, 140, 100)))
    ground = _bottom(shore)
    sea = Region("the sea", horizon, float(shore.min()) - 0.02)
    return Land("a sandy beach", horizon, ground, (sea, Region("a sandy beach", ground, 1)))


def _lake(scene: Scene) -> Land:
    horizon = scene.uniform(0.54, 0.64)
    if scene.random.random() < 0.5:
        far = paint_peaks(scene, horizon + 0.03, scene.uniform(0.24, 0.34), 0.35, snow=scene.random.random() < 0.6)
    else:
        far = scene.rolling(horizon - 0.1, 0.04, 0.8, 0.25)
        scene.layer(far, scene.lit(GRASS * 0.85, 0.25))
    paint_far_pines(scene, horizon + 0.005)
    paint_water(scene, horizon, rgb(58, 128, 168), 0.72, calm=True)
    return Land("a lake", min(float(far.min()), horizon - 0.09), horizon, (Region("a lake", horizon, 1),), "sea")


def _city(scene: Scene) -> Land:
    street = scene.uniform(0.7, 0.78)
    wall = varied(scene.random, rgb(110, 122, 152), 0.03)
    skyline = Sketch(scene.size)
    roofs: list[float] = []  # of the far row, which has no gaps
    for near in (False, True):
        left = -scene.uniform(0, 0.06)
        while left < 1:
            right = left + scene.uniform(0.065, 0.14)
            top = street - (scene.uniform(0.1, 0.34) if near else scene.uniform(0.28, 0.48))
            colour = scene.lit(wall * scene.uniform(0.78, 1.15), 0.08 if near else 0.5)
            draw_tower(scene, skyline, (left, top, right, street + 0.02), colour, near)
            if not near:
                roofs.append(top)
            left = right + (scene.uniform(0, 0.012) if near else 0)
    skyline.onto(scene.image)
    line = np.full(scene.size, street, np.float32)
    scene.layer(line, scene.lit(rgb(132, 136, 144)), 0.012, 0.3, 0)
    kerb = below(line, scene.size) - below(line + 0.014, scene.size)
    paint(scene.image, kerb, scene.lit(rgb(190, 192, 196)))
    return Land("a city skyline", min(roofs) - 0.03, street, (Region("a city skyline", max(roofs), street),))


def _snow_field(scene: Scene) -> Land:
    start = scene.uniform(0.52, 0.64)
    lines = [scene.rolling(start + 0.12 * i, 0.02 + 0.01 * i, 0.6 + 0.2 * i, 0.2) for i in range(2)]
    top = float(lines[0].min())
    if scene.random.random() < 0.6:
        top = paint_pines(scene, start + 0.02, rows=1, distance=0.4)
    for i, line in enumerate(lines):
        scene.layer(line, scene.lit(SNOW * (0.94 + 0.05 * i), 0.1 - 0.1 * i), 0.008, 0.16, 0.12)
    x, y, sparkle = (uniform(scene.random, low, 1, 60) for low in (0, start + 0.1, 0))
    glints = spots(scene.size, x, y, np.full(60, 0.003, np.float32), sparkle)
    paint(scene.image, np.minimum(0.8 * glints, 1) * below(lines[0], scene.size), rgb(255, 255, 255))
    return Land("a snowy field", top, _bottom(lines[0]), _simple("a snowy field", lines).regions)


def _pine_forest(scene: Scene) -> Land:
    start = scene.uniform(0.54, 0.64)
    peaks = 1.0
    if scene.random.random() < 0.5:
        peaks = float(paint_peaks(scene, start, scene.uniform(0.34, 0.42), 0.5, snow=True).min())
    line = scene.rolling(start + 0.11, 0.012, 1, 0.3)
    snowy = scene.sky.name == "snowy night sky"
    floor, texture = (SNOW * 0.95, 0.01) if snowy else (rgb(94, 146, 78), 0.03)
    scene.layer(scene.rolling(start, 0.008), scene.lit(floor * 0.62, 0.15), texture)
    top = min(peaks, paint_pines(scene, start + 0.03, rows=3, distance=0.5))
    scene.layer(line, scene.lit(floor), texture)
    return Land("a pine forest", top, _bottom(line), (Region("a pine forest", start - 0.04, _bottom(line)),))


def _autumn_trees(scene: Scene) -> Land:
    start = scene.uniform(0.58, 0.68)
    trees = Sketch(scene.size)
    tops: list[float] = []
    for row in range(2):
        for x in np.arange(-0.02, 1.08, 0.11 + 0.06 * row):
            foot = start + 0.02 + 0.05 * row
            height = scene.uniform(0.24, 0.32) * (1 + 0.35 * row)
            leaves = AUTUMN[scene.random.integers(len(AUTUMN))]
            draw_leafy_tree(scene, trees, float(x) + scene.uniform(-0.03, 0.03), foot, height, leaves, 0.3 - 0.3 * row)
            tops.append(foot - height)
    far = scene.rolling(start - 0.17, 0.012, 3, 0.65)
    scene.layer(far, scene.lit(rgb(196, 122, 62), 0.35), 0.07, 0.6)
    line = scene.rolling(start, 0.015, 1, 0.3)
    scene.layer(line, scene.lit(rgb(178, 150, 74)))
    trees.onto(scene.image)
    paint_fallen_leaves(scene, start)
    return Land("autumn trees", min(tops) - 0.03, start + 0.09, (Region("autumn trees", start - 0.12, start),))


def _flower_meadow(scene: Scene) -> Land:
    start = scene.uniform(0.46, 0.58)
    lines = [scene.rolling(start + 0.08 * i, 0.02, 0.8, 0.25) for i in range(2)]
    for i, line in enumerate(lines):
        scene.layer(line, scene.lit(MEADOW * (0.88 + 0.08 * i), 0.2 - 0.2 * i), 0.05)
    ground = _bottom(lines[1])
    paint_flowers(scene, ground)
    return Land("a flower meadow", float(lines[0].min()), ground, (Region("a flower meadow", ground, 1),))


def _road(scene: Scene) -> Land:
    start = scene.uniform(0.5, 0.6)
    far = scene.rolling(start - 0.03, 0.022, 0.9, 0.25)
    scene.layer(far, scene.lit(GRASS * 0.84, 0.3))
    line = np.full(scene.size, start, np.float32)
    scene.layer(line, scene.lit(varied(scene.random, rgb(142, 186, 88), 0.02)), 0.03, 0.25, 0)
    goal, foot = scene.uniform(0.4, 0.6), scene.uniform(0.42, 0.58)
    sketch = Sketch(scene.size)

    def at(side: float, depth: float) -> tuple[float, float]:
        """A point of the road: `side` from -1 to 1 across, `depth` 0 at the horizon, 1 at the bottom."""
        return goal + (foot - goal) * depth + side * (0.012 + 0.3 * depth), start + (1.01 - start) * depth

    for furrow in np.arange(-9, 9.1, 0.75):
        if abs(furrow) > 1.2:
            sketch.polygon([at(furrow, 0.004), at(furrow, 1), at(furrow + 0.22, 1)], scene.lit(rgb(126, 170, 76)))
    sketch.polygon([at(-1.12, 0), at(1.12, 0), at(1.12, 1), at(-1.12, 1)], scene.lit(rgb(196, 186, 150)))
    sketch.polygon([at(-1, 0), at(1, 0), at(1, 1), at(-1, 1)], scene.lit(rgb(106, 108, 116)))
    for dash in 1.6 ** -np.arange(8.0):
        ends = (float(dash), float(dash) * 0.78)
        sketch.polygon([at(-0.03, ends[0]), at(0.03, ends[0]), at(0.03, ends[1]), at(-0.03, ends[1])], scene.lit(SNOW))
    sketch.onto(scene.image)
    return _simple("a road", [line, far], start)


def _canyon(scene: Scene) -> Land:
    start = scene.uniform(0.62, 0.7)
    random, size = scene.random, scene.size
    x, y = grid(size)
    top = 1.0
    for near in range(2):
        line = np.full(size, start + 0.02, np.float32)
        for _ in range(3):
            middle, half = scene.uniform(0, 1), scene.uniform(0.09, 0.2)
            rise = scene.uniform(0.26, 0.4) - 0.1 * near
            inside = half - np.abs(x[0] - middle)
            cliff = 0.7 * np.clip(inside / 0.05, 0, 1) + 0.3 * np.clip(inside / 0.09 + 0.8, 0, 1)
            line = np.minimum(line, start + 0.02 - rise * cliff)
        side = 0.3 * np.clip(np.gradient(line) * size, -0.6, 0.9)
        line = line + scene.rolling(0, 0.006, 5, 0.6)
        top = min(top, float(line.min()))
        height = y + 0.008 * noise(random, size, wide=2)
        strata = 0.08 * np.sin(height * 90) + 0.07 * np.sin(height * 37 + 1)
        cracks = 0.025 * noise(random, size, wide=0.5, tall=4)
        tone = 1.02 + strata + cracks - side[None]
        paint(scene.image, below(line, size), scene.lit(RED_ROCK, 0.3 - 0.26 * near) * tone[..., None])
    line = scene.rolling(start, 0.012, 1, 0.35)
    scene.layer(line, scene.lit(rgb(216, 138, 88)), 0.03, 0.25)
    return Land("a red rock canyon", top, _bottom(line), (Region("a red rock canyon", start - 0.06, 1),))


_PAINTERS: dict[str, Callable[[Scene], Land]] = {
    "green hills": _hills,
    "snowy mountains": lambda scene: _mountains(scene, "snowy mountains", SNOW * 0.97, snow=True),
    "rocky mountains": lambda scene: _mountains(scene, "rocky mountains", rgb(124, 158, 88), snow=False),
    "desert dunes": _dunes,
    "the sea": _sea,
    "a sandy beach": _beach,
    "a city skyline": _city,
    "a snowy field": _snow_field,
    "a pine forest": _pine_forest,
    "a flower meadow": _flower_meadow,
    "a lake": _lake,
    "autumn trees": _autumn_trees,
    "a road": _road,
    "a red rock canyon": _canyon,
}
LANDS = tuple(_PAINTERS)
SNOWY_LANDS = ("snowy mountains", "a snowy field", "a pine forest")


def lands_under(sky: str) -> tuple[str, ...]:
    """The lands that a sky is seen over: it does not snow on flowers."""
    return SNOWY_LANDS if sky == "snowy night sky" else LANDS


def draw_land(random: np.random.Generator, sky: Sky) -> Land:
    """Paint one of the lands over the lower part of the sky's picture."""
    names = lands_under(sky.name)
    return _PAINTERS[names[random.integers(len(names))]](Scene(random, sky.image, sky))
