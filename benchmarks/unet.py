"""`deltabrush bench unet`: one UNet call of the SD 1.5 shape by rows, against diffusers' dense forward.

Two floors say what is possible: the weights are read once, and the planned multiply-adds run at the rate of this
machine's best matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measuring import AREAS, arguments, interleaved, product_rate, publish, read_rate, square_mask
from benchmarks.shapes import sd15_unet
from diffusion_engine import SparseUNet, TextContext
from diffusion_engine.cost_model import network_costs, plan_macs
from diffusion_engine.recorder import to_rows

SIDE, BRANCHES = 64, 2


def measure(repeats: int) -> list[dict[str, Any]]:
    """One record per mask area. dense_s is the faster of diffusers' forward in plain and in channels-last storage."""
    plain, unet = sd15_unet(), sd15_unet()
    sparse = SparseUNet(unet)
    latents, states = torch.randn(BRANCHES, 4, SIDE, SIDE), torch.randn(BRANCHES, 77, 768)
    timestep, text = 500, TextContext(states)
    with torch.inference_mode():
        noise = plain(latents, timestep, states).sample
    _, cache = sparse.record(latents, timestep, text)
    costs = network_costs(unet, sparse.level_count)
    macs_per_s, bytes_per_s = product_rate(), read_rate()
    weight_bytes = sum(weight.nbytes for weight in unet.parameters())

    masks = {area: square_mask(SIDE, area) for area in AREAS}
    plans = {area: sparse.plan(mask) for area, mask in masks.items()}
    calls: dict[str, Callable[[], Any]] = {
        "plain": lambda: plain(latents, timestep, states),
        "channels-last": lambda: unet(latents, timestep, states),
    }
    for area, plan in plans.items():
        calls[str(area)] = lambda plan=plan: sparse(latents, timestep, text, cache, plan)
    with torch.inference_mode():
        median = interleaved(calls, repeats)
    dense = min(median["plain"], median["channels-last"])

    figures: list[dict[str, Any]] = []
    for area, plan in plans.items():
        active = plan.levels[0].active
        error = to_rows(sparse(latents, timestep, text, cache, plan))[:, active] - to_rows(noise)[:, active]
        floors = (BRANCHES * plan_macs(costs, plan) / macs_per_s, weight_bytes / bytes_per_s)
        figures.append(
            {
                "area": round(float(masks[area].float().mean()), 4),
                "active_fraction": [round(fraction, 4) for fraction in plan.active_fractions],
                "dense_s": dense,
                "dense_plain_s": median["plain"],
                "dense_channels_last_s": median["channels-last"],
                "sparse_s": median[str(area)],
                "speedup": dense / median[str(area)],
                "max_abs_error": float(error.abs().max()),
                "floor_products_s": floors[0],
                "floor_weights_s": floors[1],
                "floor_share": max(floors) / median[str(area)],
            }
        )
    return figures


def main(argv: list[str]) -> int:
    options = arguments(__doc__ or "", argv)
    return publish(measure(options.repeats), options.json)
