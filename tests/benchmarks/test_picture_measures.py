"""Measures of pictures against pictures whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.picture_measures import RIM, psnr, rim, seam, ssim

SIDE = 96
SQUARE = np.zeros((SIDE, SIDE), bool)
SQUARE[20:76, 20:76] = True
EVERYWHERE, NOWHERE = np.ones((SIDE, SIDE), bool), np.zeros((SIDE, SIDE), bool)
NOISE = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
GREY = np.full((SIDE, SIDE, 3), 128, np.uint8)
RAMP = np.repeat(np.arange(SIDE, dtype=np.uint8)[None, :, None] * 2, SIDE, 0).repeat(3, 2)


def pasted(outside: np.ndarray, inside: np.ndarray) -> np.ndarray:
    return np.where(SQUARE[..., None], inside, outside)


def test_psnr_is_that_of_the_mean_square_error_where_asked() -> None:
    other = pasted(GREY, GREY + 10)
    assert psnr(GREY, other, SQUARE) == pytest.approx(20 * math.log10(255 / 10))
    assert psnr(GREY, other, ~SQUARE) == 99
    assert psnr(GREY, other, EVERYWHERE) > psnr(GREY, other, SQUARE)


def test_ssim_is_one_for_the_same_picture_and_near_nothing_for_unrelated_ones() -> None:
    assert ssim(NOISE, NOISE, SQUARE) == pytest.approx(1)
    assert abs(ssim(NOISE, np.random.default_rng(1).integers(0, 256, NOISE.shape, np.uint8), SQUARE)) < 0.1


def test_the_rim_is_what_lies_inside_near_the_border() -> None:
    border = rim(SQUARE)
    assert border.sum() == 56**2 - (56 - 2 * RIM) ** 2
    assert not (border & ~SQUARE).any()


@pytest.mark.parametrize(
    ("picture", "low", "high"),
    [
        pytest.param(GREY, 1, 1, id="nothing to see"),
        pytest.param(RAMP, 0.95, 1.05, id="a ramp that goes on"),
        pytest.param(NOISE, 0.9, 1.1, id="noise that goes on"),
        pytest.param(pasted(GREY, GREY + 60), 50, 70, id="a flat patch of another colour"),
        pytest.param(pasted(RAMP, RAMP + 30), 10, 20, id="a ramp with a step"),
        pytest.param(pasted(NOISE, GREY), 0.9, 2.5, id="texture that ends"),
    ],
)
def test_a_seam_is_a_step_at_the_border_that_is_not_beside_it(picture: np.ndarray, low: float, high: float) -> None:
    assert low <= seam(picture, SQUARE) <= high


@pytest.mark.parametrize("inside", [EVERYWHERE, NOWHERE], ids=["everything painted", "nothing painted"])
def test_without_a_border_there_is_no_seam(inside: np.ndarray) -> None:
    assert math.isnan(seam(NOISE, inside))
