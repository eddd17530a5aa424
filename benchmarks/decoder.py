"""`deltabrush bench decoder`: the KL-f8 decoder at 512 px by rows, against diffusers' dense decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from benchmarks.measuring import AREAS, arguments, interleaved, product_rate, publish, square_mask
from benchmarks.shapes import sd15_vae
from diffusion_engine import SparseDecoder
from diffusion_engine.cost_model import network_costs, plan_macs
from diffusion_engine.recorder import to_rows

SIDE = 64


def measure(repeats: int) -> list[dict[str, Any]]:
    """One record per mask area. dense_s is the faster of diffusers' decode in plain and in channels-last storage."""
    plain, vae = cast(Any, sd15_vae()), sd15_vae()
    decoder = SparseDecoder(vae)
    latents: Any = torch.randn(1, 4, SIDE, SIDE)
    with torch.inference_mode():
        picture = plain.decode(latents).sample
    _, cache = decoder.record(latents)
    costs = network_costs(vae.decoder, decoder.level_count, starts_coarse=True)
    macs_per_s = product_rate()
    masks = {area: square_mask(SIDE, area) for area in AREAS}
    plans = {area: decoder.plan(mask) for area, mask in masks.items()}
    calls: dict[str, Callable[[], Any]] = {
        "plain": lambda: plain.decode(latents),
        "channels-last": lambda: vae.decode(latents),
    }
    for area, plan in plans.items():
        calls[str(area)] = lambda plan=plan: decoder(latents, cache, plan)
    with torch.inference_mode():
        median = interleaved(calls, repeats)
    dense = min(median["plain"], median["channels-last"])

    figures: list[dict[str, Any]] = []
    for area, plan in plans.items():
        active = plan.levels[0].active
        error = to_rows(decoder(latents, cache, plan))[:, active] - to_rows(picture)[:, active]
        floor = plan_macs(costs, plan) / macs_per_s
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
                "floor_products_s": floor,
                "floor_share": floor / median[str(area)],
            }
        )
    return figures


def main(argv: list[str]) -> int:
    options = arguments(__doc__ or "", argv)
    return publish(measure(options.repeats), options.json)
