"""Bad input: one sentence that names the field and the range, and nothing computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import EditableDiffusionEngine, UserError, Version
from diffusion_engine.noise import SEEDS
from tests.engine.conftest import square

SIZE = (64, 64)
NAN = float("nan")


@pytest.fixture(scope="module")
def base(starter: EditableDiffusionEngine) -> Version:
    return starter.generate("the sea", size=SIZE, steps=2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": -1}, "steps"),
        ({"steps": 10**9}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": "ten"}, "steps"),
        ({"steps": True}, "steps"),
        ({"guidance": NAN}, "guidance"),
        ({"guidance": float("inf")}, "guidance"),
        ({"guidance": -1}, "guidance"),
        ({"guidance": "much"}, "guidance"),
        ({"seed": -1}, "seed"),
        ({"seed": SEEDS}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"sampler": "magic"}, "magic"),
        ({"sampler": "FlowMatchEulerDiscreteScheduler"}, "FlowMatch"),
        ({"sampler": "DPMSolverSDEScheduler"}, "SDE"),
        ({"size": (63, 64)}, "64"),
        ({"size": (64, 100_000)}, "megapixels"),
        ({"size": (64.0, 64)}, "size"),
        ({"size": 512}, "size"),
        ({"prompt": None}, "prompt"),
        ({"negative_prompt": 3}, "negative prompt"),
    ],
    ids=str,
)
def test_generate_refuses(starter: EditableDiffusionEngine, options: dict[str, Any], named: str) -> None:
    passes = starter.dense_passes
    with pytest.raises(UserError, match=named) as refused:
        starter.generate(**{"prompt": "the sea", "size": SIZE, **options})
    assert starter.dense_passes == passes and "\n" not in str(refused.value)


MASK = square(SIZE, 8, 8, 16)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mask": np.zeros((64, 65), np.uint8)}, "65 x 64.*64 x 64"),
        ({"mask": np.zeros((64, 64, 3), np.uint8)}, "3 x 64 x 64"),
        ({"mask": Image.new("L", (32, 64))}, "32 x 64"),
        ({"mask": np.full((64, 64), 300, np.int32)}, "int32"),
        ({"mask": np.full((64, 64), NAN)}, "0 to 1"),
        ({"mask": np.full((64, 64), 2.0)}, "0 to 1"),
        ({"mask": None}, "mask"),
        ({"blend_mask": np.zeros((1, 1), np.uint8)}, "blend mask"),
        ({"strength": 0}, "strength"),
        ({"strength": 1.01}, "strength"),
        ({"strength": NAN}, "strength"),
        ({"variations": 0}, "variations"),
        ({"variations": 99}, "variations"),
        ({"seed": -1}, "seed"),
        ({"guidance": 51}, "guidance"),
        ({"mode": "fast"}, "mode"),
        ({"prompt_scope": "here"}, "prompt_scope"),
        ({"prompt": 7}, "prompt"),
        ({"version_id": "nowhere"}, "nowhere"),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
def test_edit_refuses(starter: EditableDiffusionEngine, base: Version, options: dict[str, Any], named: str) -> None:
    def refuse(_: Any) -> None:
        raise AssertionError("something was computed")

    arguments = {"version_id": base.id, "mask": MASK, "prompt": "a cat", **options}
    with pytest.raises(UserError, match=named) as refused:
        starter.edit(**arguments, on_progress=refuse)
    assert "\n" not in str(refused.value)


def test_A13_faint_paint_counts_as_paint(starter: EditableDiffusionEngine, base: Version) -> None:
    """Grey edges of a brush are for the blend mask: the model works on what is painted at all, wholly."""
    faint = np.where(np.arange(64) < 16, 3, 200).astype(np.uint8) * (MASK > 0)
    pictures = [
        starter.edit(base.id, mask, "a cat", seed=1, mode="sparse", blend_mask=MASK)[0].image.tobytes()
        for mask in (faint, MASK)
    ]
    assert pictures[0] == pictures[1]


def test_guidance_cannot_be_raised_where_there_was_none(starter: EditableDiffusionEngine) -> None:
    plain = starter.generate("the sea", size=SIZE, steps=2, guidance=1)
    with pytest.raises(UserError, match="without guidance"):
        starter.edit(plain.id, MASK, "a cat", guidance=4)
    assert starter.edit(plain.id, MASK, "a cat")[0].image.size == SIZE


@pytest.mark.parametrize(
    "mask", [MASK > 0, (MASK / 255).astype(np.float64), Image.fromarray(MASK)], ids=["bool", "float", "PIL"]
)
def test_masks_of_every_kind_mean_the_same(starter: EditableDiffusionEngine, base: Version, mask: Any) -> None:
    expected = starter.edit(base.id, MASK, "a cat", seed=1, mode="sparse")[0]
    assert starter.edit(base.id, mask, "a cat", seed=1, mode="sparse")[0].image.tobytes() == expected.image.tobytes()
