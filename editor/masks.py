"""Mask rules, in pixels: read, grow, shrink, harden and feather. White (255) may change, black (0) may not.

All functions take and return uint8 arrays [H, W]; none changes its argument.
"""

from __future__ import annotations

import math
import os

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diffusion_engine import UserError
from editor.components import peak_of_component
from editor.files import label
from editor.images import decode
from editor.pixel_formats import eight_bit, split_alpha, turn_upright

Mask = NDArray[np.uint8]

HARD_THRESHOLD = 128
_OPAQUE = 254  # anti-aliasing leaves 254 where 255 was meant, and the old picture would shimmer through
_JPEG_NOISE = 16  # JPEG leaves faint specks around edges, and each speck would become an edit
_ONE_COLOUR = 8  # levels: strokes of one colour differ by so much after a browser's premultiplied canvas


def read_mask(source: str | os.PathLike[str] | bytes | Image.Image, size: tuple[int, int]) -> Mask:
    """The edit mask from a file, its bytes, or a picture; `size` is (width, height) of the picture it belongs to.

    Grey levels are used as they are, colours by their brightness. Where transparency carries the strokes and colour
    says nothing (strokes of one colour on a transparent layer) the alpha is the mask. Raises UserError if the file
    is no picture or has another size.
    """
    if isinstance(source, Image.Image):
        image, source_format, name = turn_upright(source), "", "The mask"
    else:
        decoded = decode(source, "The mask")
        image, source_format = decoded.image, decoded.source_format
        name = "The mask" if isinstance(source, bytes) else f"The mask {label(source)}"
    if image.size != size:
        raise UserError(
            f"{name} is {image.width}x{image.height} but the picture is {size[0]}x{size[1]}: "
            "make the mask the size of the picture."
        )
    mask = _strokes(image, name)
    if source_format == "JPEG":
        mask[mask < _JPEG_NOISE] = 0
        mask[mask > 255 - _JPEG_NOISE] = 255
    return mask


def placed(part: bytes, corner: tuple[int, int], size: tuple[int, int]) -> Mask:
    """A mask of the size (width, height) from the file of its painted part, whose left top is at `corner`.

    Raises UserError if the file is no picture or the part does not fit.
    """
    levels = np.array(decode(part, "The mask").image.convert("L"))
    (left, top), (height, width) = corner, levels.shape
    if left < 0 or top < 0 or left + width > size[0] or top + height > size[1]:
        raise UserError("The mask lies outside the picture: paint it again.")
    mask = np.zeros((size[1], size[0]), np.uint8)
    mask[top : top + height, left : left + width] = levels
    return mask


def is_empty(mask: Mask) -> bool:
    """True if nothing at all is painted."""
    return not mask.any()


def harden(mask: Mask) -> Mask:
    """Only 0 and 255: painted where the mask is 128 or more. A connected area that is fainter than that everywhere
    keeps its strongest pixels, so that no stroke vanishes without a word."""
    peak = peak_of_component(mask > 0, mask)
    return np.where((mask > 0) & (mask >= np.minimum(peak, HARD_THRESHOLD)), 255, 0).astype(np.uint8)


def grow(mask: Mask, px: float) -> Mask:
    """Every painted pixel becomes a disc of radius `px` (pixels whose centres are at most so far); grey levels spread
    by the maximum. Negative shrinks by the same disc; the picture's border does not eat into the mask."""
    if px < 0:
        return 255 - grow(255 - mask, -px)
    radius = math.floor(px)
    rows, columns = _box(mask > 0, radius)
    spread, spread_by = mask[rows, columns], 0  # sideways, as far as the disc reaches so far from its middle row
    height, width = spread.shape
    discs = spread.copy()
    for down in range(min(radius, height - 1), -1, -1):
        half_width = min(math.isqrt(math.floor(px * px - down * down)), width)
        while spread_by < half_width:
            spread, spread_by = _spread_by_one(spread), spread_by + 1
        np.maximum(discs[down:], spread[: height - down], out=discs[down:])
        np.maximum(discs[: height - down], spread[down:], out=discs[: height - down])
    grown = np.zeros_like(mask)
    grown[rows, columns] = discs
    return grown


