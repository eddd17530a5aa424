"""`deltabrush bench unet`: one UNet call of the SD 1.5 shape by rows, against diffusers' dense forward."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.measuring import against_dense, arguments, publish
from benchmarks.shapes import sd15_unet
from diffusion_engine import SparseUNet, TextContext
from diffusion_engine.cost_model import network_costs, sparse_macs

SIDE, BRANCHES = 64, 2


def measure(repeats: int) -> list[dict[str, Any]]:
    """One record per mask area, with guidance: a batch of two."""
    plain, unet = sd15_unet(), sd15_unet()
    sparse = SparseUNet(unet)  # moves the weights to channels-last storage
    latents, states = torch.randn(BRANCHES, 4, SIDE, SIDE), torch.randn(BRANCHES, 77, 768)
    timestep, text = 500, TextContext.of(states)
    _, cache = sparse.record(latents, timestep, text)
    costs = network_costs(unet, sparse.level_count)
    return against_dense(
        {
            "plain": lambda: plain(latents, timestep, states).sample,
            "channels-last": lambda: unet(latents, timestep, states).sample,
        },
        lambda plan: sparse(latents, timestep, text, cache, plan),
        sparse.plan,
        lambda plan: BRANCHES * sparse_macs(costs, plan.active),
        side=SIDE,
        repeats=repeats,
        weight_bytes=sum(weight.nbytes for weight in unet.parameters()),
    )


def main(argv: list[str]) -> int:
    options = arguments(__doc__ or "", argv)
    return publish(measure(options.repeats), options.json)
