"""`deltabrush eval`: how near edits by rows come to the regional dense pass, on fixed scenes, masks and prompts.

Both ways share noise, blending and decoding of the same region; PSNR is of the decoded pixels before blending shows
them. "new prompt" paints something else; "new seed" the same scene again. `--ablation` measures on fewer scenes which
approximation costs most, by taking each away in turn. `--model-quality` asks whether the starter model paints what it
is told (benchmarks/model_quality.py).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from benchmarks.chain import chained_edits
from benchmarks.measuring import arguments, publish
from benchmarks.model_quality import measure
from diffusion_engine import EditableDiffusionEngine, PlanPolicy, StepPolicy, Version

SIZE, STEPS, RIM = 512, 20, 16
SCENES = (
    "desert dunes under a clear blue sky",
    "green hills under a starry night sky",
    "the sea under an orange sunset sky",
    "snowy mountains under a grey sky",
    "a flower meadow under a blue sky",
    "a plain blue background",
    "a beach under a pink sunrise sky",
    "a pine forest under a cloudy sky",
    "rocky mountains under a starry night sky",
    "a city at night",
    "a red brick wall",
    "underwater",
)
OBJECTS = (
    "a red balloon",
    "a cactus",
    "a sailboat",
    "a cat",
    "a yellow star",
    "a green tree",
    "a teapot",
    "a house",
    "a rocket",
    "a mushroom",
    "a penguin",
    "an apple",
)


@dataclass(frozen=True)
class Triple:
    """One fixed case: scene, object and a square mask of 5 or 10 % of the area."""

    number: int
    scene: str
    thing: str
    area: float

    @property
    def mask(self) -> NDArray[np.uint8]:
        """uint8 [512, 512]; the square's place differs from case to case."""
        edge = round(SIZE * self.area**0.5 / 8) * 8
        places = np.random.default_rng(self.number).integers(0, SIZE - edge, 2)
        mask = np.zeros((SIZE, SIZE), np.uint8)
        mask[places[0] : places[0] + edge, places[1] : places[1] + edge] = 255
        return mask


def triples(scenes: int) -> list[Triple]:
    """Two cases per scene, of 5 and of 10 %, with objects that go round."""
    cases: list[Triple] = []
    for index in range(scenes):
        for offset, area in enumerate((0.05, 0.10)):
            thing = OBJECTS[(5 * index + 7 * offset) % len(OBJECTS)]
            cases.append(Triple(2 * index + offset, SCENES[index % len(SCENES)], thing, area))
    return cases


def psnr(a: NDArray[Any], b: NDArray[Any], where: NDArray[np.bool_]) -> float:
    """Peak signal-to-noise ratio in dB of 8-bit pixels [H, W, 3] where asked; 99 where they are equal."""
    error = float(((a.astype(float) - b.astype(float))[where] ** 2).mean())
    return min(99.0, 10 * float(np.log10(255**2 / error))) if error else 99.0


