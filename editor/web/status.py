"""The sentences of the status line, from what was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from diffusion_engine import Progress
from editor.history import Entry
from editor.web.words import say

if TYPE_CHECKING:
    from editor.proposals import Take

Sentences = list[dict[str, Any] | str]


def describe_progress(progress: Progress) -> Sentences:
    known = progress.stage if progress.stage in ("record", "denoise", "decode") else "denoise"
    done = say(f"status.{known}", step=progress.step, steps=progress.steps)
    return [done, say("status.left", seconds=f"{progress.seconds_left:.1f}")] if progress.seconds_left else [done]


def describe_entry(entry: Entry) -> Sentences:
    width, height = entry.image.size
    sentences: Sentences = [say("status.size", width=width, height=height)]
    if entry.report:
        sentences.append(say("status.seconds", seconds=f"{entry.report['seconds']['total']:.2f}"))
    if "seed" in entry.made:
        sentences.append(say("status.seed", seed=entry.made["seed"]))
    return [*sentences, say("status.version", id=entry.id)]


def describe_take(take: Take, changed_outside: int) -> Sentences:
    """`changed_outside`: pixels that differ from the parent where the blend mask is 0, counted, not assumed."""
    report = take.report
    seconds = f"{report.seconds['total']:.2f}"
    if report.mode == "dense":
        cost = say("status.dense", seconds=seconds)
    else:
        cost = say("status.faster", seconds=seconds, times=f"{report.speedup:.1f}")
    return [
        say("status.rows", percent=f"{100 * report.active_fraction:.1f}"),
        cost,
        say("status.outside", pixels=changed_outside),
        *_check(take),
        say("status.seed", seed=take.candidate.seed),
        say("status.cache", megabytes=f"{report.cache_bytes / 1e6:.0f}"),
    ]


def _check(take: Take) -> Sentences:
    if take.check_db is None:
        return []
    if math.isinf(take.check_db):
        return [say("status.check.same")]
    return [say("status.check", decibels=f"{take.check_db:.1f}")]
