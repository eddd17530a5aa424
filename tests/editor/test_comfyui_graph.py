"""ComfyUI graphs: ordinary ones, odd ones, and ones that lead nowhere or in a circle."""

from __future__ import annotations

from typing import Any

import pytest

from editor.comfyui_graph import read_graph


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def text(prompt: Any) -> dict[str, Any]:
    return node("CLIPTextEncode", text=prompt, clip=["9", 1])


def sampler(**inputs: Any) -> dict[str, Any]:
    given = {"seed": 5, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "positive": ["1", 0], "negative": ["2", 0]}
    return node("KSampler", **given | inputs)


ORDINARY = {"3": sampler(), "1": text("a cat"), "2": text("dog"), "9": node("CheckpointLoaderSimple", ckpt_name="x")}
MADE = {"prompt": "a cat", "negative_prompt": "dog", "seed": 5, "steps": 20, "guidance": 8.0, "sampler": "euler"}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in MADE.items() if name not in names}


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({}, MADE),
        (
            {"3": node("KSamplerAdvanced", noise_seed=7, steps=9, cfg=1, positive=["1", 0], negative=["2", 0])},
            {"prompt": "a cat", "negative_prompt": "dog", "seed": 7, "steps": 9, "guidance": 1},
        ),
        ({"7": sampler(seed=99)}, MADE),
        ({"1": text(["4", 0]), "4": node("PrimitiveString", value="a bird")}, MADE | {"prompt": "a bird"}),
        ({"3": sampler(seed=["4", 0]), "4": node("PrimitiveInt", value=8)}, MADE | {"seed": 8}),
        ({"3": sampler(seed=["4", 3]), "4": node("Seed Everywhere", seed=8)}, MADE | {"seed": 8}),
        ({"1": node("CLIPTextEncodeSDXL", text_g="large", text_l="small", width=1024)}, MADE | {"prompt": "large"}),
        (
            {"1": node("FluxGuidance", guidance=3.5, conditioning=["4", 0]), "4": text("deep")},
            MADE | {"prompt": "deep"},
        ),
        (
            {"1": node("ConditioningCombine", conditioning_1=["4", 0], conditioning_2=["2", 0]), "4": text("deep")},
            MADE | {"prompt": "deep"},
        ),
        (
            {
                "3": sampler(positive=["5", 0], negative=["5", 1]),
                "5": node("ControlNetApplyAdvanced", positive=["1", 0], negative=["2", 0], strength=1),
            },
            MADE,
        ),
        ({"2": node("ConditioningZeroOut", conditioning=["1", 0])}, without("negative_prompt")),
        ({"2": None}, without("negative_prompt")),
        ({"3": sampler(seed="5", steps=None, cfg=[], sampler_name=3)}, without("seed", "steps", "guidance", "sampler")),
        ({"3": sampler(seed=["3", 0])}, without("seed")),
    ],
    ids=[
        "ordinary",
        "advanced",
        "first-of-two",
        "linked-text",
        "linked-seed",
        "seed-node",
        "sdxl",
        "guidance",
        "combined",
        "controlnet",
        "zeroed",
        "no-negative",
        "wrong-types",
        "seed-in-a-circle",
    ],
)
def test_what_the_sampler_was_given_is_found(changes: dict[str, Any], made: dict[str, Any]) -> None:
    assert read_graph(ORDINARY | changes) == made


CHAIN = {str(number): node("Reroute", conditioning=[str(number + 1), 0]) for number in range(1, 5000)}


@pytest.mark.parametrize(
    "graph",
    [
        None,
        [],
        "graph",
        {},
        {"1": None, "2": [], "3": {"inputs": 5}, "4": {"class_type": "KSampler"}},
        {"3": sampler()},
        {"3": sampler(positive="a cat")},
        {"3": sampler(positive=[])},
        {"3": sampler(positive=[[], 0])},
        {"3": sampler(positive=[3, 0]), "1": text("a cat")},
        {"3": sampler(positive=["3", 0])},
        {"3": sampler(), "1": node("A", conditioning=["2", 0]), "2": node("B", conditioning=["1", 0])},
        {"3": sampler(), "1": text(5)},
        {"3": sampler(), "1": text({"text": "a"})},
        {"3": sampler(), "1": node("Unknown", other="a cat")},
        {"0": sampler()} | CHAIN,
    ],
    ids=[
        "null",
        "list",
        "text",
        "empty",
        "no-nodes",
        "missing-node",
        "no-link",
        "empty-link",
        "link-to-a-list",
        "link-by-number",
        "itself",
        "circle",
        "number-for-text",
        "object-for-text",
        "unknown-input",
        "long-way-to-nowhere",
    ],
)
def test_a_graph_that_leads_nowhere_gives_nothing(graph: Any) -> None:
    assert read_graph(graph) == {}
