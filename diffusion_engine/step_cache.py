"""What is kept of one network call: rows of every layer that a sparse pass may read, and the sums of its norms."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels import norm_sums_per_row, swap_rows


@dataclass
class NormTotals:
    """Running statistics of one GroupNorm over the composite map.

    center: fp32 [B, G], the group means when the map was recorded; sums are taken about it
    sums:   fp64 [B, 2 * G], over all rows: of x - center, then of (x - center)^2
    count:  values per group, rows times channels per group
    """

    center: Tensor
    sums: Tensor
    count: int

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance, fp32 [B, G] each; rounding can make a variance negative, which is taken as zero."""
        return moments(self.center, self.sums, self.count)

    @property
    def nbytes(self) -> int:
        return self.center.nbytes + self.sums.nbytes


def moments(center: Tensor, sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean and biased variance from sums about `center`: [S, G], [S, 2 * G] -> fp32 [S, G] twice."""
    first, second = (sums / count).chunk(2, -1)
    return (center + first).float(), (second - first.square()).clamp_(min=0).float()


@dataclass
class StepCache:
    """Everything kept of one call, per guidance branch.

    rows:   name -> [B, N, C] (N rows of the level; group sums of a norm are kept per row under the norm's name)
    levels: name -> index of the level the rows belong to
    norms:  name -> totals of that norm
    """

    rows: dict[str, Tensor] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    norms: dict[str, NormTotals] = field(default_factory=dict)

    @property
    def branches(self) -> int:
        return next(iter(self.rows.values())).shape[0]

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.rows.values()) + sum(n.nbytes for n in self.norms.values())

    def split(self, branches: int, pictures: int) -> list[StepCache]:
        """One cache per picture of a batch ordered by branch, then by picture."""
        if pictures == 1:
            return [self]
        parts: list[StepCache] = []
        for index in range(pictures):
            picked = [branch * pictures + index for branch in range(branches)]
            rows = {name: rows[picked] for name, rows in self.rows.items()}
            norms = {n: NormTotals(t.center[picked], t.sums[picked], t.count) for n, t in self.norms.items()}
            parts.append(StepCache(rows, self.levels, norms))
        return parts

    def keep_rows(self, name: str, level: int, rows: Tensor, dtype: torch.dtype | None) -> None:
        self.rows[name] = rows.to(dtype or rows.dtype).contiguous()
        self.levels[name] = level

    def keep_norm(self, name: str, level: int, rows: Tensor, groups: int) -> NormTotals:
        """Records the statistics of a norm whose input map is `rows` [B, N, C], and returns them."""
        batch, count, channels = rows.shape
        center = rows.float().mean(1).view(batch, groups, -1).mean(2)  # [B, G]
        per_row = norm_sums_per_row(rows, center)
        self.rows[name], self.levels[name] = per_row, level  # always fp32: small, and sums must not drift
        totals = NormTotals(center, per_row.sum(1, dtype=torch.float64), count * (channels // groups))
        self.norms[name] = totals
        return totals


@dataclass
class RowsDelta:
    """Rows that a sparse pass computed, of all its segments; or, once exchanged, the rows it replaced.

    rows: name -> [S, M, C] of the plan's active rows
    sums: norm name -> fp64 [S, 2 * G], totals over the composite map
    norm_inputs: norm name -> [S, M, C], from which `complete` derives the norm's sums per row; so that this work is
        done when a version is committed, and not while somebody waits for a picture
    """

    rows: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    norm_inputs: dict[str, Tensor] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        tensors = {id(t): t for kept in (self.rows, self.sums, self.norm_inputs) for t in kept.values()}
        return sum(t.nbytes for t in tensors.values())

    def segments(self, picked: list[int]) -> RowsDelta:
        """The delta of some segments alone, in memory of its own."""
        copies: dict[int, Tensor] = {}

        def own(kept: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: copies.setdefault(id(t), t[picked]) for name, t in kept.items()}

        return RowsDelta(own(self.rows), own(self.sums), own(self.norm_inputs))

    def complete(self, cache: StepCache) -> None:
        """Derives the sums per row, and casts rows to the dtypes that `cache` stores."""
        for name, rows in self.norm_inputs.items():
            center = cache.norms[name].center
            self.rows[name] = norm_sums_per_row(rows, center.expand(rows.shape[0], -1))
        self.norm_inputs.clear()
        for name, rows in self.rows.items():
            self.rows[name] = rows.to(cache.rows[name].dtype)

    def exchange(self, cache: StepCache, active: list[Tensor]) -> None:
        """Swaps this delta's rows with the cache's, both in place: commits a version, or goes back to its parent.

        active: per level, the plan's active rows. The delta is complete and has one segment per branch of the cache.
        """
        for name, rows in self.rows.items():
            for branch in range(cache.branches):
                swap_rows(cache.rows[name][branch], active[cache.levels[name]], rows[branch])
        for name, sums in self.sums.items():
            held = cache.norms[name].sums
            cache.norms[name].sums, self.sums[name] = sums, held
