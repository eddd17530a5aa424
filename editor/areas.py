"""Which part of a picture the engine works on: all of it, or, where it is large, a crop around the mask.

A crop and its pasting back share one rectangle of whole pixels, so what lies outside it cannot move or change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from diffusion_engine import UserError
from editor.limits import MAX_WORK_PIXELS
from editor.masks import Mask

_ALIGN = 64  # crops begin and end on multiples of what any model works in, where the picture allows


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels of the picture: left, top inclusive, right, bottom exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def size(self) -> tuple[int, int]:
        return self.right - self.left, self.bottom - self.top

    def holds(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    def cut(self, mask: Mask) -> Mask:
        """The part of a mask [H, W] of the picture that lies inside."""
        return mask[self.top : self.bottom, self.left : self.right]

    def part(self, picture: Image.Image) -> Image.Image:
        """The part of the picture that lies inside."""
        return picture.crop((self.left, self.top, self.right, self.bottom))


def bounds(mask: Mask) -> Box:
    """Around all painted pixels of a mask that has some."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def area_around(painted: Box, picture: tuple[int, int], native: tuple[int, int]) -> Box:
    """What to work on for a mask in these bounds. picture, native: (width, height), of the picture and of what the
    model was made for.

    A picture of up to four times the native area is taken whole. A larger one is cropped to the mask with half its size
    around it as context, and no less than the native size, so that a stroke beside the first needs no new crop.
    """
    width, height = picture
    if width * height <= min(4 * native[0] * native[1], MAX_WORK_PIXELS):
        return Box(0, 0, width, height)
    left, right = _span(painted.left, painted.right, width, native[0])
    top, bottom = _span(painted.top, painted.bottom, height, native[1])
    if (right - left) * (bottom - top) > MAX_WORK_PIXELS:
        left, right, top, bottom = painted.left, painted.right, painted.top, painted.bottom
    box = Box(left, top, right, bottom)
    width, height = box.size
    if width * height > MAX_WORK_PIXELS:
        limit = f"{MAX_WORK_PIXELS / 1e6:.1f} million"
        raise UserError(f"The mask spans {width}x{height} pixels, and {limit} is the limit: paint a smaller part.")
    return box


def _span(begin: int, end: int, length: int, native: int) -> tuple[int, int]:
    """The mask's extent along one axis with context on both sides, moved inside the picture."""
    wanted = min(length, max(native, 2 * (end - begin), end - begin + 2 * _ALIGN))
    start = min(max(0, (begin + end - wanted) // 2), length - wanted)
    start = start // _ALIGN * _ALIGN
    stop = min(length, -(-max(end, start + wanted) // _ALIGN) * _ALIGN)
    return start, stop
