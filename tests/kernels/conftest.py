"""Every kernel test runs with new memory filled with NaN, so that an output row nobody wrote cannot pass for zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def poisoned_memory() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)  # with it, torch.empty and its kind come filled
    assert torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)
