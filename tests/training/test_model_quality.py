"""The quality measurement measures: who paints what is asked for scores high, who paints something else low."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks import model_quality
from benchmarks.model_quality import AROUND, CASES_PER_SCENE, SIZE, Case, Tally, backgrounds_right, cases, measure
from tests.training.conftest import put, whole
from training.backgrounds import LANDS, SCENES, SKIES, Background
from training.colours import PAINTS
from training.compositor import Compositor
from training.judge import COLOURS, OBJECTS, Verdict
from training.lands import draw_land, lands_under
from training.layouts import Layout
from training.skies import draw_sky

COUNT = 40


@cache
def asked_first() -> tuple[Case, ...]:
    return tuple(cases(200))


def test_the_cases_are_always_the_same() -> None:
    assert cases(24) == cases(24) == list(asked_first()[:24])


def test_the_judge_knows_every_word_of_the_cases() -> None:
    for case in asked_first():
        assert case.thing in OBJECTS and case.colour in (None, *COLOURS)
        assert {case.land, case.sky, case.patch} <= set(SCENES)
        assert case.land in lands_under(case.sky)


def test_the_first_two_hundred_ask_for_everything() -> None:
    asked = asked_first()
    assert len({case.thing for case in asked}) == 200
    assert {case.land for case in asked} == set(LANDS)
    assert {case.sky for case in asked} == set(SKIES) - {"snowy night sky"}
    assert {case.colour for case in asked} == {None, *PAINTS}
    assert {case.patch for case in asked} == {*LANDS, *SKIES}
    assert {case.outline for case in asked} == {"ellipse", "rectangle", "rounded_rectangle"}
    assert {(case.land, case.sky) for case in asked[:CASES_PER_SCENE]} == {(asked[0].land, asked[0].sky)}


def test_masks_lie_within_the_picture() -> None:
    for case in asked_first():
        left, top, right, bottom = case.box
        assert left >= 0 and top >= 0 and right < SIZE and bottom < SIZE
        assert case.mask.shape == (SIZE, SIZE) and set(np.unique(case.mask)) == {0, 255}
        assert Image.fromarray(case.mask).getbbox() == (left, top, right + 1, bottom + 1)
        assert 0.15 * SIZE < max(right - left, bottom - top) < 0.6 * SIZE


@pytest.mark.parametrize(
    ("land", "sky", "thing", "colour", "words", "scene"),
    [
        ("a lake", "clear blue sky", "cat", None, "a cat", "a lake under a clear blue sky"),
        ("a road", "foggy sky", "umbrella", None, "an umbrella", "a road under a foggy sky"),
        ("a road", "northern lights", "jeans", None, "jeans", "a road under the northern lights"),
        ("the sea", "orange sunset sky", "car", "orange", "an orange car", "the sea under an orange sunset sky"),
    ],
)
def test_prompts(land: str, sky: str, thing: str, colour: str | None, words: str, scene: str) -> None:
    case = replace(asked_first()[0], land=land, sky=sky, thing=thing, colour=colour)
    assert (case.words, case.scene) == (words, scene)


@pytest.mark.parametrize(
    "box",
    [(200, 200, 300, 300), (0, 0, 60, 90), (430, 100, 511, 200), (100, 440, 400, 511), (0, 0, 511, 511)],
    ids=["middle", "corner", "right edge", "wide, below", "all"],
)
def test_the_judge_looks_at_the_mask(box: tuple[int, int, int, int]) -> None:
    picture = Image.new("RGB", (SIZE, SIZE))
    picture.paste("white", (box[0], box[1], box[2] + 1, box[3] + 1))
    seen = model_quality.looked_at(picture, box)
    assert seen.width == seen.height <= SIZE
    white = (np.asarray(seen) > 0).all(-1).sum()
    assert white >= (box[2] - box[0]) * (box[3] - box[1]), "all of it"
    assert seen.width <= max(1.2 * max(box[2] - box[0], box[3] - box[1]), 60)


class Sure:
    """A judge that has made up its mind."""

    def __init__(self, objects: list[list[int]], colours: list[int], places: list[dict[str, float]]) -> None:
        ranked = torch.zeros(len(objects), len(OBJECTS))
        for row, best in enumerate(objects):
            for rank, index in enumerate(best):
                ranked[row, index] = 100 - rank
        shades = torch.nn.functional.one_hot(torch.tensor(colours), len(COLOURS)).float()
        rows = [[scores.get(name, -9.0) for name in SCENES] for scores in places]
        self._verdict = Verdict(ranked, shades, torch.tensor(rows))

    def look(self, pictures: list[Image.Image]) -> Verdict:
        return self._verdict


def test_the_tally_counts_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cat, dog, car = (OBJECTS.index(name) for name in ("cat", "dog", "car"))
    case = asked_first()[0]
    asked = [replace(case, thing="cat", colour=colour) for colour in ("blue", "red", None, None)]
    judge = Sure([[cat], [dog, cat], [1, 2, 3, 4, 5, cat], [car, 2, 3, 4, cat]], [COLOURS.index("blue")] * 4, [{}])
    monkeypatch.setattr(model_quality, "load_judge", lambda: judge)
    tally = Tally([Image.new("RGB", (8, 8))] * 4, asked)
    assert tally.scores() == {"object_top1": 0.25, "object_top5": 0.75, "colour": 0.5, "pictures": 4}


def test_places_compete_with_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    views = [
        {"a lake": -1.0, "clear blue sky": 5.0},
        {"a lake": 1.0, "a road": 2.0, "foggy sky": 0.0},
        {"a lake": 3.0, "starry night sky": 3.0, "foggy sky": 4.0},
    ]
    monkeypatch.setattr(model_quality, "load_judge", lambda: Sure([[0]] * 3, [0] * 3, views))
    asked = [("a lake", "clear blue sky"), ("a lake", "foggy sky"), ("a lake", "starry night sky")]
    assert backgrounds_right([Image.new("RGB", (8, 8))] * 3, asked) == round(4 / 6, 4)


@cache
def scene_of(land: str | None, sky: str) -> Background:
    """A scene by its names, or with no land a sky alone."""
    random = np.random.default_rng(1)
    above = draw_sky(random, 128)
    while above.name != sky:
        above = draw_sky(random, 128)
    painted = draw_land(random, fresh := replace(above, image=above.image.copy()))
    while land and painted.name != land:
        painted = draw_land(random, fresh := replace(above, image=above.image.copy()))
    image = np.clip(fresh.image if land else above.image, 0, 1)
    horizon = painted.ground if land else None
    return Background(image, (), painted.regions, "land", horizon, above.light)


def as_image(pictures: torch.Tensor) -> Image.Image:
    return Image.fromarray((pictures[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8))


class Painter:
    """Stands in for the engine, and composes what it is asked for. Versions that nobody forgot stay in `kept`."""

    def __init__(self) -> None:
        self.kept: dict[str, Image.Image] = {}
        asked = asked_first()[:COUNT]
        self._scenes = {case.scene: case for case in asked}
        self._wholes = {f"{case.words}, {case.scene}": case for case in asked}
        self._asked = asked

    def generate(self, prompt: str, size: tuple[int, int], seed: int) -> Any:
        assert size == (SIZE, SIZE)
        alone = self._scenes.get(prompt)
        picture = self.scene(alone) if alone else self.whole(self._wholes[prompt])
        self.kept[name := f"{seed} {prompt}"] = picture
        return SimpleNamespace(id=name, image=picture)

    def edit(self, base: str, mask: np.ndarray, prompt: str, seed: int) -> list[Any]:
        case = self._asked[seed - model_quality.SEED]
        assert prompt in (case.words, case.patch) and np.array_equal(mask, case.mask)
        painted = self.inside(case, self.kept[base]) if prompt == case.words else self.patch(case)
        return [SimpleNamespace(image=Image.composite(painted, self.kept[base], Image.fromarray(mask)))]

    def forget(self, name: str) -> None:
        del self.kept[name]

    def scene(self, case: Case) -> Image.Image:
        return self.composed(scene_of(case.land, case.sky), whole())

    def whole(self, case: Case) -> Image.Image:
        placed = put(case.thing, x=0.4, y=0.62, size=0.55, paint=case.colour, stands=True)
        return self.composed(scene_of(case.land, case.sky), whole(placed))

    def inside(self, case: Case, base: Image.Image) -> Image.Image:
        left, top, right, bottom = (edge / SIZE for edge in case.box)
        size = max(right - left, bottom - top) / AROUND
        placed = put(case.thing, x=(left + right) / 2, y=(top + bottom) / 2, size=size, paint=case.colour)
        return self.composed(scene_of(case.land, case.sky), whole(placed))

    def patch(self, case: Case) -> Image.Image:
        """The place in all of the mask."""
        if case.patch in SKIES:
            shown, layout = scene_of(None, case.patch), whole()
        else:
            shown = scene_of(case.patch, "clear blue sky")
            (region,) = [region for region in shown.regions if region.phrase == case.patch]
            side = region.bottom - region.top
            layout = Layout(0.5 - side / 2, region.top, side, ())
        left, top, right, bottom = case.box
        picture = Image.new("RGB", (SIZE, SIZE))
        picture.paste(self.composed(shown, layout).resize((right - left + 1, bottom - top + 1)), (left, top))
        return picture

    def composed(self, background: Background, layout: Layout) -> Image.Image:
        return as_image(Compositor([background]).compose([0], [layout], SIZE).images)


class Blank(Painter):
    def composed(self, background: Background, layout: Layout) -> Image.Image:
        return Image.new("RGB", (SIZE, SIZE), (128, 128, 128))


class OneAhead(Painter):
    """Paints well, but always what the next case asks for."""

    def whole(self, case: Case) -> Image.Image:
        return super().whole(self._next(case))

    def inside(self, case: Case, base: Image.Image) -> Image.Image:
        return super().inside(replace(self._next(case), box=case.box), base)

    def patch(self, case: Case) -> Image.Image:
        return super().patch(replace(case, patch=LANDS[0] if case.patch in SKIES else SKIES[0]))

    def _next(self, case: Case) -> Case:
        return self._asked[(case.number + CASES_PER_SCENE) % COUNT]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_quality, "accuracy", lambda _: {"object_top1": 0.97})
    monkeypatch.setattr(model_quality, "reconstruction_db", lambda _: 31.0)
    monkeypatch.setattr(model_quality, "load", lambda: SimpleNamespace(vae=None))


def figures(painter: Painter) -> dict[str, Any]:
    found = measure(painter, COUNT)  # type: ignore[arg-type]
    assert painter.kept == {}, "every version is forgotten"
    assert found["generation"]["pictures"] == found["edit"]["pictures"] == COUNT
    return found


def test_a_perfect_model_scores_high(quick: None) -> None:
    found = figures(Painter())
    for way in ("generation", "edit"):
        assert found[way]["object_top1"] >= 0.9 and found[way]["colour"] >= 0.8, found
    assert found["generation"]["background"] >= 0.8, found
    assert found["edit"]["background"] >= 0.5, "a part of a landscape is hard to name even where it is right"
    assert found["judge_on_composed_scenes"] == {"object_top1": 0.97} and found["vae_db"] == 31


@pytest.mark.parametrize("painter", [Blank, OneAhead])
def test_a_model_that_paints_something_else_scores_nothing(quick: None, painter: type[Painter]) -> None:
    found = figures(painter())
    for way in ("generation", "edit"):
        assert found[way]["object_top1"] <= 0.05 and found[way]["object_top5"] <= 0.2, found
        assert found[way]["background"] <= 0.35, found
