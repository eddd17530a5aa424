"""`deltabrush eval`: how near edits by rows come to the regional dense pass, on fixed scenes, masks and prompts.

Both ways share noise, blending and decoding of the same region. "new prompt" paints something else; "new seed" the same
scene again. `--policies` measures every policy and storage format beside the default (benchmarks/policies.py).
`--model-quality` asks whether the starter model paints what it is told (benchmarks/model_quality.py), `--chain` what
ten edits of edits cost, hold and lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chain import chained_edits
from benchmarks.measuring import arguments, publish
from benchmarks.model_quality import measure as measure_model
from benchmarks.policies import DEFAULT, EVERYWHERE, KINDS, REFEREE, WAYS, Log, Way, measure, summary
from benchmarks.triples import SCENES, SIZE, STEPS, triples
from diffusion_engine import EditableDiffusionEngine

CHAINED, CHAINED_AREA = 10, 0.05


def fidelity(ways: Sequence[Way], scenes: int, log: Log) -> dict[str, Any]:
    """The table of ways, and every case that it comes from."""
    cases = triples(scenes)
    measure(cases, ways, KINDS, log)
    return {"triples": len(cases), "table": summary(log.records, ways), "cases": log.records}


def chain() -> list[dict[str, Any]]:
    """Ten edits of 5 %, each on the last one's version, with objects and places that change."""
    engine = EditableDiffusionEngine.from_pretrained("starter")
    base = engine.generate(SCENES[0], size=(SIZE, SIZE), steps=STEPS, seed=0)
    cases = triples(CHAINED, [CHAINED_AREA])
    records = chained_edits(engine, base, [case.mask for case in cases], [case.words for case in cases])
    engine.close()
    return records


def model_quality(count: int) -> dict[str, Any]:
    engine = EditableDiffusionEngine.from_pretrained("starter")
    measured = measure_model(engine, count)
    engine.close()
    return measured


def main(argv: list[str]) -> int:
    only = {"action": "store_true"}
    options = arguments(
        __doc__ or "",
        argv,
        scenes={"type": int, "default": len(SCENES), "help": f"with a mask of each area (default {len(SCENES)})"},
        log={"type": Path, "metavar": "FILE", "help": "keep each case in a file, and go on from those it has"},
        policies={**only, "help": "every policy and storage format, not only the default"},
        chain={**only, "help": "only ten edits of edits: what they cost, hold and lose"},
        model_quality={**only, "help": "only: does the starter model paint what it is asked for"},
        cases={"type": int, "default": 200, "help": "cases of --model-quality (default 200)"},
    )
    figures: dict[str, Any] = {"model": "starter", "size": [SIZE, SIZE], "steps": STEPS}
    if options.model_quality:
        figures["model_quality"] = model_quality(options.cases)
    elif not options.chain:
        ways = WAYS if options.policies else (DEFAULT, REFEREE, EVERYWHERE)
        figures["fidelity"] = fidelity(ways, options.scenes, Log(options.log))
    if not options.model_quality and not options.policies:
        figures["chain"] = chain()
    return publish(figures, options.json)
