"""Captions as people prompt: a whole picture when they generate, the painted thing alone when they edit.

The editor's masked edits ask for what is under the mask ("a red balloon", "starry night sky") while the rest of the
picture stays, so half of the captions name one thing and leave the rest out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.backgrounds import ALL_PHRASES, Background
from training.colours import ALSO_CALLED, PAINTS, RGB
from training.grammar import plural, with_article
from training.layouts import Layout, Placed
from training.objects import objects

OBJECT_ALONE = 0.5  # of the captions of pictures with objects
SYNONYM = 0.35
NATURAL_COLOUR = 0.35
NO_ARTICLE = 0.25
JOINS = {
    "sky": ("in",),
    "space": ("in",),
    "sea": ("and", "with"),
    "underwater": ("",),
    "land": ("in front of", ",", "with"),
    "table": ("on",),
    "plain": ("on", "in front of"),
}


@dataclass(frozen=True)
class Description:
    """A caption, and what it speaks of: these objects, in its order, and the background or not."""

    words: str
    named: tuple[Placed, ...]
    names_place: bool


def caption(random: np.random.Generator, layout: Layout, background: Background) -> str:
    """A caption of a picture; another draw gives another one."""
    return describe(random, layout, background).words


def describe(random: np.random.Generator, layout: Layout, background: Background) -> Description:
    """A caption of a picture that knows what it speaks of."""
    place = str(random.choice(background.phrases))
    if not layout.objects:
        return Description(_patch(random, layout, background) or place, (), True)
    if random.random() < OBJECT_ALONE:
        one = layout.objects[int(random.integers(len(layout.objects)))]
        return Description(phrase(random, one), (one,), False)
    across = tuple(sorted(layout.objects, key=lambda one: one.x))
    named = _all_of(random, across)
    if random.random() < 0.3:
        return Description(named, across, False)
    if random.random() < 0.2:
        return Description(f"{place} with {named}", across, True)
    join = str(random.choice(JOINS[background.place]))
    words = f"{named}{join if join == ',' else f' {join}' if join else ''} {place}"
    return Description(words, across, True)


def phrase(random: np.random.Generator, placed: Placed) -> str:
    """What a person may call one object: "a red balloon", "puppy"."""
    words = _described(random, placed)
    return words if random.random() < NO_ARTICLE else with_article(words)


def vocabulary() -> list[str]:
    """Every phrase that captions are made of: what a tokenizer should know as whole words."""
    names = [name for thing in objects() for name in (thing.name, *thing.synonyms)]
    joins = [join for choices in JOINS.values() for join in choices]
    colours = [*RGB, *ALSO_CALLED.values(), *PAINTS]
    return [
        *names,
        *map(plural, names),
        *ALL_PHRASES,
        *joins,
        *colours,
        "a an and next to with on the left right two three",
    ]


def _described(random: np.random.Generator, placed: Placed) -> str:
    name, colour = _called(random, placed), placed.colour
    told = colour and (placed.paint or random.random() < NATURAL_COLOUR)
    if not told or colour in name.split():
        return name
    if colour in ALSO_CALLED and random.random() < 0.3:
        colour = ALSO_CALLED[colour]
    return f"{colour} {name}"


def _called(random: np.random.Generator, placed: Placed) -> str:
    """A name that fits: a cherry blossom that is painted blue is no "pink flower"."""
    wrong = {*RGB} - {placed.colour} if placed.paint else set[str]()
    synonyms = [name for name in placed.thing.synonyms if not wrong & set(name.split())]
    if synonyms and random.random() < SYNONYM:
        return str(random.choice(synonyms))
    return placed.thing.name


def _all_of(random: np.random.Generator, placed: Sequence[Placed]) -> str:
    first = placed[0]
    if len(placed) > 1 and all((one.thing, one.paint) == (first.thing, first.paint) for one in placed):
        return f"{'two' if len(placed) == 2 else 'three'} {plural(_described(random, first))}"
    names = [phrase(random, one) for one in placed]
    if len(names) == 1:
        aside = abs(first.x - 0.5) > 0.17 and random.random() < 0.5
        return f"{names[0]} on the {'left' if first.x < 0.5 else 'right'}" if aside else names[0]
    if len(names) == 2:
        return f"{names[0]} {'next to' if random.random() < 0.3 else 'and'} {names[1]}"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _patch(random: np.random.Generator, layout: Layout, background: Background) -> str | None:
    """What a window shows that lies wholly in one region of the background."""
    bottom = layout.top + layout.side
    shown = [part.phrase for part in background.regions if part.top <= layout.top and bottom <= part.bottom]
    return str(random.choice(shown)) if shown else None
