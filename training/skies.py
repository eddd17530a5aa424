"""Skies and weather: gradients with clouds, sun, moon, stars, northern lights, rain, fog and snow."""

from dataclasses import dataclass

import numpy as np

from training.textures import (
    Array,
    Sketch,
    disc,
    gradient,
    grid,
    noise,
    paint,
    rgb,
    ridge,
    smooth,
    spots,
    uniform,
    varied,
)

DAYLIGHT = np.ones(3, np.float32)
DULL = rgb(215, 220, 228)
WARM = rgb(255, 228, 208)
DUSK = rgb(215, 190, 228)
NIGHT = rgb(150, 162, 212)


@dataclass(frozen=True)
class _Style:
    colours: tuple[Array, Array, Array]  # top, middle, bottom of the picture
    light: Array
    clouds: tuple[float, Array] | None = None  # how many, and their colour
    sun: bool = False
    stars: int = 0


_STYLES = {
    "clear blue sky": _Style((rgb(58, 132, 222), rgb(130, 190, 242), rgb(205, 230, 247)), DAYLIGHT),
    "blue sky with white clouds": _Style(
        (rgb(66, 140, 226), rgb(140, 194, 242), rgb(208, 230, 246)), DAYLIGHT, (1, rgb(255, 255, 255))
    ),
    "orange sunset sky": _Style(
        (rgb(96, 78, 140), rgb(243, 138, 74), rgb(255, 214, 128)), WARM, (0.45, rgb(255, 176, 130)), sun=True
    ),
    "pink sunrise sky": _Style(
        (rgb(134, 156, 216), rgb(243, 172, 194), rgb(255, 222, 202)), WARM, (0.45, rgb(255, 214, 220)), sun=True
    ),
    "starry night sky": _Style((rgb(8, 11, 38), rgb(22, 31, 82), rgb(50, 62, 122)), NIGHT, stars=190),
    "night sky with a full moon": _Style((rgb(9, 14, 42), rgb(24, 36, 88), rgb(56, 70, 124)), NIGHT, stars=70),
    "grey cloudy sky": _Style(
        (rgb(122, 130, 140), rgb(164, 171, 179), rgb(198, 203, 208)), DULL, (1.5, rgb(222, 226, 231))
    ),
    "purple dusk sky": _Style(
        (rgb(48, 34, 102), rgb(126, 76, 158), rgb(228, 148, 176)), DUSK, (0.4, rgb(176, 112, 176)), stars=25
    ),
    "northern lights": _Style((rgb(6, 14, 40), rgb(12, 40, 64), rgb(26, 64, 82)), NIGHT, stars=90),
    "rainy sky": _Style(
        (rgb(86, 98, 114), rgb(122, 135, 150), rgb(156, 167, 178)), DULL * 0.86, (1.4, rgb(138, 148, 162))
    ),
    "foggy sky": _Style((rgb(196, 203, 209), rgb(212, 217, 221), rgb(222, 226, 228)), DULL),
    "snowy night sky": _Style((rgb(22, 28, 62), rgb(48, 58, 104), rgb(84, 96, 146)), NIGHT, (0.7, rgb(66, 76, 122))),
}
SKIES = tuple(_STYLES)


@dataclass(frozen=True)
class Sky:
    """A painted sky, and what the land below it must know."""

    name: str
    image: Array
    light: Array
    haze: Array  # the colour of far things

    @property
    def night(self) -> bool:
        return self.light is NIGHT


def draw_sky(random: np.random.Generator, size: int) -> Sky:
    """Fill a picture with one of the skies."""
    name = SKIES[random.integers(len(SKIES))]
    style = _STYLES[name]
    image = gradient(size, [varied(random, colour, 0.02) for colour in style.colours])
    haze = image[int(size * 0.55), 0].copy()
    if style.stars:
        _stars(random, image, style.stars)
    if name == "starry night sky":
        _milky_way(random, image)
    if name == "northern lights":
        _northern_lights(random, image)
    if name == "night sky with a full moon":
        _moon(random, image)
    if style.sun and random.random() < 0.75:
        _sun(random, image)
    if name in ("grey cloudy sky", "rainy sky"):
        paint(image, 0.5 * smooth(-1.2, 1.6, noise(random, size, wide=2.2)), haze * 1.1)
    if style.clouds and (style.clouds[0] >= 0.7 or random.random() < 0.7):
        draw_clouds(random, image, *style.clouds)
    return Sky(name, image, style.light, haze)


def draw_weather(random: np.random.Generator, image: Array, sky: Sky, horizon: float) -> None:
    """What the sky does to everything in front of it."""
    size = len(image)
    _, y = grid(size)
    if sky.name == "rainy sky":
        image += 0.12 * (sky.haze - image)
        _rain(random, image)
    elif sky.name == "foggy sky":
        thickness = random.uniform(0.5, 0.72) * np.exp(-((np.maximum(y - horizon, 0) / 0.3) ** 2))
        drift = 1 + 0.08 * noise(random, size, wide=3)
        paint(image, np.clip(thickness * drift, 0, 0.92), sky.haze)
    elif sky.name == "snowy night sky":
        count = 170
        radius = 0.003 + 0.006 * uniform(random, 0, 1, count) ** 3
        flakes = spots(size, uniform(random, 0, 1, count), uniform(random, 0, 1, count), radius, np.ones_like(radius))
        paint(image, np.minimum(flakes, 1) * 0.9, rgb(240, 244, 255))


