"""What the drawn scenes are made of: noise, ridges, gradients, soft spots, flat shapes, and the names of their parts.

Positions and lengths are fractions of the picture, so a scene is the same at every size. Pictures are float32
[size, size, 3] from 0 to 1 and are painted in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Array = NDArray[np.floating[Any]]
Place = Literal["land", "sea", "sky", "underwater", "space", "table", "plain"]

NOISE_SIDE = 512  # of the stored noise; an unstretched picture shows half of it
NOISE_FIELDS = 12


@dataclass(frozen=True)
class Region:
    """A band of the picture in which only one thing is seen."""

    phrase: str
    top: float
    bottom: float


def rgb(red: float, green: float, blue: float) -> Array:
    """A colour given from 0 to 255."""
    return np.array((red, green, blue), np.float32) / 255


def varied(random: np.random.Generator, colour: Array, spread: float = 0.03) -> Array:
    """Nearly the same colour."""
    return np.clip(colour + random.normal(0, spread, 3), 0, 1).astype(np.float32)


@lru_cache(maxsize=8)
def grid(size: int) -> tuple[Array, Array]:
    """The pixels' centres: x as a row, y as a column."""
    centres = (np.arange(size, dtype=np.float32) + 0.5) / size
    return centres[None, :], centres[:, None]


def smooth(low: float, high: float, value: Array) -> Array:
    """0 below `low`, 1 above `high`, a soft step between."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def paint(image: Array, mask: Array, colour: Array) -> None:
    """Blend a colour, or a picture of colours, in where the mask [size, size] says."""
    image += mask[..., None] * (colour - image)


def gradient(size: int, colours: Sequence[Array]) -> Array:
    """Colours from the top to the bottom, evenly spread."""
    _, y = grid(size)
    stops = np.linspace(0, 1, len(colours))
    rows = [np.interp(y[:, 0], stops, [colour[channel] for colour in colours]) for channel in range(3)]
    column = np.stack(rows, axis=-1).astype(np.float32)
    return np.repeat(column[:, None], size, axis=1)


@lru_cache(maxsize=1)
def _noise_fields() -> tuple[Image.Image, ...]:
    """Cloudy noise: grids of random values, each twice as fine and about half as strong as the one before."""
    random = np.random.default_rng(7)
    fields: list[Image.Image] = []
    for _ in range(NOISE_FIELDS):
        field = np.zeros((NOISE_SIDE, NOISE_SIDE), np.float32)
        for octave, cells in enumerate((4, 8, 16, 32, 64, 128)):
            lattice = Image.fromarray(random.random((cells, cells), np.float32))
            field += 0.55**octave * np.asarray(lattice.resize((NOISE_SIDE, NOISE_SIDE), Image.Resampling.BICUBIC))
        fields.append(Image.fromarray((field - field.mean()) / field.std()))
    return tuple(fields)


def noise(random: np.random.Generator, size: int, wide: float = 1, tall: float = 1) -> Array:
    """Cloudy noise of mean 0 and deviation 1, its lumps `wide` and `tall` times stretched (at least 0.5)."""
    fields = _noise_fields()
    field = fields[random.integers(len(fields))]
    width, height = NOISE_SIDE / 2 / wide, NOISE_SIDE / 2 / tall
    left, top = random.random(2) * (NOISE_SIDE - width, NOISE_SIDE - height)
    cut = field.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))
    return np.asarray(cut, np.float32)


def receding(pattern: Array, horizon: float) -> Array:
    """A pattern laid on the ground: finer towards the horizon, where it fades out."""
    size = len(pattern)
    _, y = grid(size)
    depth = np.clip((y[:, 0] - horizon) / (1 - horizon), 0, 1)
    rows = np.log1p(depth * 12) / np.log(13) * (size - 1)
    above = rows.astype(np.intp)
    below = np.minimum(above + 1, size - 1)
    part = (rows - above)[:, None].astype(np.float32)
    return (pattern[above] * (1 - part) + pattern[below] * part) * smooth(0, 0.15, depth)[:, None]


def ridge(
    random: np.random.Generator, size: int, height: float, swing: float, waves: float = 1, rough: float = 0.4
) -> Array:
    """A rolling line [size] round a height: waves, each twice as fine and `rough` times as high as the one before."""
    x, _ = grid(size)
    line = np.full(size, height, np.float32)
    for octave in range(5):
        pace = waves * 2**octave * random.uniform(0.75, 1.25)
        line += swing * rough**octave * np.sin(2 * np.pi * (pace * x[0] + random.random()))
    return line


def below(line: Array | float, size: int) -> Array:
    """The mask of what lies below a line [size] or a height."""
    _, y = grid(size)
    mask = np.clip((y - np.asarray(line, np.float32)) * size + 0.5, 0, 1)
    return np.broadcast_to(mask, (size, size))


def spots(size: int, x: Array, y: Array, radius: Array, strength: Array) -> Array:
    """The sum of soft round spots; those smaller than a pixel grow dim instead of vanishing."""
    across, down = grid(size)
    spread = np.maximum(radius, 0.5 / size)
    columns = np.exp(-(((across - x[:, None]) / spread[:, None]) ** 2))
    rows = np.exp(-(((down - y[None, :]) / spread[None, :]) ** 2)) * (strength * (radius / spread) ** 2)
    return (rows.astype(np.float32) @ columns.astype(np.float32)).astype(np.float32)


def disc(size: int, x: float, y: float, radius: float) -> Array:
    """The mask of a round disc."""
    across, down = grid(size)
    return np.clip((radius - np.hypot(across - x, down - y)) * size + 0.5, 0, 1)


def uniform(random: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Random numbers of the pictures' kind."""
    return random.uniform(low, high, count).astype(np.float32)


