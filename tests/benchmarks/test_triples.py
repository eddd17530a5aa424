"""The fixed cases of the quality tables: always the same, as large as they say, and of words that the judge knows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.triples import AREAS, SCENES, SIZE, Triple, triples
from training.judge import COLOURS, OBJECTS

CASES = triples(len(SCENES))


def test_they_are_always_the_same_and_cover_everything() -> None:
    assert triples(len(SCENES)) == CASES and CASES[:8] == triples(2)
    assert len(CASES) == 48 and [case.number for case in CASES] == list(range(48))
    assert {(case.area, case.outline) for case in CASES} == set(itertools.product(AREAS, ("blob", "stroke")))
    assert {case.scene for case in CASES} == set(SCENES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.outline}-{case.area}")
def test_a_mask_has_its_area(case: Triple) -> None:
    mask = case.mask
    assert mask.dtype == np.uint8 and mask.shape == (SIZE, SIZE) and set(np.unique(mask)) == {0, 255}
    assert (mask > 0).mean() == pytest.approx(case.area, rel=0.05)
    assert np.array_equal(mask, case.mask)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.number))
def test_the_judge_knows_what_is_asked_for(case: Triple) -> None:
    assert case.thing in OBJECTS and case.colour in (None, *COLOURS)
    assert case.words.endswith(case.thing)
