"""How large a picture may be. Apart, so that the command line knows it without loading anything."""

from __future__ import annotations

from diffusion_engine.errors import UserError

MIN_SIDE = 64
MAX_PIXELS = 2048 * 2048


def checked_size(size: object) -> tuple[int, int]:
    """(width, height) as given; raises UserError unless both are whole numbers the engine can work on."""
    if not isinstance(size, tuple | list) or len(size) != 2 or not all(isinstance(s, int) for s in size):
        raise UserError("The size must be two whole numbers, width and height, in pixels.")
    width, height = size
    if min(width, height) < MIN_SIDE:
        raise UserError(f"The picture is {width} x {height} pixels; each side must have at least {MIN_SIDE}.")
    if width * height > MAX_PIXELS:
        limit = MAX_PIXELS / 1e6
        raise UserError(f"The picture is {width} x {height} pixels; scale it to at most {limit:.1f} megapixels first.")
    return width, height
