"""The sentences of the status line, from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffusion_engine import Progress

if TYPE_CHECKING:
    from diffusion_engine import Report, Version

STAGES = {"record": "looking at the picture", "denoise": "step", "decode": "turning it into pixels"}


def describe_progress(progress: Progress) -> str:
    left = f" - about {progress.seconds_left:.1f} s left" if progress.seconds_left else ""
    return f"{STAGES.get(progress.stage, progress.stage)} {progress.step} of {progress.steps}{left}"


def describe_version(version: Version) -> str:
    width, height = version.image.size
    return f"{width} x {height} - made in {_seconds(version.report)} - seed {version.seed} - {_cached(version.report)}"


def describe_edit(report: Report, changed_outside: int, seed: int) -> str:
    """`changed_outside`: pixels that differ from the parent where the blend mask is 0, counted, not assumed."""
    faster = f", {report.speedup:.1f}x faster than dense" if report.mode != "dense" else ", dense"
    return (
        f"recomputed {100 * report.active_fraction:.1f} % of the rows - {_seconds(report)}{faster}"
        f" - {changed_outside} pixels changed outside - seed {seed} - {_cached(report)}"
    )


def _seconds(report: Report) -> str:
    return f"{report.seconds.get('total', sum(report.seconds.values())):.2f} s"


def _cached(report: Report) -> str:
    return f"{report.cache_bytes / 1e6:.0f} MB cached"
