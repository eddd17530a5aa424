"""The judge: what counts as a right answer, that it learns, and that the shipped one is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.training.conftest import plain, put, whole
from training import judge
from training.backgrounds import Background
from training.judge import COLOURS, OBJECTS, PLACES, SIDE, UNKNOWN, Examiner, Judge, Verdict, answers, loss
from training.layouts import Layout
from training.textures import Region


@pytest.fixture(autouse=True)
def few_backgrounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "BACKGROUNDS", 24)


def scene(*regions: Region) -> Background:
    ground = plain((0.5, 0.5, 0.5))
    return Background(ground.image, ("a lake",), regions, "land", 0.5, ground.light)


@pytest.mark.parametrize("count", [1, 3])
def test_shapes(count: int) -> None:
    verdict = Judge().eval()(torch.rand(count, 3, SIDE, SIDE))
    assert verdict.objects.shape == (count, len(OBJECTS))
    assert verdict.colours.shape == (count, len(COLOURS))
    assert verdict.places.shape == (count, len(PLACES))


def test_names_are_unique() -> None:
    for names in (OBJECTS, COLOURS, PLACES):
        assert len(set(names)) == len(names)


def test_it_looks_at_pictures_of_any_size() -> None:
    made = Judge().eval()
    random = np.random.default_rng(0)
    small = Image.fromarray(random.integers(0, 255, (SIDE, SIDE, 3), np.uint8))
    large = small.resize((4 * SIDE, 4 * SIDE), Image.Resampling.NEAREST)
    wide = Image.new("RGBA", (200, 100), "red")
    verdict = made.look([small, large, wide])
    pixels = torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1)[None] / 255
    assert torch.allclose(verdict.objects[:1], made(pixels).objects, atol=1e-4)
    assert torch.allclose(verdict.objects[0], verdict.objects[1], atol=1e-4)
    assert not torch.allclose(verdict.objects[0], verdict.objects[2], atol=1e-4)


SKY, LAKE = Region("clear blue sky", 0, 0.5), Region("a lake", 0.5, 1)


@pytest.mark.parametrize(
    ("top", "side", "sky", "lake"),
    [
        (0, 1, 1, 1),
        (0, 0.5, 1, 0),
        (0.5, 0.5, 0, 1),
        (0.05, 0.5, 1, UNKNOWN),
        (0.41, 0.5, UNKNOWN, 1),
        (0.25, 0.5, 1, 1),
        (0.125, 0.46875, 1, 1),
    ],
    ids=["all", "sky alone", "lake alone", "lake barely", "sky barely", "half and half", "just enough of the lake"],
)
def test_places_of_a_window(top: float, side: float, sky: int, lake: int) -> None:
    _, _, places = answers(Layout(0, top, side, ()), scene(SKY, LAKE))
    found = {name: places[i] for i, name in enumerate(PLACES) if places[i] != 0}
    wanted = {"clear blue sky": sky, "a lake": lake}
    assert found == {name: value for name, value in wanted.items() if value}


@pytest.mark.parametrize("regions", [(0, 1), (1, 0)], ids=["barely, then well", "well, then barely"])
def test_a_place_seen_well_once_is_seen(regions: tuple[int, int]) -> None:
    parts = (Region("a lake", 0, 0.1), Region("a lake", 0.5, 1))
    _, _, places = answers(Layout(0, 0, 1, ()), scene(*(parts[i] for i in regions)))
    assert places[PLACES.index("a lake")] == 1


@pytest.mark.parametrize(
    ("layout", "thing", "colour"),
    [
        (whole(), UNKNOWN, UNKNOWN),
        (whole(put("car", paint="blue")), OBJECTS.index("car"), COLOURS.index("blue")),
        (whole(put("car")), OBJECTS.index("car"), COLOURS.index("red")),
        (whole(put("rainbow")), OBJECTS.index("rainbow"), UNKNOWN),
    ],
    ids=["nothing", "painted", "as it is", "many colours"],
)
def test_objects_and_colours_of_a_window(layout: Layout, thing: int, colour: int) -> None:
    assert answers(layout, scene(SKY, LAKE))[:2] == (thing, colour)


def test_questions_are_repeatable_and_sound() -> None:
    first, again, other = (Examiner(seed).ask(48) for seed in (1, 1, 2))
    assert torch.equal(first.pictures, again.pictures) and torch.equal(first.objects, again.objects)
    assert not torch.equal(first.objects, other.objects)
    assert first.pictures.shape == (48, 3, SIDE, SIDE) and 0 <= first.pictures.min() <= first.pictures.max() <= 1
    assert {*first.places.unique().tolist()} <= {0, 1, UNKNOWN}
    assert (first.objects != UNKNOWN).float().mean() > 0.75


def test_half_of_the_pictures_are_blurred() -> None:
    pictures = torch.rand(6, 3, SIDE, SIDE)
    soft = Examiner(1).blurred(pictures)
    assert torch.equal(soft[3:], pictures[3:])
    assert soft.shape == pictures.shape
    assert (soft[:3].var((1, 2, 3)) < 0.8 * pictures[:3].var((1, 2, 3))).all()
    assert torch.allclose(soft[:3].mean((2, 3)), pictures[:3].mean((2, 3)), atol=0.02)


def test_what_is_unknown_does_not_count() -> None:
    questions = Examiner(1).ask(16)
    verdict = Verdict(torch.randn(16, len(OBJECTS)), torch.randn(16, len(COLOURS)), torch.randn(16, len(PLACES)))
    before = loss(verdict, questions)
    verdict.objects[questions.objects == UNKNOWN] += 5 * torch.randn(len(OBJECTS))
    verdict.colours[questions.colours == UNKNOWN] += 5 * torch.randn(len(COLOURS))
    verdict.places[questions.places == UNKNOWN] += 7
    assert (questions.places == UNKNOWN).any()
    assert torch.equal(loss(verdict, questions), before)


def test_a_few_steps_on_one_batch_lower_the_loss() -> None:
    torch.manual_seed(0)
    questions, made = Examiner(1).ask(16), Judge().train()
    optimizer = torch.optim.AdamW(made.parameters(), lr=2e-3)
    losses: list[float] = []
    for _ in range(7):
        error = loss(made(questions.pictures), questions)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        losses.append(float(error.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_training_and_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "judge" / "judge.safetensors"
    monkeypatch.setattr(judge, "accuracy", lambda made: {"object_top1": 0.5})
    judge.main(["--steps", "2", "--batch", "8", "--output", str(path)])
    monkeypatch.setattr(judge, "WEIGHTS", path)
    loaded, trained = judge.load_judge(), judge.train(2, 8, 0)
    assert not loaded.training
    for name, weight in loaded.state_dict().items():
        assert torch.allclose(weight.float(), trained.state_dict()[name].float(), atol=2e-3, rtol=2e-3), name
    assert "object_top1" in capsys.readouterr().out


def test_the_shipped_judge_is_right() -> None:
    shares = judge.accuracy(judge.load_judge(), 400)
    assert shares["object_top1"] >= 0.95 and shares["colour"] >= 0.95, shares
    assert shares["object_top5"] >= 0.98 and shares["places"] >= 0.9, shares
