"""Sites: the places of a network of which a recording keeps something, because a sparse pass reads other rows there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from diffusers.models.attention_processor import Attention


@dataclass(frozen=True)
class Site:
    """One module of a network, and what is kept at it.

    keeps: "norm": a GroupNorm's statistics, and what its later ones are derived from: its input rows where a
        convolution reads them too (`conv`, the name they are kept under), else the sums of each of its rows;
        "input", "output": the rows that a module is given, or returns
    level: index of the resolution its rows belong to, finest first
    """

    keeps: Literal["norm", "input", "output"]
    module: Any
    name: str
    level: int
    conv: str | None = None


def block_sites(block: Any, name: str, level: int) -> list[Site]:
    """Sites of the layers of a down, mid or up block but its resampling."""
    sites: list[Site] = []
    for index, resnet in enumerate(block.resnets):
        label = f"{name}.resnets.{index}"
        sites.append(Site("norm", resnet.norm1, f"{label}.norm1", level, f"{label}.conv1"))
        sites.append(Site("norm", resnet.norm2, f"{label}.norm2", level, f"{label}.conv2"))
    for index, mixer in enumerate(getattr(block, "attentions", None) or ()):
        label = f"{name}.attentions.{index}"
        if isinstance(mixer, Attention):
            sites.append(Site("norm", mixer.group_norm, f"{label}.group_norm", level))
            sites += _self_attention(mixer, label, level)
        elif mixer is not None:
            sites.append(Site("norm", mixer.norm, f"{label}.norm", level))
            for depth, layer in enumerate(mixer.transformer_blocks):
                sites += _self_attention(layer.attn1, f"{label}.transformer_blocks.{depth}.attn1", level)
    return sites


def _self_attention(attention: Any, name: str, level: int) -> list[Site]:
    return [Site("output", getattr(attention, part), f"{name}.{part}", level) for part in ("to_k", "to_v")]
