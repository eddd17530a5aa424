"""What a pass costs: multiplications counted from the modules, seconds from calls measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from diffusion_engine.active_rows import ActiveRows


@dataclass(frozen=True)
class LevelCost:
    """Multiply-adds of one row of a level: its matrix products, and per row of the map that it attends to."""

    products: int
    per_key: int

    def row(self, map_rows: int) -> int:
        return self.products + self.per_key * map_rows


def _products(module: nn.Module) -> int:
    """A row's multiply-adds in a module's convolutions and linear layers: their weights, each used once per row."""
    total = 0
    for name, child in module.named_modules():
        conditioning = "time_emb_proj" in name or name.endswith((".attn2.to_k", ".attn2.to_v"))
        if isinstance(child, nn.Conv2d | nn.Linear) and not conditioning:
            total += child.weight.numel()
    return total


def _attention_width(module: nn.Module) -> int:
    """Multiply-adds of one query with one key, in scores and in the weighted sum, over a module's self-attentions."""
    widths = [child.to_q.weight.shape[0] for name, child in _attentions(module) if not name.endswith("attn2")]
    return 2 * sum(widths)


def _attentions(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, child) for name, child in module.named_modules() if hasattr(child, "to_q")]


def network_costs(network: Any, levels: int, *, starts_coarse: bool = False) -> list[LevelCost]:
    """Costs per level, finest first, of a UNet, or of a VAE's encoder or decoder (`starts_coarse`)."""
    products, per_key = [0] * levels, [0] * levels

    def add(level: int, module: nn.Module) -> None:
        products[level] += _products(module)
        per_key[level] += _attention_width(module)

    level = levels - 1 if starts_coarse else 0
    add(level, network.conv_in)
    for block in getattr(network, "down_blocks", ()):
        for part in (block.resnets, getattr(block, "attentions", None)):
            if part is not None:
                add(level, part)
        if block.downsamplers:
            level += 1
            add(level, block.downsamplers[0].conv)
    if network.mid_block is not None:
        add(level, network.mid_block)
    for block in getattr(network, "up_blocks", ()):
        for part in (block.resnets, getattr(block, "attentions", None)):
            if part is not None:
                add(level, part)
        if block.upsamplers:
            level -= 1
            add(level, block.upsamplers[0].conv)
    add(level, network.conv_out)
    return [LevelCost(p, k) for p, k in zip(products, per_key, strict=True)]


def sparse_macs(costs: Sequence[LevelCost], active: ActiveRows) -> int:
    """Multiply-adds of a sparse pass over the active rows, per segment."""
    levels = zip(costs, active.shapes, active.counts, strict=True)
    return sum(cost.row(h * w) * count for cost, (h, w), count in levels)


def dense_macs(costs: Sequence[LevelCost], shapes: Sequence[tuple[int, int]]) -> int:
    """Multiply-adds of a dense pass over a map of the given level shapes, per segment."""
    return sum(cost.row(h * w) * h * w for cost, (h, w) in zip(costs, shapes, strict=True))


class PassTimer:
    """Predicts seconds of passes as `overhead + multiply-adds / rate`, dense and sparse rates learnt from real calls.

    Until a kind has been measured the other's rate stands in; a few calls settle both, and the newest weigh most.
    One thread observes; any may predict, since what is learnt is replaced as a whole and never changed in place.
    """

    _NEWEST = 0.3

    def __init__(self) -> None:
        self._seconds_per_mac: dict[str, float] = {}
        self.overhead = 0.0

    def calibrate_overhead(self, seconds: float, macs: int) -> None:
        """From a pass so small that it is nearly all overhead."""
        self.overhead = max(0.0, seconds - macs * self._rate("dense"))

    def observe(self, kind: str, seconds: float, macs: int) -> None:
        """Learns from one measured call; kind is "dense" or "sparse"."""
        overhead = self.overhead if kind == "sparse" else 0.0
        measured = max(seconds - overhead, 0.1 * seconds) / macs
        before = self._seconds_per_mac.get(kind)
        settled = measured if before is None else before + self._NEWEST * (measured - before)
        self._seconds_per_mac = {**self._seconds_per_mac, kind: settled}

    @property
    def measured(self) -> bool:
        """Whether any call has been observed; before that, predictions are a guess."""
        return bool(self._seconds_per_mac)

    def predict(self, kind: str, macs: int) -> float:
        return macs * self._rate(kind) + (self.overhead if kind == "sparse" else 0.0)

    def _rate(self, kind: str) -> float:
        known = self._seconds_per_mac
        return known.get(kind) or next(iter(known.values()), 1e-11)
