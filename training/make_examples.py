"""`python -m training.make_examples`: the pictures, masks and prompts that the editor offers on a first visit.

Seeds were chosen by eye, for a clear picture and for an edit that shows what it says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diffusion_engine import EditableDiffusionEngine
from training.mask_shapes import Ellipse, Lasso, Shape, Stroke, draw_mask

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "examples"
SIZE = (512, 512)
STEPS, GUIDANCE = 20, 4.0


@dataclass(frozen=True)
class Scene:
    """A picture of the starter model, the mask painted on it, and what to paint inside that."""

    name: str
    title: str
    prompt: str
    seed: int
    mask: tuple[Shape, ...]
    edit_prompt: str
    edit_seed: int


SCENES = (
    Scene(
        name="moon",
        title="The sea at night",
        prompt="the sea under a starry night sky",
        seed=5,
        mask=(Ellipse((296, 76, 404, 184)),),
        edit_prompt="a full moon",
        edit_seed=3,
    ),
    Scene(
        name="flowers",
        title="Green hills",
        prompt="green hills under a clear blue sky",
        seed=6,
        mask=(Lasso(((0, 420), (120, 410), (256, 417), (400, 408), (512, 419), (512, 512), (0, 512))),),
        edit_prompt="a flower meadow",
        edit_seed=1,
    ),
    Scene(
        name="sun",
        title="The sea at sunrise",
        prompt="the sea, pink sunrise sky",
        seed=5,
        mask=(Ellipse((194, 238, 318, 362)),),
        edit_prompt="an orange sun",
        edit_seed=4,
    ),
    Scene(
        name="fish",
        title="Under water",
        prompt="underwater",
        seed=1,
        mask=(
            Ellipse((166, 202, 346, 310)),
            Lasso(((322, 256), (391, 206), (391, 306))),
            Lasso(((229, 211), (265, 170), (292, 216))),
        ),
        edit_prompt="an orange fish",
        edit_seed=3,
    ),
    Scene(
        name="sky",
        title="Desert dunes",
        prompt="desert dunes, clear blue sky",
        seed=4,
        mask=(Stroke(110, ((10, 178), (90, 172), (130, 166))),),
        edit_prompt="a clear blue sky",
        edit_seed=4,
    ),
    Scene(
        name="fire",
        title="Hills at night",
        prompt="green hills under a starry night sky",
        seed=5,
        mask=(
            Lasso(
                (
                    *((290, 270), (294, 275), (306, 289), (320, 311), (335, 339), (346, 370), (350, 401), (345, 429)),
                    *((333, 451), (313, 465), (290, 470), (267, 465), (247, 451), (235, 429), (230, 401), (234, 370)),
                    *((245, 339), (260, 311), (274, 289), (286, 275)),
                )
            ),
        ),
        edit_prompt="a fire",
        edit_seed=8,
    ),
)


def make(scene: Scene, engine: EditableDiffusionEngine, folder: Path) -> dict[str, Any]:
    """Writes the picture and the mask of a scene; returns its entry of the list."""
    picture, mask = f"{scene.name}.png", f"{scene.name}-mask.png"
    made = engine.generate(scene.prompt, size=SIZE, steps=STEPS, seed=scene.seed, guidance=GUIDANCE)
    made.image.save(folder / picture, optimize=True)
    draw_mask(scene.mask, SIZE).save(folder / mask, optimize=True)
    engine.forget(made.id)
    return {
        "name": scene.name,
        "title": scene.title,
        "prompt": scene.prompt,
        "seed": scene.seed,
        "steps": STEPS,
        "guidance": GUIDANCE,
        "edit_prompt": scene.edit_prompt,
        "edit_seed": scene.edit_seed,
        "picture": picture,
        "mask": mask,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.make_examples", description="Makes the example pictures.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write them (default: assets/examples)")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums in one order, so that the bytes do not depend on the number of cores
    engine = EditableDiffusionEngine.from_pretrained("starter", device="cpu", offline=True, cache_memory_bytes=0)
    entries: list[dict[str, Any]] = []
    for scene in SCENES:
        entries.append(make(scene, engine, folder))
        print(scene.name, flush=True)
    engine.close()
    (folder / "examples.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
