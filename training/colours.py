"""The colours that captions name, and painting a cut-out in another one.

A cut-out has one dominant hue; only pixels near it are moved, so that a blue car keeps its windows and a pink tulip
its leaf. Saturation and value keep the shading.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

# 0..255, for plain backgrounds and walls
RGB = {
    "red": (205, 40, 45),
    "orange": (238, 135, 40),
    "yellow": (245, 210, 60),
    "green": (70, 160, 75),
    "blue": (55, 110, 205),
    "purple": (125, 70, 175),
    "pink": (240, 150, 185),
    "white": (240, 240, 238),
    "black": (35, 35, 40),
    "grey": (135, 138, 142),
    "brown": (125, 85, 55),
    "turquoise": (60, 185, 185),
}
# Pillow's hue, 0..255
HUES = {"red": 250, "orange": 17, "yellow": 34, "green": 85, "blue": 152, "purple": 192, "pink": 228}
PAINTS = (*HUES, "white", "black")  # what a recolourable cut-out can be painted in
ALSO_CALLED = {"grey": "gray", "purple": "violet"}
NEAR_HUE = 30
BIN = 4


def recoloured(cutout: Image.Image, colour: str) -> Image.Image:
    """An RGBA cut-out in one of PAINTS."""
    hue, saturation, value = (np.asarray(band, np.int16) for band in cutout.convert("RGB").convert("HSV").split())
    dominant = dominant_hue(cutout)
    near = hue_distance(hue, dominant) < NEAR_HUE
    if colour == "white":
        painted = hue, saturation // 12, np.minimum(255, 150 + value // 2)
    elif colour == "black":
        painted = hue, saturation // 8, value // 3
    elif colour == "pink":
        painted = (hue + HUES[colour] - dominant) % 256, saturation * 55 // 100, np.minimum(255, value + 40)
    elif colour == "yellow":
        painted = (hue + HUES[colour] - dominant) % 256, saturation, np.minimum(255, value + 30)
    else:
        painted = (hue + HUES[colour] - dominant) % 256, saturation, value
    bands = [
        Image.fromarray(np.where(near, new, old).astype(np.uint8))
        for new, old in zip(painted, (hue, saturation, value), strict=True)
    ]
    picture = Image.merge("HSV", bands).convert("RGB")
    picture.putalpha(cutout.getchannel("A"))
    return picture


def dominant_hue(cutout: Image.Image) -> int:
    """The hue, 0..255, that most of the colour of an RGBA cut-out lies around."""
    hue, saturation, value = (np.asarray(band, np.float32) for band in cutout.convert("RGB").convert("HSV").split())
    weight = np.asarray(cutout.getchannel("A"), np.float32) * saturation * value
    histogram = np.bincount((hue // BIN).astype(int).ravel(), weight.ravel(), 256 // BIN)
    smooth = sum(np.roll(histogram, shift) for shift in (-2, -1, 0, 1, 2))
    return int(np.argmax(smooth)) * BIN + BIN // 2


def hue_distance(hue: np.ndarray, other: int) -> np.ndarray:
    """Along the circle of 256 hues."""
    return np.abs((hue - other + 128) % 256 - 128)
