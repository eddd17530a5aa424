"""Ten edits of 5 %, each of the last one's version: what they cost, hold and lose; and going back and forth."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from diffusion_engine import EditableDiffusionEngine, Version


def chained_edits(
    engine: EditableDiffusionEngine, base: Version, masks: list[Any], prompts: list[str]
) -> list[dict[str, Any]]:
    """One record per edit.

    dense_passes: of the edit and its commit; bytes_over_share: what the commit holds, over the active fraction of a
    full recording; undo_s, redo_s: to its parent's caches and back, medians of five
    drift: after the first, the fifth and the last edit, how far the caches are from a fresh dense recording
    outside_differing: values outside all masks so far that are not the first picture's
    """
    first, touched = np.asarray(base.image), np.zeros(masks[0].shape, bool)
    tip, full, records = base, engine.cache_bytes, list[dict[str, Any]]()
    for number, (mask, prompt) in enumerate(zip(masks, prompts, strict=True)):
        passes, held = engine.dense_passes, engine.cache_bytes
        begun = time.perf_counter()
        candidate = engine.edit(tip.id, mask, prompt, seed=number, mode="sparse")[0]
        edited = time.perf_counter()
        parent, tip, report = tip, engine.commit(candidate), candidate.report
        committed = time.perf_counter()
        del candidate  # and what it held
        touched |= mask > 0
        record = {
            "edits": number + 1,
            "edit_s": edited - begun,
            "commit_s": committed - edited,
            "dense_passes": engine.dense_passes - passes,
            "active_fraction": report.active_fraction,
            "commit_bytes": engine.cache_bytes - held,
            "bytes_over_share": (engine.cache_bytes - held) / (full * report.active_fraction),
            **_back_and_forth(engine, parent, tip),
            "outside_differing": int((np.asarray(tip.image)[~touched] != first[~touched]).sum()),
        }
        if number + 1 in (1, 5, len(masks)):
            record["relative_rms"] = engine.drift(tip.id)
        records.append(record)
    return records


def _back_and_forth(engine: EditableDiffusionEngine, parent: Version, tip: Version) -> dict[str, float]:
    times: dict[str, list[float]] = {"undo_s": [], "redo_s": []}
    for _ in range(5):
        for name, version in (("undo_s", parent), ("redo_s", tip)):
            begun = time.perf_counter()
            engine.checkout(version.id)
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values) for name, values in times.items()}
