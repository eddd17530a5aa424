"""Shapes that a person paints a mask with, in pixels of the picture. A pixel is painted or it is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from PIL import Image, ImageDraw

Point = tuple[int, int]


class Shape(Protocol):
    def draw(self, canvas: ImageDraw.ImageDraw) -> None: ...


@dataclass(frozen=True)
class Stroke:
    """A round brush, `width` pixels wide, drawn through the points."""

    width: int
    points: tuple[Point, ...]

    def draw(self, canvas: ImageDraw.ImageDraw) -> None:
        canvas.line(self.points, fill=1, width=self.width)
        for point in self.points:
            canvas.circle(point, self.width / 2, fill=1)


@dataclass(frozen=True)
class Lasso:
    """The inside of an outline."""

    outline: tuple[Point, ...]

    def draw(self, canvas: ImageDraw.ImageDraw) -> None:
        canvas.polygon(self.outline, fill=1)


@dataclass(frozen=True)
class Ellipse:
    """`box`: left, top, right, bottom."""

    box: tuple[int, int, int, int]

    def draw(self, canvas: ImageDraw.ImageDraw) -> None:
        canvas.ellipse(self.box, fill=1)


def draw_mask(shapes: Iterable[Shape], size: tuple[int, int]) -> Image.Image:
    """A picture of 1 bit per pixel, white inside any of the shapes. size: width, height."""
    mask = Image.new("1", size)
    canvas = ImageDraw.Draw(mask)
    for shape in shapes:
        shape.draw(canvas)
    return mask