class Sketch:
    """Flat shapes, drawn oversized and reduced so that edges are smooth.

    The canvas holds red, green, blue and coverage. Its mode has four bands that Pillow averages as they are, so the
    reduced colours come out multiplied by their coverage.
    """

    def __init__(self, size: int) -> None:
        self._oversize = 3 if size <= 256 else 2
        self._side = size * self._oversize
        self._canvas = Image.new("CMYK", (self._side, self._side))
        self._pen = ImageDraw.Draw(self._canvas)

    def polygon(self, points: Sequence[tuple[float, float]], colour: Array) -> None:
        self._pen.polygon([(x * self._side, y * self._side) for x, y in points], fill=self._fill(colour))

    def box(self, left: float, top: float, right: float, bottom: float, colour: Array) -> None:
        left, top, right, bottom = (edge * self._side for edge in (left, top, right, bottom))
        self._pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), fill=self._fill(colour))

    def ellipse(self, x: float, y: float, width: float, height: float, colour: Array) -> None:
        """An ellipse round its centre; `width` and `height` are its half axes."""
        edges = (x - width, y - height, x + width, y + height)
        self._pen.ellipse([edge * self._side for edge in edges], fill=self._fill(colour))

    def line(self, start: tuple[float, float], end: tuple[float, float], width: float, colour: Array) -> None:
        ends = [(x * self._side, y * self._side) for x, y in (start, end)]
        self._pen.line(ends, fill=self._fill(colour), width=max(1, round(width * self._side)))

    def onto(self, image: Array, opacity: float = 1) -> None:
        """Lay the shapes over a picture."""
        layer = np.asarray(self._canvas.reduce(self._oversize), np.float32) / 255
        image *= 1 - opacity * layer[..., 3:]
        image += opacity * layer[..., :3]

    @staticmethod
    def _fill(colour: Array) -> tuple[int, int, int, int]:
        red, green, blue = (max(0, min(255, round(255 * value))) for value in colour.tolist())
        return red, green, blue, 255
