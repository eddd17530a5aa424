"""Prompts and settings from a ComfyUI graph: what its first sampler was given, followed through the links.

A graph is JSON, {node id: {"class_type": name, "inputs": {name: value or link}}}; a link is [node id, output number].
"""

from __future__ import annotations

from typing import Any

# Inputs under which nodes pass on what is looked for, likeliest first.
_TEXT_INPUTS = ("text", "conditioning", "conditioning_1", "conditioning_to", "text_g", "string", "value", "prompt")
_NUMBER_INPUTS = ("value", "int", "float", "number")
_SEED_INPUTS = ("seed", "noise_seed")
_NO_TEXT = ("ConditioningZeroOut",)  # what goes in, the positive prompt as a rule, does not come out


def read_graph(graph: Any) -> dict[str, Any]:
    """prompt, negative_prompt, seed, steps, guidance and sampler, as far as they are found; {} without a prompt.
    Takes any JSON, and never raises. Types are checked, ranges are not."""
    if not isinstance(graph, dict):
        return {}
    for node in graph.values():
        inputs = _inputs(node)
        if isinstance(inputs.get("positive"), list) and any(name in inputs for name in _SEED_INPUTS):
            return _sampler(graph, inputs)
    return {}


def _sampler(graph: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    seed = next(inputs[name] for name in _SEED_INPUTS if name in inputs)
    made = {
        "prompt": _follow(graph, inputs["positive"], ("positive", *_TEXT_INPUTS), str),
        "negative_prompt": _follow(graph, inputs.get("negative"), ("negative", *_TEXT_INPUTS), str),
        "seed": _follow(graph, seed, (*_SEED_INPUTS, *_NUMBER_INPUTS), int),
        "steps": _follow(graph, inputs.get("steps"), ("steps", *_NUMBER_INPUTS), int),
        "guidance": _follow(graph, inputs.get("cfg"), ("cfg", *_NUMBER_INPUTS), int | float),
        "sampler": _follow(graph, inputs.get("sampler_name"), ("sampler_name",), str),
    }
    return {} if made["prompt"] is None else {name: value for name, value in made.items() if value is not None}


def _follow(graph: dict[str, Any], value: Any, names: tuple[str, ...], kind: Any) -> Any:
    """The value of this type at the end of a chain of links; None where it breaks, ends in another type, or runs in a
    circle."""
    seen: set[str] = set()
    while isinstance(value, list):
        node_id = value[0] if value else None
        if not isinstance(node_id, str) or node_id in seen:
            return None
        seen.add(node_id)
        node = graph.get(node_id)
        if isinstance(node, dict) and node.get("class_type") in _NO_TEXT:
            return None
        inputs = _inputs(node)
        value = next((inputs[name] for name in names if name in inputs), None)
    return value if isinstance(value, kind) else None


def _inputs(node: Any) -> dict[str, Any]:
    inputs = node.get("inputs") if isinstance(node, dict) else None
    return inputs if isinstance(inputs, dict) else {}
