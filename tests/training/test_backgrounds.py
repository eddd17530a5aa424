"""Drawn backgrounds: repeatable, well formed, the same at every size, and showing what their captions say."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from PIL import Image

from training.backgrounds import ALL_PHRASES, INTERIORS, LANDS, SKIES, Background, draw_background

SEEDS = 900


def drawn(seed: int, size: int = 64) -> Background:
    return draw_background(np.random.default_rng(seed), size)


@lru_cache(maxsize=1)
def many() -> tuple[Background, ...]:
    return tuple(drawn(seed) for seed in range(SEEDS))


def region_colours(phrase: str, within: str = "") -> np.ndarray:
    """The mean colour of each drawn region with the phrase, in scenes whose caption contains `within`."""
    colours = [
        background.image[round(region.top * 64) + 1 : round(region.bottom * 64) - 1].mean((0, 1))
        for background in many()
        for region in background.regions
        if region.phrase == phrase and within in background.phrases[0] and region.bottom - region.top > 0.1
    ]
    assert colours, phrase
    return np.stack(colours)


def test_the_same_seed_draws_the_same_bytes() -> None:
    for seed in range(20):
        first, again = drawn(seed), drawn(seed)
        assert first.image.tobytes() == again.image.tobytes()
        assert first.phrases == again.phrases and first.regions == again.regions


def test_seeds_draw_different_pictures() -> None:
    assert len({background.image.tobytes() for background in many()}) == SEEDS


def test_the_pictures_are_well_formed() -> None:
    for background in many():
        assert background.image.shape == (64, 64, 3)
        assert background.image.dtype == np.float32
        assert np.isfinite(background.image).all()
        assert background.image.min() >= 0 and background.image.max() <= 1
        assert background.light.shape == (3,) and 0 < background.light.min() <= background.light.max() <= 1
        assert background.light.dtype == np.float32


def test_regions_and_horizons_lie_within_the_picture() -> None:
    for background in many():
        assert background.regions
        for region in background.regions:
            assert 0 <= region.top < region.bottom <= 1, (background.phrases[0], region)
        assert (background.horizon is not None) == (background.place in ("land", "sea", "table"))
        assert background.horizon is None or 0.3 < background.horizon < 0.9


def test_captions_are_among_the_listed_phrases() -> None:
    assert len(set(ALL_PHRASES)) == len(ALL_PHRASES)
    for background in many():
        said = {*background.phrases, *(region.phrase for region in background.regions)}
        assert said <= set(ALL_PHRASES)
        assert all(phrase == phrase.lower() for phrase in said)


@pytest.mark.parametrize("name", [*SKIES, *LANDS, *INTERIORS])
def test_every_scene_is_drawn(name: str) -> None:
    assert any(name in phrase for background in many() for phrase in background.phrases)


@pytest.mark.parametrize(
    "words",
    [
        ("green hills under a clear blue sky", "green hills, clear blue sky", "a clear blue sky over green hills"),
        ("a lake in the rain",),
        ("a road under the northern lights", "northern lights over a road"),
        ("an orange sunset sky", "orange sunset sky"),
        ("a plain red background", "a wooden table and an orange wall", "a blue wall", "a wooden table"),
    ],
)
def test_how_scenes_are_called(words: tuple[str, ...]) -> None:
    assert set(words) <= set(ALL_PHRASES)


def test_night_skies_are_dark() -> None:
    for name in ("starry night sky", "night sky with a full moon", "northern lights"):
        assert region_colours(name).mean(1).max() < 0.4, name


def test_snow_is_bright_by_day() -> None:
    assert region_colours("a snowy field", "blue sky").min() > 0.7


def test_the_sea_is_blue_by_day() -> None:
    red, green, blue = region_colours("the sea", "blue sky").T
    assert (blue > green).all() and (blue > red + 0.2).all()


@pytest.mark.parametrize("name", ["green grass", "green hills"])
def test_grass_is_green(name: str) -> None:
    red, green, blue = region_colours(name, "" if name == "green grass" else "blue sky").T
    assert (green > red).all() and (green > blue).all()


def test_fog_is_pale() -> None:
    colours = region_colours("foggy sky")
    assert colours.min() > 0.7 and np.ptp(colours, axis=1).max() < 0.15


@pytest.mark.parametrize("seed", range(24))
def test_every_size_shows_the_same_scene(seed: int) -> None:
    small, middle, large = (drawn(seed, size) for size in (128, 256, 512))
    assert small.phrases == middle.phrases == large.phrases
    for background in (middle, large):
        picture = Image.fromarray((background.image * 255 + 0.5).astype(np.uint8))
        reduced = np.asarray(picture.resize((128, 128), Image.Resampling.BOX), np.float32) / 255
        assert np.abs(reduced - small.image).mean() < 0.02
        for one, other in zip(small.regions, background.regions, strict=True):
            assert one.phrase == other.phrase
            assert abs(one.top - other.top) < 0.02 and abs(one.bottom - other.bottom) < 0.02
