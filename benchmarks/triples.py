"""Fixed cases of scene, mask and prompt for measuring edits against the dense pass; none of them picked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.colours import PAINTS
from training.grammar import with_article
from training.mask_shapes import Lasso, Shape, Stroke, draw_mask
from training.objects import objects

SIZE, STEPS = 512, 20
SEED = 30_000_000
AREAS = (0.01, 0.05, 0.10, 0.30)
SCENES = (
    "desert dunes under a clear blue sky",
    "green hills under a starry night sky",
    "the sea under an orange sunset sky",
    "snowy mountains under a grey sky",
    "a flower meadow under a blue sky",
    "a plain blue background",
    "a beach under a pink sunrise sky",
    "a pine forest under a cloudy sky",
    "rocky mountains under a starry night sky",
    "a city at night",
    "a red brick wall",
    "underwater",
)
Outline = Literal["blob", "stroke"]


@dataclass(frozen=True)
class Triple:
    """One case. area: wanted share of the picture's. thing: a name that the judge knows; colour: None for its own."""

    number: int
    scene: str
    thing: str
    colour: str | None
    area: float
    outline: Outline

    @property
    def words(self) -> str:
        return with_article(f"{self.colour} {self.thing}" if self.colour else self.thing)

    @property
    def seed(self) -> int:
        """Of the edit; the scene has another."""
        return SEED + self.number

    @property
    def mask(self) -> NDArray[np.uint8]:
        """uint8 [SIZE, SIZE], 255 inside."""
        draw = _blob if self.outline == "blob" else _stroke
        shape = draw(np.random.default_rng(self.seed), self.area)
        return np.uint8(255) * np.asarray(draw_mask([shape], (SIZE, SIZE)), np.uint8)


def triples(scenes: int, areas: Sequence[float] = AREAS) -> list[Triple]:
    """One case per area and scene, in turns a blob and a stroke; scenes go round after len(SCENES)."""
    random = np.random.default_rng(SEED)
    everyday = [thing for thing in objects() if thing.everyday]
    cases: list[Triple] = []
    for index in range(scenes):
        for place, area in enumerate(areas):
            thing = everyday[int(random.integers(len(everyday)))]
            colour = str(random.choice(PAINTS)) if thing.recolour else None
            outline: Outline = "blob" if (index + place) % 2 == 0 else "stroke"
            scene = SCENES[index % len(SCENES)]
            cases.append(Triple(len(cases), scene, thing.name, colour, area, outline))
    return cases


def _blob(random: np.random.Generator, area: float) -> Shape:
    """A round outline with a few soft waves, wholly inside the picture."""
    angle = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    waves = [random.normal(0, 0.25 / k) * np.cos(k * angle + random.uniform(0, 2 * np.pi)) for k in range(2, 6)]
    radius = np.clip(1 + sum(waves), 0.5, 1.5)
    outline = np.stack((np.cos(angle), np.sin(angle)), 1) * radius[:, None]
    outline *= (area / (0.5 * np.mean(radius**2) * 2 * np.pi)) ** 0.5  # its area is half the integral of r^2
    low, high = -outline.min(0), 1 - outline.max(0)
    points = (outline + low + (high - low) * random.random(2)) * SIZE
    return Lasso(tuple((round(x), round(y)) for x, y in points))


def _stroke(random: np.random.Generator, area: float) -> Shape:
    """A round brush along a bent line, as wide as gives the area."""
    time = np.linspace(0, 1, 24)[:, None]
    reach = min(0.35, 1.1 * area**0.5)
    begin, bend, end = random.uniform(-reach, reach, (3, 2))
    line = (1 - time) ** 2 * begin + 2 * time * (1 - time) * bend + time**2 * end
    middle = 0.5 + (0.4 - reach) * random.uniform(-1, 1, 2)
    points = tuple((round(x), round(y)) for x, y in (middle + line) * SIZE)
    low, high = 1, SIZE
    while low < high:
        width = (low + high) // 2
        if np.asarray(draw_mask([Stroke(width, points)], (SIZE, SIZE))).mean() < area:
            low = width + 1
        else:
            high = width
    return Stroke(low, points)