def draw_clouds(random: np.random.Generator, image: Array, amount: float, colour: Array, low: float = 0.5) -> None:
    """Fluffy clouds with soft undersides, above the height `low`."""
    size = len(image)
    x: list[Array] = []
    y: list[Array] = []
    radius: list[Array] = []
    for _ in range(max(1, round(amount * random.uniform(3.5, 6.5)))):
        puffs = int(random.integers(5, 10))
        width = random.uniform(0.09, 0.2)
        along = np.linspace(-1, 1, puffs, dtype=np.float32)
        puff = width * (0.2 + 0.22 * (1 - along**2)) * uniform(random, 0.7, 1.35, puffs)
        x.append(random.uniform(0, 1) + along * width)
        y.append(random.uniform(0.03, low) - puff * uniform(random, 0.3, 0.8, puffs))
        radius.append(puff)
    sizes = np.concatenate(radius)
    field = spots(size, np.concatenate(x), np.concatenate(y), sizes, np.ones_like(sizes))
    field += 0.1 * noise(random, size, wide=0.6, tall=0.6)
    shift = max(1, round(size * 0.03))
    underside = smooth(0.05, 0.6, field - np.roll(field, -shift, axis=0))
    body = colour * (1 - 0.14 * underside[..., None] * (1 - rgb(120, 140, 190)))
    paint(image, smooth(0.34, 0.56, field), body)


def _stars(random: np.random.Generator, image: Array, count: int) -> None:
    x, y = uniform(random, 0, 1, count), uniform(random, 0, 1, count)
    glory = uniform(random, 0, 1, count) ** 4
    image += spots(len(image), x, y, 0.0022 + 0.0035 * glory, 0.55 + 0.6 * glory)[..., None]
    np.clip(image, 0, 1, out=image)


def _milky_way(random: np.random.Generator, image: Array) -> None:
    x, y = grid(len(image))
    lean, height = random.uniform(-0.9, 0.9), random.uniform(0.15, 0.45)
    band = np.exp(-(((y - height - lean * (x - 0.5)) / 0.14) ** 2))
    paint(image, band * np.clip(0.24 + 0.12 * noise(random, len(image)), 0, 0.6), rgb(146, 146, 214))


def _northern_lights(random: np.random.Generator, image: Array) -> None:
    size = len(image)
    _, y = grid(size)
    for colour in (rgb(120, 90, 220), rgb(70, 220, 190), rgb(90, 240, 150)):
        foot = ridge(random, size, random.uniform(0.26, 0.46), 0.07, waves=0.7, rough=0.45)[None]
        rays = np.clip(0.62 + 0.25 * noise(random, size, wide=0.6, tall=12), 0, 1)
        curtain = np.exp(-np.clip(foot - y, 0, None) / 0.16) * smooth(-0.03, 0.01, foot - y)
        paint(image, curtain * rays * 0.75, varied(random, colour))


def _moon(random: np.random.Generator, image: Array) -> None:
    size = len(image)
    x, y, radius = random.uniform(0.12, 0.88), random.uniform(0.12, 0.3), random.uniform(0.055, 0.09)
    _halo(image, x, y, radius * 3.2, 0.35, rgb(190, 205, 245))
    seas = np.clip(noise(random, size, wide=0.5, tall=0.5), 0, 1.5)[..., None] * 0.07
    paint(image, disc(size, x, y, radius), rgb(250, 246, 222) * (1 - seas))


def _sun(random: np.random.Generator, image: Array) -> None:
    x, y, radius = random.uniform(0.15, 0.85), random.uniform(0.3, 0.5), random.uniform(0.05, 0.085)
    _halo(image, x, y, radius * 4, 0.55, rgb(255, 226, 160))
    paint(image, disc(len(image), x, y, radius), rgb(255, 244, 206))


def _halo(image: Array, x: float, y: float, radius: float, strength: float, colour: Array) -> None:
    across, down = grid(len(image))
    paint(image, strength * np.exp(-((across - x) ** 2 + (down - y) ** 2) / radius**2), colour)


def _rain(random: np.random.Generator, image: Array) -> None:
    streaks = Sketch(len(image))
    lean = random.uniform(-0.35, 0.35)
    drops = (uniform(random, low, high, 190) for low, high in ((-0.1, 1.1), (-0.1, 1), (0.03, 0.09)))
    for x, y, length in zip(*drops, strict=True):
        streaks.line((x, y), (x + lean * length, y + length), 0.003, rgb(224, 232, 242))
    streaks.onto(image, 0.42)
