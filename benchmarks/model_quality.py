"""`deltabrush eval --model-quality`: does the starter model paint what it is asked for?

Fixed cases of scene, object, colour and mask, none of them picked by hand. Each is painted as a whole picture from the
full prompt, and as a masked edit of a picture of the scene alone; a classifier that never saw the model's pictures says
what it sees (training/judge.py). Patches of background are painted as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from diffusion_engine import EditableDiffusionEngine, Version
from training.backgrounds import LANDS, SCENES, SKIES
from training.colours import PAINTS
from training.grammar import article, with_article
from training.judge import COLOURS, OBJECTS, accuracy, load_judge
from training.objects import cutouts, objects
from training.starter import load
from training.vae import reconstruction_db

SIZE = 512
SEED = 20_000_000  # of the cases; nothing was trained on it
CASES_PER_SCENE = 4
SMALLEST, LARGEST = 0.2, 0.5  # of the picture's side
AROUND = 1.12  # a mask is a little larger than the thing
CONTEXT = 1.15  # and the judge looks at a little more


@dataclass(frozen=True)
class Case:
    """One question. box: left, top, right, bottom of the mask, in pixels of SIZE."""

    number: int
    land: str
    sky: str
    thing: str
    colour: str | None
    box: tuple[int, int, int, int]
    outline: str  # ellipse, rectangle or rounded_rectangle
    patch: str  # the background to paint instead, in the same mask

    @property
    def scene(self) -> str:
        return f"{self.land} under {'the' if self.sky.endswith('lights') else article(self.sky)} {self.sky}"

    @property
    def words(self) -> str:
        return with_article(f"{self.colour} {self.thing}" if self.colour else self.thing)

    @property
    def mask(self) -> NDArray[np.uint8]:
        """uint8 [SIZE, SIZE], 255 inside."""
        picture = Image.new("L", (SIZE, SIZE))
        draw = ImageDraw.Draw(picture)
        if self.outline == "rounded_rectangle":
            draw.rounded_rectangle(self.box, 24, fill=255)
        else:
            getattr(draw, self.outline)(self.box, fill=255)
        return np.asarray(picture)


def cases(count: int) -> list[Case]:
    """The first `count` of an endless list that is always the same."""
    random, shapes = np.random.default_rng(SEED), cutouts()
    order = random.permutation(len(objects()))
    listed: list[Case] = []
    land = sky = ""
    for number in range(count):
        if number % CASES_PER_SCENE == 0:
            land, sky = str(random.choice(LANDS)), str(random.choice(SKIES[:-1]))  # the last one goes with snow only
        thing = objects()[order[number % len(order)]]
        shape = shapes[thing.name]
        longest = random.uniform(SMALLEST, LARGEST) * SIZE * AROUND
        width, height = (round(longest * side / max(shape.size)) for side in shape.size)
        left, top = int(random.integers(SIZE - width)), int(random.integers(SIZE - height))
        listed.append(
            Case(
                number=number,
                land=land,
                sky=sky,
                thing=thing.name,
                colour=str(random.choice(PAINTS)) if thing.recolour else None,
                box=(left, top, left + width, top + height),
                outline=str(random.choice(("ellipse", "rectangle", "rounded_rectangle"))),
                patch=str(random.choice(SKIES if top + height / 2 < SIZE / 2 else LANDS)),
            )
        )
    return listed


@dataclass
class Tally:
    """Pictures to judge, and what was asked for in each."""

    pictures: list[Image.Image]
    asked: list[Case]

    def scores(self) -> dict[str, Any]:
        """Shares of pictures that show the object (best guess, best five) and its colour."""
        verdict = load_judge().look(self.pictures)
        right = torch.tensor([OBJECTS.index(case.thing) for case in self.asked])
        best = verdict.objects.topk(5).indices == right[:, None]
        coloured = [i for i, case in enumerate(self.asked) if case.colour]
        colours = [COLOURS[int(verdict.colours[i].argmax())] == self.asked[i].colour for i in coloured]
        return {
            "object_top1": _share(best[:, 0].tolist()),
            "object_top5": _share(best.any(1).tolist()),
            "colour": _share(colours),
            "pictures": len(self.asked),
        }


def backgrounds_right(pictures: list[Image.Image], asked: list[tuple[str, ...]]) -> float:
    """Share of the asked places that the judge prefers to all others of their kind (skies, or the rest)."""
    verdict = load_judge().look(pictures)
    right: list[bool] = []
    for scores, names in zip(verdict.places, asked, strict=True):
        for name in names:
            rivals = [i for i, place in enumerate(SCENES) if (place in SKIES) == (name in SKIES)]
            right.append(SCENES[max(rivals, key=lambda i: float(scores[i]))] == name)
    return _share(right)


def measure(engine: EditableDiffusionEngine, count: int) -> dict[str, Any]:
    """All figures for `count` cases, in shares of 1 and dB."""
    made, edited = Tally([], []), Tally([], [])
    patches: list[Image.Image] = []
    base: Version | None = None
    asked = cases(count)
    for case in asked:
        if case.number % CASES_PER_SCENE == 0:
            base = generate_scene(engine, case)
        assert base is not None
        made.pictures.append(generate_picture(engine, case))
        made.asked.append(case)
        edited.pictures.append(looked_at(edit_picture(engine, base, case, case.words), case.box))
        edited.asked.append(case)
        patches.append(edit_picture(engine, base, case, case.patch).crop(_within(case)))
        if case.number % CASES_PER_SCENE == CASES_PER_SCENE - 1 or case is asked[-1]:
            engine.forget(base.id)
    return {
        "judge_on_composed_scenes": accuracy(load_judge()),
        "generation": made.scores()
        | {"background": backgrounds_right(made.pictures, [(case.land, case.sky) for case in asked])},
        "edit": edited.scores() | {"background": backgrounds_right(patches, [(case.patch,) for case in asked])},
        "vae_db": reconstruction_db(load().vae),
    }


def generate_scene(engine: EditableDiffusionEngine, case: Case) -> Version:
    """The scene alone, ready for edits; the same for all cases of one scene."""
    return engine.generate(case.scene, size=(SIZE, SIZE), seed=case.number // CASES_PER_SCENE)


def generate_picture(engine: EditableDiffusionEngine, case: Case) -> Image.Image:
    """The object in its scene, painted from nothing."""
    version = engine.generate(f"{case.words}, {case.scene}", size=(SIZE, SIZE), seed=SEED + case.number)
    engine.forget(version.id)
    return version.image


def edit_picture(engine: EditableDiffusionEngine, base: Version, case: Case, prompt: str) -> Image.Image:
    """The scene with the mask painted anew."""
    return engine.edit(base.id, case.mask, prompt, seed=SEED + case.number)[0].image


def looked_at(picture: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """The square around the mask, as much of it as lies in the picture."""
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    side = min(SIZE, round(CONTEXT * max(box[2] - box[0], box[3] - box[1])))
    left, top = (int(np.clip(round(centre - side / 2), 0, SIZE - side)) for centre in middle)
    return picture.crop((left, top, left + side, top + side))


def _within(case: Case) -> tuple[int, int, int, int]:
    """The largest box inside the mask: around it, the judge would see the scene."""
    left, top, right, bottom = case.box
    inset = (1 - 0.5**0.5) / 2 if case.outline == "ellipse" else 0.05
    across, down = round((right - left) * inset), round((bottom - top) * inset)
    return left + across, top + down, right - across, bottom - down


def _share(right: Iterable[bool]) -> float:
    answers = list(right)
    return round(sum(answers) / len(answers), 4) if answers else float("nan")
