"""Group sums against fp64, and the statistics that are made of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kernels import available_backends, norm_sums, norm_sums_per_row, use_backend
from tests.kernels.row_maps import DEVICE, randn, same_bits


@dataclass(frozen=True)
class Case:
    """mean, in units of the standard deviation; center_off: how far the center lies from it"""

    segments: int
    rows: int
    channels: int
    groups: int
    mean: float = 0.0
    center_off: float = 0.1
    dtype: torch.dtype = torch.float32


CASES = {
    "groups of one channel": Case(2, 50, 4, 4),
    "one group": Case(2, 50, 4, 1),
    "15 channels per group": Case(2, 333, 60, 4),
    "320 channels": Case(2, 1024, 320, 32),
    "a fine map": Case(1, 65536, 60, 4),
    "one row": Case(3, 1, 60, 4),
    "six segments": Case(6, 40, 320, 32),
    "mean of 100 std": Case(2, 4096, 60, 4, mean=100.0),
    "mean of 100 std, groups of one channel": Case(2, 4096, 60, 60, mean=100.0),
    "mean of -100 std, one row": Case(2, 1, 320, 32, mean=-100.0),
    "center far off": Case(2, 1024, 60, 4, mean=3.0, center_off=3.0),
    "bf16 rows": Case(2, 100, 60, 4, mean=5.0, dtype=torch.bfloat16),
    "fp16 rows": Case(2, 100, 320, 32, mean=5.0, dtype=torch.float16),
}


def make_rows(case: Case) -> tuple[Tensor, Tensor]:
    rows = (case.mean + randn(case.segments, case.rows, case.channels, seed=1)).to(case.dtype)
    offset = case.center_off * randn(case.segments, case.groups, seed=2)
    return rows, case.mean + offset


def exact(rows: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
    """fp64 [S, M, G] each: sums of x - center and of its square, per row and group."""
    groups = rows.double().unflatten(2, (center.shape[1], -1)) - center.double()[:, None, :, None]
    return groups.sum(-1), groups.square().sum(-1)


def assert_close(result: Tensor, first: Tensor, second: Tensor, values: int) -> None:
    """1e-5 of what there is to add: squares of their own size, plain sums (which may cancel) of sqrt(n * squares)."""
    sums, squares = result.double().chunk(2, -1)
    assert ((squares - second).abs() <= 1e-5 * second).all()
    assert ((sums - first).abs() <= 1e-5 * (values * second).sqrt()).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", available_backends("norm_sums"))
def test_sums_over_rows(backend: str, name: str) -> None:
    case = CASES[name]
    rows, center = make_rows(case)
    first, second = exact(rows, center)
    before = rows.clone(), center.clone()
    with use_backend(backend):
        result = norm_sums(rows, center)
    assert result.dtype == torch.float64 and result.shape == (case.segments, 2 * case.groups)
    assert_close(result, first.sum(1), second.sum(1), case.rows * case.channels // case.groups)
    assert same_bits(before[0], rows) and same_bits(before[1], center)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", available_backends("norm_sums_per_row"))
def test_sums_of_each_row(backend: str, name: str) -> None:
    case = CASES[name]
    rows, center = make_rows(case)
    before = rows.clone(), center.clone()
    with use_backend(backend):
        result = norm_sums_per_row(rows, center)
    assert result.dtype == torch.float32 and result.shape == (case.segments, case.rows, 2 * case.groups)
    assert_close(result, *exact(rows, center), case.channels // case.groups)
    assert same_bits(before[0], rows) and same_bits(before[1], center)


@pytest.mark.parametrize("name", CASES)
def test_sums_give_group_norm_statistics(name: str) -> None:
    """Mean and variance by the shifted formula, where one-pass fp32 moments would lose four digits."""
    case = CASES[name]
    rows, center = make_rows(case)
    count = case.rows * case.channels // case.groups
    first, second = (norm_sums(rows, center) / count).chunk(2, -1)
    groups = rows.double().transpose(1, 2).reshape(case.segments, case.groups, -1)
    variance = groups.var(-1, correction=0)
    scale = (variance + (center.double() - groups.mean(-1)).square()).sqrt()  # what the shifted values are large of
    assert ((center.double() + first - groups.mean(-1)).abs() <= 1e-5 * scale).all()
    assert ((second - first.square() - variance).abs() <= 1e-5 * scale.square()).all()


def test_exchange_of_rows_updates_sums() -> None:
    """S - S_old(active) + S_new(active) equals the sums of the composite map."""
    whole, center = 100 + randn(2, 500, 60, seed=3), torch.full((2, 4), 100.0, device=DEVICE)
    active = torch.arange(7, 500, 11, device=DEVICE)
    new = 98 + 3 * randn(2, active.numel(), 60, seed=4)
    per_row = norm_sums_per_row(whole, center)
    updated = per_row.sum(1, dtype=torch.float64) - per_row[:, active].sum(1, dtype=torch.float64)
    updated += norm_sums(new, center)
    composite = whole.clone()
    composite[:, active] = new
    first, second = exact(composite, center)
    assert_close(updated, first.sum(1), second.sum(1), 500 * 15)


def test_no_rows_sum_to_zero() -> None:
    center = randn(2, 4, seed=5)
    assert torch.equal(
        norm_sums(randn(2, 0, 60, seed=6), center), torch.zeros(2, 8, dtype=torch.float64, device=DEVICE)
    )
    assert norm_sums_per_row(randn(2, 0, 60, seed=6), center).shape == (2, 0, 8)