def feather(mask: Mask, px: float) -> Mask:
    """The blend mask: a ramp of `px` pixels inside the edit mask, from its outline (faint) to opaque; 0 is a hard edge.

    It is never wider than the mask, and falls off only towards pixels that are not painted, not towards the picture's
    border. Grey levels of the mask scale the ramp. In every connected area the strongest pixel is opaque: a stroke
    thinner than the ramp is visible, and a dab of one pixel shows fully.
    """
    inside = mask > 0
    rows, columns = _box(inside, 1)
    inside, opacity = inside[rows, columns], mask[rows, columns].astype(np.float32)
    if px > 0:
        opacity *= _distance_to_outside(inside, px + 1)
    peak = peak_of_component(inside, opacity)
    blend = np.rint(255 * opacity / np.maximum(peak, 1)).astype(np.uint8)
    blend[blend >= _OPAQUE] = 255
    whole = np.zeros_like(mask)
    whole[rows, columns] = blend
    return whole


def _strokes(image: Image.Image, name: str) -> Mask:
    colour, alpha = split_alpha(image)
    try:
        colour, _ = eight_bit(colour)
    except ValueError as error:
        raise UserError(f"{name} cannot be used because {error}: save it as 8-bit PNG.") from error
    levels = np.array(colour.convert("L"))
    if alpha is None:
        return levels
    opacity = np.array(alpha)
    visible = opacity >= max(int(opacity.max()) / 2, 1)
    shades = np.asarray(colour.convert("RGB"))[visible]
    if opacity.min() < 255 and (len(shades) == 0 or np.ptp(shades, axis=0).max() <= _ONE_COLOUR):
        return opacity
    return (levels.astype(np.uint16) * opacity // 255).astype(np.uint8)


def _box(inside: NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Rows and columns that hold all painted pixels and `margin` more; nothing of an empty mask."""
    painted_rows, painted_columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    return _span(painted_rows, margin), _span(painted_columns, margin)


def _span(places: NDArray[np.int64], margin: int) -> slice:
    if len(places) == 0:
        return slice(0, 0)
    return slice(max(int(places[0]) - margin, 0), int(places[-1]) + 1 + margin)


def _spread_by_one(mask: Mask) -> Mask:
    """Each pixel becomes the maximum of itself and its left and right neighbour."""
    wider = mask.copy()
    np.maximum(wider[:, 1:], mask[:, :-1], out=wider[:, 1:])
    np.maximum(wider[:, :-1], mask[:, 1:], out=wider[:, :-1])
    return wider


def _distance_to_outside(inside: NDArray[np.bool_], limit: float) -> NDArray[np.float32]:
    """Exact Euclidean distance of each pixel to the nearest one outside, at most `limit`: 0 outside, 1 at the outline.

    First along the columns, then the least over the rows of (column distance)^2 + (sideways offset)^2. Offsets beyond
    the limit cannot matter, which bounds the work by the ramp's width.
    """
    height, width = inside.shape
    reach = math.ceil(limit)
    squares = np.uint16 if 2 * reach * reach < 2**16 else np.uint32  # half the memory traffic for usual ramps
    row = np.arange(height, dtype=np.int32)[:, None]
    above = np.maximum.accumulate(np.where(inside, -reach, row), axis=0)
    below = np.minimum.accumulate(np.where(inside, height + reach, row)[::-1], axis=0)[::-1]
    column = np.minimum(np.minimum(row - above, below - row), reach).astype(squares)
    column *= column
    nearest = column.copy()
    for offset in range(1, min(reach, width)):
        moved = column + squares(offset * offset)
        np.minimum(nearest[:, offset:], moved[:, :-offset], out=nearest[:, offset:])
        np.minimum(nearest[:, :-offset], moved[:, offset:], out=nearest[:, :-offset])
    return np.minimum(np.sqrt(nearest, dtype=np.float32), np.float32(limit))
