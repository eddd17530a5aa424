"""Layouts: repeatable, in the frame, on the ground or in the air, and mostly where a thing is found."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from tests.training.conftest import Drawn
from training.backgrounds import Place
from training.colours import PAINTS
from training.layouts import FOUND, HOW_MANY, SIZES, Arranger, Layout
from training.objects import objects

HORIZONS: dict[Place, float | None] = {"land": 0.6, "sea": 0.5, "table": 0.65}


@cache
def many(place: Place) -> tuple[Layout, ...]:
    random, arranger = np.random.default_rng(3), Arranger()
    return tuple(arranger.arrange(random, place, HORIZONS.get(place)) for _ in range(800))


def test_the_same_generator_gives_the_same_layouts() -> None:
    first, again, other = ([Arranger().arrange(random, "land", 0.6) for _ in range(30)] for random in generators())
    assert first == again
    assert first != other


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in (1, 1, 2)]


@pytest.mark.parametrize("place", FOUND)
def test_windows_lie_in_the_background(place: Place) -> None:
    for layout in many(place):
        assert 0.5 <= layout.side <= 1
        assert 0 <= layout.left <= 1 - layout.side + 1e-9 and 0 <= layout.top <= 1 - layout.side + 1e-9
    assert 0.4 < np.mean([layout.side == 1 for layout in many(place)]) < 0.6


@pytest.mark.parametrize("place", FOUND)
def test_how_many_objects_there_are(place: Place) -> None:
    counts = Counter(len(layout.objects) for layout in many(place))
    for count, share in enumerate(HOW_MANY):
        assert abs(counts[count] / len(many(place)) - share) < 0.05


@pytest.mark.parametrize("place", FOUND)
def test_objects_lie_in_the_frame_mostly(place: Place) -> None:
    def seen(centre: float, size: float) -> float:
        return (min(1, centre + size / 2) - max(0, centre - size / 2)) / size

    shares = [seen(put.x, put.size) * seen(put.y, put.size) for layout in many(place) for put in layout.objects]
    assert np.mean(shares) > 0.95
    assert np.mean(np.array(shares) > 0.8) > 0.9
    assert min(shares) > 0.1


@pytest.mark.parametrize("place", FOUND)
def test_sizes_go_with_their_number(place: Place) -> None:
    for layout in many(place):
        for put in layout.objects:
            low, high = SIZES[len(layout.objects)]
            assert low <= put.size <= high


def test_smaller_objects_for_larger_frames() -> None:
    random, arranger = np.random.default_rng(3), Arranger(smaller=0.5)
    layouts = [arranger.arrange(random, "land", 0.6) for _ in range(400)]
    for count, (low, high) in SIZES.items():
        sizes = [put.size for layout in layouts if len(layout.objects) == count for put in layout.objects]
        assert 0.5 * low <= min(sizes) < 0.7 * low and 0.9 * high < max(sizes) <= high


@pytest.mark.parametrize("place", ["land", "sea", "table"])
def test_what_stands_stands_below_the_horizon(place: Place) -> None:
    horizon = HORIZONS[place]
    assert horizon is not None
    standing = [(layout, put) for layout in many(place) for put in layout.objects if put.stands]
    assert len(standing) > 100
    for layout, put in standing:
        ground = (horizon - layout.top) / layout.side
        assert put.thing.place != "air"
        assert put.y + put.size / 2 > ground
        assert put.y + put.size / 2 <= 0.98 + 1e-9


@pytest.mark.parametrize("place", ["sky", "space", "underwater", "plain"])
def test_nothing_stands_where_there_is_no_ground(place: Place) -> None:
    assert not any(put.stands for layout in many(place) for put in layout.objects)


def test_things_of_the_air_fly_above_the_ground() -> None:
    for layout in many("land"):
        ground = (0.6 - layout.top) / layout.side
        for put in layout.objects:
            if put.thing.place == "air" and ground > put.size:
                assert put.y + put.size / 2 <= ground


@pytest.mark.parametrize("place", FOUND)
def test_most_objects_are_where_they_are_found(place: Place) -> None:
    found = [put.thing.place in FOUND[place] for layout in many(place) for put in layout.objects]
    assert np.mean(found) > 0.8
    if len(set(FOUND[place])) < 3:
        assert not all(found), "a cat in outer space must be possible"


def test_fish_are_mostly_in_water(drawn: list[Drawn]) -> None:
    wet = Counter(
        one.background.place in ("sea", "underwater", "plain")
        for one in drawn
        for put in one.layout.objects
        if put.thing.place == "water"
    )
    assert wet[True] > 300 and wet[True] > 6 * wet[False]


def test_paint_is_for_what_can_be_painted() -> None:
    placed = [put for place in FOUND for layout in many(place) for put in layout.objects]
    assert {put.paint for put in placed if put.paint} == set(PAINTS)
    assert all(put.thing.recolour for put in placed if put.paint)
    assert 0.6 < np.mean([put.paint is not None for put in placed if put.thing.recolour]) < 0.8
    assert all(put.colour == (put.paint or put.thing.colour) for put in placed)


def test_the_lower_ones_come_last() -> None:
    for place in FOUND:
        for layout in many(place):
            bottoms = [put.y + put.size / 2 for put in layout.objects]
            assert bottoms == sorted(bottoms)


def test_everyday_things_come_more_often() -> None:
    counts = Counter(put.thing.everyday for layout in many("table") for put in layout.objects)
    ground = Counter(thing.everyday for thing in objects() if thing.place == "ground")
    assert 2.4 < counts[True] / ground[True] / (counts[False] / ground[False]) < 3.6


def test_an_arranger_takes_only_what_it_is_given() -> None:
    given = tuple(thing for thing in objects() if thing.name in ("cat", "fish", "bird"))
    random, arranger = np.random.default_rng(0), Arranger(given)
    layouts = [arranger.arrange(random, place, HORIZONS.get(place)) for place in FOUND for _ in range(40)]
    assert {put.thing.name for layout in layouts for put in layout.objects} == {"cat", "fish", "bird"}


def test_two_or_three_are_alike_sometimes() -> None:
    several = [layout.objects for place in FOUND for layout in many(place) if len(layout.objects) > 1]
    alike = [len({(put.thing, put.paint) for put in placed}) == 1 for placed in several]
    assert 0.2 < np.mean(alike) < 0.4
