"""swap_rows exchanges listed rows and nothing else, and undoes itself."""

from __future__ import annotations

import pytest
import torch

from kernels import available_backends, swap_rows, use_backend
from tests.kernels.row_maps import active_mask, randn, rows_of, same_bits

CASES = {
    "scattered": ("scattered", 60, torch.float32),
    "one row": ("one row", 4, torch.float32),
    "every row": ("full", 320, torch.float32),
    "no row": ("none", 60, torch.float32),
    "border": ("border", 1, torch.float32),
    "bf16": ("scattered", 60, torch.bfloat16),
    "fp16": ("corners", 320, torch.float16),
    "fp64": ("corners", 8, torch.float64),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", available_backends("swap_rows"))
def test_exchanges_and_undoes_itself(backend: str, name: str) -> None:
    kind, channels, dtype = CASES[name]
    shape = (12, 14)
    active = rows_of(active_mask(kind, shape)).flip(0)  # the order of the list is the order of the rows
    base = randn(shape[0] * shape[1], channels, seed=1, dtype=dtype)
    rows = randn(active.numel(), channels, seed=2, dtype=dtype)
    base[::5], rows[::3] = torch.nan, -0.0  # bits survive, whatever they mean
    base_before, rows_before = base.clone(), rows.clone()
    expected = base.clone()
    for place, row in zip(active.tolist(), rows_before, strict=True):
        expected[place] = row
    with use_backend(backend):
        swap_rows(base, active, rows)
        assert same_bits(base, expected)
        assert same_bits(rows, base_before[active])
        swap_rows(base, active, rows)
    assert same_bits(base, base_before) and same_bits(rows, rows_before)


def test_one_branch_of_a_recording() -> None:
    """A branch is a view: its neighbours in memory stay as they are."""
    recorded, rows = randn(3, 168, 60, seed=3), randn(20, 60, seed=4)
    before, active = recorded.clone(), torch.arange(0, 160, 8, device=recorded.device)
    swap_rows(recorded[1], active, rows)
    assert same_bits(recorded[0], before[0]) and same_bits(recorded[2], before[2])
    assert not same_bits(recorded[1], before[1])
