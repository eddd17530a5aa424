"""What stands where: chooses objects for a background and places them, as numbers that a compositor draws.

Most pictures have one object, large enough to learn its shape from; some have two or three, or none. Objects are put
where they are found (fish in water, balloons in the air), but not always, so that "a cat in outer space" works.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from training.backgrounds import Place
from training.colours import PAINTS
from training.objects import Object, objects

HOW_MANY = (0.10, 0.66, 0.17, 0.07)  # 0, 1, 2, 3 objects
SIZES = {1: (0.4, 0.95), 2: (0.22, 0.5), 3: (0.18, 0.34)}  # longest side as a fraction of the frame's
EVERYDAY_WEIGHT = 3.0
OUT_OF_PLACE = 0.15
RECOLOURED = 0.7
ALIKE = 0.3  # two or three of the same
CLOSE_UP = 0.5  # a window of the background instead of all of it
FOUND: dict[Place, tuple[str, ...]] = {
    "sky": ("air",),
    "space": ("air",),
    "sea": ("water", "air"),
    "underwater": ("water",),
    "land": ("ground", "ground", "air"),
    "table": ("ground",),
    "plain": ("ground", "air", "water"),
}


@dataclass(frozen=True)
class Placed:
    """An object in the picture. Lengths are fractions of the frame."""

    thing: Object
    paint: str | None  # None: as it is
    x: float  # centre
    y: float
    size: float  # longest side
    degrees: float
    mirrored: bool
    stands: bool  # on something, so it casts a shadow

    @property
    def colour(self) -> str:
        return self.paint or self.thing.colour


@dataclass(frozen=True)
class Layout:
    """A window of a background, and objects from back to front. Window in fractions of the background."""

    left: float
    top: float
    side: float
    objects: tuple[Placed, ...]


class Arranger:
    """Draws layouts. things: what to choose from. smaller: the smallest objects, as a share of those of SIZES."""

    def __init__(self, things: tuple[Object, ...] | None = None, smaller: float = 1.0) -> None:
        self._smaller = smaller
        self._things = things or objects()
        self._weights = np.array([EVERYDAY_WEIGHT if thing.everyday else 1.0 for thing in self._things])

    def arrange(self, random: np.random.Generator, place: Place, horizon: float | None) -> Layout:
        """A layout for a background; `horizon` as a fraction of its height."""
        side = random.uniform(0.5, 1) if random.random() < CLOSE_UP else 1.0
        left, top = random.uniform(0, 1 - side, 2)
        ground = None if horizon is None else (horizon - top) / side
        count = int(random.choice(4, p=HOW_MANY))
        columns = random.permutation(np.linspace(0, 1, 2 * count + 1)[1::2])  # centres of equal parts
        alike = count > 1 and random.random() < ALIKE
        chosen: list[Placed] = []
        for column in columns:
            thing, paint = self._choose(random, place)
            if alike and chosen:
                thing, paint = chosen[0].thing, chosen[0].paint
            chosen.append(self._put(random, thing, paint, float(column), count, ground))
        return Layout(float(left), float(top), float(side), tuple(sorted(chosen, key=lambda put: put.y + put.size / 2)))

    def _choose(self, random: np.random.Generator, place: Place) -> tuple[Object, str | None]:
        found = str(random.choice(FOUND[place]))
        anywhere = random.random() < OUT_OF_PLACE
        weights = self._weights * [anywhere or thing.place == found for thing in self._things]
        thing = self._things[int(random.choice(len(weights), p=weights / weights.sum()))]
        painted = thing.recolour and random.random() < RECOLOURED
        return thing, str(random.choice(PAINTS)) if painted else None

    def _put(
        self,
        random: np.random.Generator,
        thing: Object,
        paint: str | None,
        column: float,
        count: int,
        ground: float | None,
    ) -> Placed:
        low, high = SIZES[count]
        size = float(np.exp(random.uniform(np.log(low * self._smaller), np.log(high))))
        spread = 0.14 if count == 1 else 0.05
        x = float(np.clip(column + random.normal(0, spread), 0.4 * size, 1 - 0.4 * size))
        stands = ground is not None and ground < 0.9 and thing.place != "air"
        if stands:
            assert ground is not None
            bottom = random.uniform(max(min(ground + 0.1, 0.9), 0.1), 0.98)
        elif ground is not None and ground > size / 2:
            bottom = random.uniform(min(size, ground), max(ground, size))  # in the air above it
        else:
            bottom = random.uniform(size, 1) if size < 1 else 1.0
        return Placed(
            thing=thing,
            paint=paint,
            x=x,
            y=float(bottom - size / 2),
            size=size,
            degrees=float(random.uniform(-12, 12)) if random.random() < 0.3 else 0.0,
            mirrored=bool(random.random() < 0.5),
            stands=bool(stands),
        )
