"""Mask arithmetic against plain loops, and the same rows whatever kind of mask asks for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffusion_engine import PlanPolicy, SparseDecoder, SparseUNet, UserError
from diffusion_engine.active_rows import ActiveRows, Mask, grow, pool, pyramid, round_to_tiles
from diffusion_engine.pictures import latent_mask
from tests.engine.small_models import masks, small_unet, small_vae

SHAPES = [(1, 1), (1, 7), (9, 2), (16, 24)]


def scattered(shape: tuple[int, int]) -> Mask:
    return np.random.default_rng(3).random(shape) < 0.06


@pytest.mark.parametrize("rows", [0, 1, 3, 99])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_grow(shape: tuple[int, int], rows: int) -> None:
    for mask in (scattered(shape), np.ones(shape, np.bool_), np.zeros(shape, np.bool_)):
        before, expected = mask.copy(), np.zeros_like(mask)
        for y, x in zip(*mask.nonzero(), strict=True):
            expected[max(y - rows, 0) : y + rows + 1, max(x - rows, 0) : x + rows + 1] = True
        assert np.array_equal(grow(mask, rows), expected) and np.array_equal(mask, before)


@pytest.mark.parametrize("side", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_round_to_tiles(shape: tuple[int, int], side: int) -> None:
    mask = scattered(shape)
    expected = np.zeros_like(mask)
    for y, x in zip(*mask.nonzero(), strict=True):
        top, left = y // side * side, x // side * side
        expected[top : top + side, left : left + side] = True
    assert np.array_equal(round_to_tiles(mask, side), expected)


def test_pool_takes_the_largest_of_four() -> None:
    values = np.random.default_rng(4).integers(0, 256, (12, 18), np.uint8)
    expected = [[values[y : y + 2, x : x + 2].max() for x in range(0, 18, 2)] for y in range(0, 12, 2)]
    assert np.array_equal(pool(values), expected) and pool(values).dtype == np.uint8
    assert np.array_equal(pool(values > 200), np.array(expected) > 200)


@pytest.mark.parametrize("scale", [1, 2, 8])
def test_cells_of_a_padded_picture(scale: int) -> None:
    mask = np.random.default_rng(5).integers(0, 256, (21, 30), np.uint8)
    cells = latent_mask(mask, (40, 24), scale)
    assert cells.shape == (24 // scale, 40 // scale) and cells.dtype == np.float32
    for (row, column), value in np.ndenumerate(cells):
        cell = mask[row * scale : (row + 1) * scale, column * scale : (column + 1) * scale]
        assert value == np.float32(cell.max(initial=0)) / np.float32(255)


def test_counts_shapes_and_fractions() -> None:
    active = ActiveRows.of(pyramid(masks((32, 32))["one row"], 3), PlanPolicy((0, 1), (1, 1, 4)))
    assert active.shapes == [(32, 32), (16, 16), (8, 8)]
    assert active.counts == [1, 9, 16]
    assert active.fractions == [1 / 1024, 9 / 256, 16 / 64]


@pytest.mark.parametrize("name", masks((32, 32)))
def test_arrays_and_tensors_ask_for_the_same_rows(name: str) -> None:
    mask = masks((32, 32))[name]
    pixels = mask.repeat_interleave(8, 0).repeat_interleave(8, 1)
    unet, decoder = SparseUNet(small_unet("sd1")), SparseDecoder(small_vae())
    for one, other in (
        (unet.plan(mask), unet.plan(mask.numpy())),
        (unet.plan(mask), unet.plan(mask.float())),
        (decoder.plan(mask), decoder.plan(mask.numpy(), pixels.numpy())),
        (decoder.plan(mask), decoder.plan(mask, pixels)),
    ):
        pairs = list(zip(one.levels, other.levels, strict=True))
        assert all(torch.equal(a.active, b.active) and a.shape == b.shape for a, b in pairs)
        assert [level.active.numel() for level in one.levels] == one.active.counts


def test_decoder_refuses_pixels_of_another_size() -> None:
    with pytest.raises(UserError, match="8 times"):
        SparseDecoder(small_vae()).plan(np.ones((4, 4), np.bool_), np.ones((32, 24), np.bool_))


def test_decoder_computes_latents_that_change_beside_the_pixels_shown() -> None:
    """They are read by the mid block; the finest levels follow what is shown."""
    decoder = SparseDecoder(small_vae(), policy=PlanPolicy((0,)))
    mask, pixels = np.zeros((8, 8), np.bool_), np.zeros((64, 64), np.bool_)
    mask[2:5, 2:5] = pixels[60, 60] = True
    active = decoder.active_rows(mask, pixels)
    assert active.counts == [1, 1, 1, 9 + 1] and active.masks[-1][mask].all()
