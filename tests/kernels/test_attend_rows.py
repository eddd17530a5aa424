"""attend_rows against an explicit softmax over the composite map, in fp64."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kernels import attend_rows, available_backends, use_backend
from tests.engine.small_models import relative_rms
from tests.kernels.row_maps import active_mask, composite, randn, rows_of, same_bits


@dataclass(frozen=True)
class Case:
    """scale: of queries and keys; large ones make the softmax pick single rows"""

    shape: tuple[int, int] = (12, 14)
    channels: int = 60
    heads: int = 3
    active: str = "scattered"
    branch_of: tuple[int, ...] = (0, 1)
    scale: float = 1.0
    storage: torch.dtype = torch.float32


CASES = {
    "plain": Case(),
    "4 channels, one head": Case(channels=4, heads=1),
    "4 channels, four heads": Case(channels=4, heads=4),
    "320 channels": Case(channels=320, heads=8),
    "one row": Case(active="one row"),
    "corners": Case(active="corners"),
    "every row": Case(active="full"),
    "no row": Case(active="none"),
    "map of one row": Case((1, 1), active="full"),
    "one segment": Case(branch_of=(0,)),
    "two segments share a branch": Case(branch_of=(0, 0)),
    "six segments over two branches": Case(branch_of=(0, 0, 0, 1, 1, 1)),
    "one segment of the second branch": Case(branch_of=(1,)),
    "every row, two segments share a branch": Case(active="full", branch_of=(0, 0)),
    "sharp": Case(scale=8.0),
    "recorded in bf16": Case(storage=torch.bfloat16),
    "recorded in fp16, branch shared": Case(storage=torch.float16, branch_of=(0, 0, 0)),
}


@dataclass(frozen=True)
class Inputs:
    query: Tensor
    key: Tensor
    value: Tensor
    base_key: Tensor
    base_value: Tensor
    rows: Tensor

    def poison(self) -> None:
        """Recorded rows that active ones stand in for are never read."""
        self.base_key[:, self.rows] = torch.nan
        self.base_value[:, self.rows] = torch.nan


def make_inputs(case: Case) -> Inputs:
    rows = rows_of(active_mask(case.active, case.shape))
    new = (len(case.branch_of), rows.numel(), case.channels)
    old = (max(case.branch_of) + 1, case.shape[0] * case.shape[1], case.channels)
    query, key, value = (randn(*new, seed=seed) for seed in (1, 2, 3))
    base_key, base_value = (randn(*old, seed=seed) for seed in (4, 5))
    root = case.scale**0.5
    return Inputs(
        query * root, key * root, value, (base_key * root).to(case.storage), base_value.to(case.storage), rows
    )


def plain(case: Case, given: Inputs) -> Tensor:
    """fp64 [S, M, C], head by head"""
    keys = composite(given.key, given.base_key, given.rows, case.branch_of)
    values = composite(given.value, given.base_value, given.rows, case.branch_of)
    width = case.channels // case.heads
    mixed: list[Tensor] = []
    for head in range(case.heads):
        part = slice(head * width, (head + 1) * width)
        scores = given.query[..., part].double() @ keys[..., part].transpose(1, 2) / width**0.5
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        mixed.append(weights / weights.sum(-1, keepdim=True) @ values[..., part])
    return torch.cat(mixed, -1)


def run(case: Case, given: Inputs) -> Tensor:
    return attend_rows(
        given.query,
        given.key,
        given.value,
        given.base_key,
        given.base_value,
        given.rows,
        case.heads,
        branch_of=case.branch_of,
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", available_backends("attend_rows"))
def test_equals_softmax_over_the_composite_map(backend: str, name: str) -> None:
    case = CASES[name]
    given = make_inputs(case)
    expected = plain(case, given)
    given.poison()
    before = [tensor.clone() for tensor in vars(given).values()]
    with use_backend(backend):
        result = run(case, given)
    assert result.shape == expected.shape and result.dtype == torch.float32
    assert result.numel() == 0 or relative_rms(result, expected) < 1e-5
    assert all(same_bits(old, new) for old, new in zip(before, vars(given).values(), strict=True))


@pytest.mark.parametrize("branch_of", [(0, 1), (0, 0, 1)], ids=["batched", "one by one"])
def test_recording_survives_a_failure_inside(branch_of: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory while attending: the keys and values that were written over are back."""
    case = Case(branch_of=branch_of)
    given = make_inputs(case)
    before = given.base_key.clone(), given.base_value.clone()
    seen: list[bool] = []

    def fail(_query: Tensor, key: Tensor, _value: Tensor) -> Tensor:
        seen.append(bool((key.transpose(1, 2).flatten(2)[0, given.rows] == given.key[0]).all()))
        raise torch.OutOfMemoryError

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", fail)
    with use_backend("torch"), pytest.raises(torch.OutOfMemoryError):
        run(case, given)
    assert seen == [True], "the failure came while the new keys were in place"
    assert same_bits(before[0], given.base_key) and same_bits(before[1], given.base_value)


def test_new_keys_matter() -> None:
    """The composite, not the recorded map, is attended to: other keys of one active row change every output."""
    case = Case(active="corners")
    given = make_inputs(case)
    first = run(case, given)
    given.key[:, 0] += 3
    assert ((run(case, given) - first).abs().amax(-1) > 1e-4).all()
