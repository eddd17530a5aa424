"""Drawn scenes without objects, each with its captions: a land under a sky, a sky alone, or an interior."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from training.grammar import with_article
from training.interiors import COLOURS, INTERIORS, Interior, draw_interior
from training.lands import LANDS, Land, draw_land, lands_under
from training.skies import SKIES, draw_sky, draw_weather
from training.textures import Array, Place, Region

__all__ = ["ALL_PHRASES", "INTERIORS", "LANDS", "SCENES", "SKIES", "Background", "Place", "Region", "draw_background"]

OUTDOORS = 0.7  # of all scenes
SKY_ALONE = 0.15  # of those outdoors


@dataclass(frozen=True)
class Background:
    """A drawn scene without objects."""

    image: Array  # float32 [size, size, 3], 0..1
    phrases: tuple[str, ...]  # captions of the whole, each as good as the other
    regions: tuple[Region, ...]  # what parts show, for captions of a patch of background
    place: Place
    horizon: float | None  # where ground, water or table begins, fraction of height; None where nothing stands
    light: Array  # float32 [3]: colour of the light on objects, 1 = daylight


def draw_background(random: np.random.Generator, size: int) -> Background:
    """Draw one scene. The same state of the generator gives the same scene, at any size."""
    if random.random() >= OUTDOORS:
        return _indoors(draw_interior(random, size))
    sky = draw_sky(random, size)
    if random.random() < SKY_ALONE:
        draw_weather(random, sky.image, sky, horizon=1)
        regions = (Region(sky.name, 0, 1),)
        return Background(_finished(sky.image), _sky_phrases(sky.name), regions, "sky", None, sky.light)
    land = draw_land(random, sky)
    draw_weather(random, sky.image, sky, land.ground)
    phrases = _land_phrases(land.name, sky.name)
    return Background(_finished(sky.image), phrases, _regions(land, sky.name), land.place, land.ground, sky.light)


def _indoors(scene: Interior) -> Background:
    phrases = _interior_phrases(scene.name)
    return Background(_finished(scene.image), phrases, scene.regions, scene.place, scene.horizon, scene.light)


def _finished(image: Array) -> Array:
    return np.clip(image, 0, 1).astype(np.float32, copy=False)


def _regions(land: Land, sky: str) -> tuple[Region, ...]:
    above = (Region(sky, 0, land.top),) if land.top > 0 else ()
    return (*above, *land.regions)


def _named(sky: str) -> str:
    return sky if sky == "northern lights" else with_article(sky)


def _sky_phrases(sky: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((_named(sky), sky)))


_WEATHER = {"rainy sky": "in the rain", "foggy sky": "in the fog", "snowy night sky": "on a snowy night"}


def _land_phrases(land: str, sky: str) -> tuple[str, ...]:
    under = "the northern lights" if sky == "northern lights" else with_article(sky)
    weather = (f"{land} {_WEATHER[sky]}",) if sky in _WEATHER else ()
    return (f"{land} under {under}", f"{land}, {sky}", land, f"{_named(sky)} over {land}", *weather)


def _interior_phrases(name: str) -> tuple[str, ...]:
    if name.startswith("a plain "):
        return name, name.replace("a plain ", "plain ", 1)
    return (name,)


def _distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(phrase for group in groups for phrase in group))


SCENES: tuple[str, ...] = _distinct(
    (
        SKIES,
        LANDS,
        (name for name in INTERIORS if " and " not in name),
        ("a wooden table",),
        (f"{with_article(colour)} wall" for colour in COLOURS),
    )
)
"""What the regions of backgrounds are called."""

ALL_PHRASES: tuple[str, ...] = _distinct(
    (
        LANDS,
        *map(_sky_phrases, SKIES),
        *map(_interior_phrases, INTERIORS),
        ("a wooden table",),
        (f"{with_article(colour)} wall" for colour in COLOURS),
        *(_land_phrases(land, sky) for sky in SKIES for land in lands_under(sky)),
    )
)
"""Everything that the caption of a background or of a region can say."""
