"""Scenes and captions for the tests of what trains the starter model; sums in one order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from transformers import CLIPTokenizer

from training.backgrounds import Background, draw_background
from training.captions import caption, vocabulary
from training.layouts import Arranger, Layout, Placed
from training.objects import objects
from training.textures import Region
from training.tokenizer import make_tokenizer

DRAWN = 5000


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> CLIPTokenizer:
    return make_tokenizer(vocabulary())


@dataclass(frozen=True)
class Drawn:
    """A caption, and what it is of."""

    caption: str
    layout: Layout
    background: Background


@pytest.fixture(scope="session")
def drawn() -> list[Drawn]:
    """Thousands of captions, as training draws them."""
    random, arranger = np.random.default_rng(5), Arranger()
    scenes = [draw_background(random, 16) for _ in range(300)]
    made: list[Drawn] = []
    for i in range(DRAWN):
        scene = scenes[i % len(scenes)]
        layout = arranger.arrange(random, scene.place, scene.horizon)
        made.append(Drawn(caption(random, layout, scene), layout, scene))
    return made


def plain(colour: tuple[float, float, float], side: int = 128, light: float = 1) -> Background:
    """A background of one colour, 0..1."""
    image = np.broadcast_to(np.float32(colour), (side, side, 3)).copy()
    name = "a plain grey background"
    return Background(image, (name,), (Region(name, 0, 1),), "plain", None, np.full(3, light, np.float32))


def put(
    name: str,
    x: float = 0.5,
    y: float = 0.5,
    size: float = 0.5,
    paint: str | None = None,
    degrees: float = 0,
    mirrored: bool = False,
    stands: bool = False,
) -> Placed:
    """The object of that name, placed."""
    thing = next(thing for thing in objects() if thing.name == name)
    return Placed(thing, paint, x, y, size, degrees, mirrored, stands)


def whole(*placed: Placed) -> Layout:
    """Objects on all of a background."""
    return Layout(0, 0, 1, placed)
