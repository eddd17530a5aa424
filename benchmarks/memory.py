"""`deltabrush bench memory`: what recordings take in each number format, and what that costs in quality and time.

For each format, on the starter model at 512 px: bytes of a recording and of a committed edit, PSNR of edits by rows
inside the mask against the same edits over an fp32 recording and against the dense pass, and seconds of an edit; edits
of the formats take turns. Also, of self-attention: seconds to read kept keys and values against making them again from
the block's kept input, by which it is decided what to keep. `--shape sd15` does instead one edit on an SD 1.5-shaped
model under `--memory` and `--disk` gigabytes, and says where its caches went.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measuring import arguments, interleaved, publish
from benchmarks.picture_measures import psnr
from benchmarks.shapes import sd15_engine
from benchmarks.triples import SIZE, STEPS, triples
from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.cache_settings import CacheSettings
from kernels import StoredRows, product_rows

AREAS = (0.05, 0.10)
FORMATS = ("fp32", "bf16", "fp16", "int8", "auto")


def table(scenes: int, steps: int) -> list[dict[str, Any]]:
    """One record per number format; PSNR is the median over all triples, edits of 5 and 10 %."""
    engines = {one: EditableDiffusionEngine.from_pretrained("starter", cache_dtype=one) for one in FORMATS}
    found: dict[str, dict[str, list[float]]] = {
        one: {"against_fp32_db": [], "against_dense_db": [], "edit_s": []} for one in FORMATS
    }
    sizes: dict[str, dict[str, float]] = {}
    for case in triples(scenes, AREAS):
        inside, pictures, dense = case.mask > 0, dict[str, Any](), None
        for one, engine in engines.items():
            base = engine.generate(case.scene, size=(SIZE, SIZE), steps=steps, seed=case.number)
            full, begun = engine.cache_bytes, time.perf_counter()
            [candidate] = engine.edit(base.id, case.mask, case.words, seed=case.seed, mode="sparse")
            found[one]["edit_s"].append(time.perf_counter() - begun)
            pictures[one] = np.asarray(candidate.image)
            if dense is None:
                dense = engine.edit(base.id, case.mask, case.words, seed=case.seed, mode="dense")[0].image
            share = (engine.cache_bytes - full) / full / candidate.report.active_fraction
            sizes[one] = {"recording_bytes": full, "edit_over_active_share": share}
            engine.forget(base.id)
        for one, picture in pictures.items():
            found[one]["against_fp32_db"].append(psnr(picture, pictures["fp32"], inside))
            found[one]["against_dense_db"].append(psnr(picture, np.asarray(dense), inside))
    for engine in engines.values():
        engine.close()
    return [
        {
            "format": one,
            **sizes[one],
            **{name: statistics.median(values) for name, values in found[one].items()},
            "lost_db": statistics.median(
                a - b for a, b in zip(found["fp32"]["against_dense_db"], found[one]["against_dense_db"], strict=True)
            ),
        }
        for one in FORMATS
    ]


def keys_and_values(repeats: int) -> list[dict[str, Any]]:
    """Seconds to have all keys and values of a map: kept in fp16, or made again from the block's kept input."""
    records: list[dict[str, Any]] = []
    for rows, channels in ((4096, 320), (1024, 640), (256, 1280), (1024, 128), (256, 192)):
        with torch.inference_mode():
            kept = StoredRows(torch.randn(2, rows, 2 * channels).half())
            source, weight = StoredRows(torch.randn(2, rows, channels).half()), torch.randn(2 * channels, channels)
            median = interleaved(
                {
                    "kept_s": lambda kept=kept: kept.whole(torch.float32),
                    "made_again_s": lambda source=source, weight=weight: product_rows(
                        source.whole(torch.float32), weight
                    ),
                },
                repeats,
            )
        records.append({"rows": rows, "channels": channels, **median, "bytes": kept.nbytes, "input": source.nbytes})
    return records


def spilling(memory: float, disk: float, steps: int) -> dict[str, Any]:
    """An SD 1.5-shaped model at 512 px with guidance: a recording and an edit by rows under budgets in gigabytes."""
    with tempfile.TemporaryDirectory() as folder:
        caches = CacheSettings(int(memory * 2**30), disk_bytes=int(disk * 2**30), folder=Path(folder))
        engine = sd15_engine(caches)
        begun = time.perf_counter()
        base = engine.generate("a picture", size=(SIZE, SIZE), steps=steps, seed=1)
        recorded, held = time.perf_counter() - begun, engine.memory().held
        first, second = triples(2, AREAS[:1])
        [candidate] = engine.edit(base.id, first.mask, first.words, seed=2, mode="sparse")
        tip = engine.commit(candidate)
        report = engine.memory()
        passes = engine.dense_passes
        again = engine.edit(tip.id, second.mask, second.words, seed=3, mode="sparse")[0].report
        figures = {
            "steps": steps,
            "guidance": base.guidance,
            "budget": report.budget,
            "recorded": {"seconds": recorded, "held": held},
            "edit": candidate.report.as_dict(),
            "after_commit": {"held": report.held, "by_version": list(report.by_version.values())},
            "edit_of_the_edit": {"seconds": again.seconds["total"], "dense_passes": engine.dense_passes - passes},
            "faults": engine.cache_faults,
        }
        engine.close()
    return figures


def main(argv: list[str]) -> int:
    options = arguments(
        __doc__ or "",
        argv,
        shape={"choices": ("starter", "sd15"), "default": "starter", "help": "which model (default starter)"},
        scenes={"type": int, "default": 6, "help": "scenes of the table, two triples each (default 6)"},
        steps={"type": int, "default": STEPS, "help": f"sampler steps (default {STEPS})"},
        memory={"type": float, "default": 2.0, "help": "of --shape sd15: gigabytes of memory for caches (default 2)"},
        disk={"type": float, "default": 16.0, "help": "of --shape sd15: gigabytes of disk for caches (default 16)"},
    )
    if options.shape == "sd15":
        return publish(spilling(options.memory, options.disk, options.steps), options.json)
    figures = {
        "model": "starter",
        "size": [SIZE, SIZE],
        "steps": options.steps,
        "formats": table(options.scenes, options.steps),
        "keys_and_values": keys_and_values(options.repeats),
    }
    return publish(figures, options.json)