def ssim(a: NDArray[Any], b: NDArray[Any], where: NDArray[np.bool_]) -> float:
    """Structural similarity (Wang et al. 2004) of the grey pictures over 7 x 7 windows, its mean where asked."""
    x, y = (torch.from_numpy(one.mean(2)).float()[None] for one in (a, b))

    def mean(values: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(values, 7, 1, 3, count_include_pad=False)

    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    index = (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return float(index[0][torch.from_numpy(where)].mean())


def compare(
    engine: EditableDiffusionEngine, base: Version, case: Triple, prompt: str, policy: StepPolicy | None = None
) -> dict[str, float]:
    """PSNR and SSIM of one edit by rows against the regional dense pass with the same noise."""
    seed = 100 + case.number
    options: dict[str, Any] = {"seed": seed, "mode": "sparse", "policy": policy}
    rows = np.asarray(engine.edit(base.id, case.mask, prompt, **options)[0].image)
    dense = np.asarray(engine.edit(base.id, case.mask, prompt, seed=seed, mode="dense")[0].image)
    inside = case.mask > 0
    inner = np.zeros_like(inside)
    y, x = np.nonzero(inside)
    inner[y.min() + RIM : y.max() + 1 - RIM, x.min() + RIM : x.max() + 1 - RIM] = True
    outside_differs = int((rows[~inside] != np.asarray(base.image)[~inside]).sum())
    return {
        "inside_db": psnr(rows, dense, inside),
        "rim_db": psnr(rows, dense, inside & ~inner),
        "ssim": ssim(rows, dense, inside),
        "outside_differing": outside_differs,
    }


def fidelity(engine: EditableDiffusionEngine, scenes: int) -> dict[str, Any]:
    """Medians over all triples, by area and kind, with every case listed."""
    listed: list[dict[str, Any]] = []
    base: Version | None = None
    for case in triples(scenes):
        if base is None or base.prompt != case.scene:
            base = engine.generate(case.scene, size=(SIZE, SIZE), steps=STEPS, seed=case.number)
        for kind, prompt in (("new prompt", case.thing), ("new seed", case.scene)):
            figures = compare(engine, base, case, prompt)
            listed.append({"kind": kind, "area": case.area, "scene": case.scene, "prompt": prompt, **figures})
    medians: dict[str, Any] = {}
    for kind in ("new prompt", "new seed"):
        for area in (0.05, 0.10, None):
            chosen = [one for one in listed if one["kind"] == kind and area in (one["area"], None)]
            label = f"{kind}, {'all' if area is None else f'{area:.0%}'}"
            medians[label] = {
                key: statistics.median(one[key] for one in chosen) for key in ("inside_db", "rim_db", "ssim")
            }
    return {
        "medians": medians,
        "outside_differing": sum(one["outside_differing"] for one in listed),
        "triples": len(listed) // 2,
        "cases": listed,
    }


def ablation(engine: EditableDiffusionEngine, scenes: int) -> dict[str, Any]:
    """Median PSNR inside the mask, new prompts, when one approximation is changed or taken away."""
    default = engine.plan_policy
    variants: dict[str, tuple[PlanPolicy, Any, StepPolicy]] = {
        "default": (default, "delta", StepPolicy()),
        "ring of 1 at every level": (PlanPolicy((1,)), "delta", StepPolicy()),
        "ring of 4 at every level": (PlanPolicy((4,)), "delta", StepPolicy()),
        "deepest level whole": (PlanPolicy((*default.grow[:2], 99)), "delta", StepPolicy()),
        "frozen norm statistics": (default, "cached", StepPolicy()),
        "first 2 steps dense": (default, "delta", StepPolicy(dense_first=2)),
        "last 2 steps dense": (default, "delta", StepPolicy(dense_last=2)),
        "every 5th step dense": (default, "delta", StepPolicy(refresh_every=5)),
    }
    found: dict[str, list[float]] = {name: [] for name in variants}
    for case in triples(scenes):
        base = engine.generate(case.scene, size=(SIZE, SIZE), steps=STEPS, seed=case.number)
        for name, (plan, norm, policy) in variants.items():
            engine.plan_policy, engine.norm_policy = plan, norm
            found[name].append(compare(engine, base, case, case.thing, policy)["inside_db"])
        engine.plan_policy, engine.norm_policy = default, "delta"
    return {name: {"median_db": statistics.median(values), "cases_db": values} for name, values in found.items()}


def chain(engine: EditableDiffusionEngine, edits: int = 10) -> list[dict[str, Any]]:
    """Ten edits of 5 %, each on the last one's version, with objects and places that change."""
    base = engine.generate(SCENES[0], size=(SIZE, SIZE), steps=STEPS, seed=0)
    masks = [Triple(50 + number, "", "", 0.05).mask for number in range(edits)]
    return chained_edits(engine, base, masks, list(OBJECTS[:edits]))


def main(argv: list[str]) -> int:
    scenes = {"type": int, "default": 12, "help": "scenes, two triples each (default 12)"}
    only = {"action": "store_true", "help": "which approximation costs most, instead"}
    quality = {"action": "store_true", "help": "does the starter model paint what it is asked for, instead"}
    cases = {"type": int, "default": 200, "help": "cases of --model-quality (default 200)"}
    chained = {"action": "store_true", "help": "only ten edits of edits: what they cost, hold and lose"}
    options = arguments(
        __doc__ or "", argv, chain=chained, scenes=scenes, ablation=only, model_quality=quality, cases=cases
    )
    engine = EditableDiffusionEngine.from_pretrained("starter")
    figures: dict[str, Any] = {"model": "starter", "size": [SIZE, SIZE], "steps": STEPS}
    figures["grow"] = list(engine.plan_policy.grow)
    if options.chain:
        figures["chain"] = chain(engine)
    elif options.model_quality:
        figures["model_quality"] = measure(engine, options.cases)
    elif options.ablation:
        figures["ablation"] = ablation(engine, options.scenes)
    else:
        figures["fidelity"] = fidelity(engine, options.scenes)
        figures["chain"] = chain(engine)
    engine.close()
    return publish(figures, options.json)
