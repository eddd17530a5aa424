"""Choosing a backend: automatic by device, forced or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch

from kernels import available_backends, norm_sums, registry, use_backend

OPERATIONS = ["attend_rows", "conv_rows", "norm_sums", "norm_sums_per_row", "swap_rows"]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


Backends = dict[tuple[str, str], Callable[..., float]]


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> Backends:
    """One operation with two backends and one with torch alone, in a registry of their own."""
    monkeypatch.setattr(registry, "_implementations", {})
    made: Backends = {
        ("doubled", "torch"): lambda x: 2 * x,
        ("doubled", "triton"): lambda x: x + x,
        ("halved", "torch"): lambda x: x / 2,
    }
    for (operation, backend), function in made.items():
        assert registry.register(operation, backend)(function) is function
    return made


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_a_reference(operation: str) -> None:
    assert "torch" in available_backends(operation)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_forced_backend_that_is_missing_is_named(operation: str) -> None:
    with use_backend("abacus"), pytest.raises(ValueError, match=rf"{operation} .*'abacus'.*choose one of torch"):
        registry.select(operation, CPU)


def test_the_public_functions_ask_the_registry() -> None:
    with use_backend("abacus"), pytest.raises(ValueError, match="norm_sums has no backend"):
        norm_sums(torch.ones(1, 1, 4), torch.zeros(1, 1))


@pytest.mark.parametrize(
    "operation,device,forced,expected",
    [
        ("doubled", CPU, None, "torch"),
        ("doubled", GPU, None, "triton"),
        ("halved", GPU, None, "torch"),
        ("doubled", CPU, "triton", "triton"),
        ("doubled", GPU, "torch", "torch"),
    ],
)
def test_choice(backends: Backends, operation: str, device: torch.device, forced: str | None, expected: str) -> None:
    with use_backend(forced) if forced else nullcontext():
        assert registry.select(operation, device) is backends[operation, expected]


@pytest.mark.usefixtures("backends")
def test_a_forced_backend_is_never_replaced() -> None:
    with use_backend("triton"), pytest.raises(ValueError, match=r"halved has no backend named 'triton'; .* torch\."):
        registry.select("halved", GPU)


@pytest.mark.usefixtures("backends")
def test_names_are_listed_in_the_order_of_registration() -> None:
    assert available_backends("doubled") == ("torch", "triton")


def test_forcing_ends_with_its_block_and_nests(backends: Backends) -> None:
    torch_version, triton_version = backends["doubled", "torch"], backends["doubled", "triton"]
    with use_backend("triton"):
        with pytest.raises(RuntimeError, match="inside"), use_backend("torch"):
            assert registry.select("doubled", CPU) is torch_version
            raise RuntimeError("inside")
        assert registry.select("doubled", CPU) is triton_version
    assert registry.select("doubled", CPU) is torch_version


def test_an_operation_nobody_registered() -> None:
    with pytest.raises(KeyError, match="cross_stitch"):
        registry.select("cross_stitch", CPU)
    with pytest.raises(KeyError, match="cross_stitch"):
        available_backends("cross_stitch")
