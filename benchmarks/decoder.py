"""`deltabrush bench decoder`: the KL-f8 decoder at 512 px by rows, against diffusers' dense decode."""

from __future__ import annotations

from typing import Any, cast

import torch

from benchmarks.measuring import against_dense, arguments, publish
from benchmarks.shapes import sd15_vae
from diffusion_engine import SparseDecoder
from diffusion_engine.cost_model import network_costs, sparse_macs

SIDE = 64


def measure(repeats: int) -> list[dict[str, Any]]:
    """One record per mask area."""
    plain, vae = cast(Any, sd15_vae()), cast(Any, sd15_vae())
    decoder = SparseDecoder(vae)  # moves the weights to channels-last storage
    latents = torch.randn(1, 4, SIDE, SIDE)
    _, cache = decoder.record(latents)
    costs = network_costs(vae.decoder, decoder.level_count, starts_coarse=True)
    return against_dense(
        {"plain": lambda: plain.decode(latents).sample, "channels-last": lambda: vae.decode(latents).sample},
        lambda plan: decoder(latents, cache, plan),
        decoder.plan,
        lambda plan: sparse_macs(costs, plan.active),
        side=SIDE,
        repeats=repeats,
        weight_bytes=sum(weight.nbytes for weight in vae.decoder.parameters()),
    )


def main(argv: list[str]) -> int:
    options = arguments(__doc__ or "", argv)
    return publish(measure(options.repeats), options.json)
