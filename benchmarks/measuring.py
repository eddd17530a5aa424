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

from diffusion_engine.plan import Plan
from diffusion_engine.recorder import to_rows
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


def against_dense(
    dense: dict[str, Callable[[], Tensor]],
    sparse: Callable[[Plan], Tensor],
    make_plan: Callable[[Tensor], Plan],
    macs: Callable[[Plan], int],
    *,
    side: int,
    repeats: int,
    weight_bytes: int = 0,
) -> list[dict[str, Any]]:
    """One record per mask area of a network by rows against its dense forward, all taking turns.

    dense: the storages that the dense forward is timed in; the fastest is what counts, the first is compared with
    sparse, make_plan: the pass by rows over a plan, and the plan of a mask bool [side, side]
    macs, weight_bytes: of one pass. Two floors say what is possible: the multiply-adds run at the rate of this
    machine's best matrix product, and the weights are read once.
    """
    masks = {area: square_mask(side, area) for area in AREAS}
    plans = {area: make_plan(mask) for area, mask in masks.items()}
    calls: dict[str, Callable[[], object]] = {**dense}
    for area, plan in plans.items():
        calls[str(area)] = lambda plan=plan: sparse(plan)
    macs_per_s, bytes_per_s = product_rate(), read_rate()
    with torch.inference_mode():
        expected = to_rows(next(iter(dense.values()))())
        median = interleaved(calls, repeats)
    macs_per_s, bytes_per_s = max(macs_per_s, product_rate()), max(bytes_per_s, read_rate())  # best of a noisy machine
    fastest = min(median[name] for name in dense)
    figures: list[dict[str, Any]] = []
    for area, plan in plans.items():
        active, seconds_taken = plan.levels[0].active, median[str(area)]
        floors = {"products": macs(plan) / macs_per_s, "weights": weight_bytes / bytes_per_s}
        figures.append(
            {
                "area": round(float(masks[area].float().mean()), 4),
                "active_fraction": [round(fraction, 4) for fraction in plan.active.fractions],
                "dense_s": {name: median[name] for name in dense},
                "sparse_s": seconds_taken,
                "speedup": fastest / seconds_taken,
                "max_abs_error": float((to_rows(sparse(plan))[:, active] - expected[:, active]).abs().max()),
                "floor_s": floors,
                "floor_share": max(floors.values()) / seconds_taken,
            }
        )
    return figures


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
