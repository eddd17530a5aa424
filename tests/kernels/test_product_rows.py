"""Rows times a weight, in every formulation that sizes select, against fp64."""

from __future__ import annotations

import pytest
import torch

from kernels import available_backends, product_rows, use_backend
from tests.engine.small_models import relative_rms
from tests.kernels.row_maps import randn

# (rows, depth K, width N); large weights stream as the image below 512 rows, the rows do from there on
SIZES = [
    (1, 4, 4),
    (1, 1280, 1280),
    (7, 60, 320),
    (33, 2880, 320),
    (511, 1280, 640),
    (512, 320, 960),
    (513, 60, 60),
    (600, 8640, 96),
    (2048, 320, 4),
]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("backend", available_backends("product_rows"))
def test_equals_the_product(backend: str, size: tuple[int, int, int], bias: bool) -> None:
    rows, depth, width = size
    x, weight = randn(rows, depth, seed=1), randn(width, depth, seed=2)
    b = randn(width, seed=3) if bias else None
    expected = x.double() @ weight.double().t() + (0 if b is None else b.double())
    before = x.clone(), weight.clone()
    with use_backend(backend):
        result = product_rows(x, weight, b)
    assert result.shape == (rows, width) and result.is_contiguous()
    assert relative_rms(result, expected) < 1e-5
    assert torch.equal(x, before[0]) and torch.equal(weight, before[1])


@pytest.mark.parametrize("shape", [(2, 0, 64), (2, 300, 64), (2, 3, 64), (1, 1, 1, 64)], ids=str)
def test_leading_dimensions_are_kept(shape: tuple[int, ...]) -> None:
    x, weight = randn(*shape, seed=1), randn(32, 64, seed=2)
    assert product_rows(x, weight).shape == (*shape[:-1], 32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_left_to_torch(dtype: torch.dtype) -> None:
    x, weight = randn(600, 64, seed=1, dtype=dtype), randn(32, 64, seed=2, dtype=dtype)
    assert relative_rms(product_rows(x, weight).float(), x.float() @ weight.float().t()) < 2e-2


def test_slices_of_rows_need_not_be_contiguous() -> None:
    x, weight = randn(1030, 128, seed=1)[::2, :64], randn(32, 64, seed=2)
    assert relative_rms(product_rows(x, weight), x.double() @ weight.double().t()) < 1e-5
