"""Fair timing in one process: the things compared take turns, and medians are compared."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels import product_rows

AREAS = (0.012, 0.05, 0.10, 0.30, 1.0)


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def interleaved(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each call; they run in turns, after one unmeasured round."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: statistics.median(values) for name, values in times.items()}


def square_mask(side: int, area: float) -> Tensor:
    """bool [side, side] with a centred square of about the given share of the area."""
    edge = max(1, round(side * area**0.5))
    mask = torch.zeros(side, side, dtype=torch.bool)
    start = (side - edge) // 2
    mask[start : start + edge, start : start + edge] = True
    return mask


def product_rate() -> float:
    """Multiply-adds per second of this machine's best fp32 matrix product (2048 cubed): the fastest of ten."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    with torch.inference_mode():
        return 2048**3 / min(seconds(lambda: product_rows(a, b)) for _ in range(10))


def read_rate() -> float:
    """Bytes per second at which this machine reads memory (a sum over 400 MB): the fastest of ten."""
    numbers = torch.randn(100_000_000)
    return numbers.nbytes / min(seconds(numbers.sum) for _ in range(10))


def arguments(description: str, argv: list[str], **extra: dict[str, Any]) -> argparse.Namespace:
    """Parses --json FILE, --repeats N and further options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument("--repeats", type=int, default=5, help="measured rounds (default 5)")
    for name, options in extra.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    return parser.parse_args(argv)


def publish(figures: Any, target: Path | None) -> int:
    """Prints figures as JSON, and writes them to `target`. Returns the exit status."""
    text = json.dumps(figures, indent=2)
    sys.stdout.write(text + "\n")
    if target is not None:
        target.write_text(text + "\n")
    return 0
