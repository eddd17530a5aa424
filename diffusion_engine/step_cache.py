"""What is kept of one network call: rows of every layer that a sparse pass may read, and the sums of its norms."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels import norm_sums, norm_sums_per_row, swap_rows


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

    @property
    def nbytes(self) -> int:
        return self.center.nbytes + self.sums.nbytes


@dataclass
class StepCache:
    """Everything kept of one call, per guidance branch.

    rows:   name -> [B, N, C] (N rows of the level; group sums of a norm are kept per row under the norm's name)
    levels: name -> index of the level the rows belong to
    norms:  name -> totals of that norm
    norm_inputs: norm name -> [B, N, C], from which its sums per row are derived when they are first wanted; so that a
        dense step that somebody waits for does without
    """

    rows: dict[str, Tensor] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    norms: dict[str, NormTotals] = field(default_factory=dict)
    norm_inputs: dict[str, Tensor] = field(default_factory=dict)

    @property
    def branches(self) -> int:
        return next(iter(self.rows.values())).shape[0]

    @property
    def nbytes(self) -> int:
        return _nbytes(self.rows, self.norm_inputs) + sum(n.nbytes for n in self.norms.values())

    def sums_per_row(self, name: str) -> Tensor:
        """Group sums of each row that a norm gets, fp32 [B, N, 2 * G] about its center."""
        if name in self.norm_inputs:
            self.rows[name] = norm_sums_per_row(self.norm_inputs.pop(name), self.norms[name].center)
        return self.rows[name]

    def complete(self) -> None:
        """Derives all sums per row."""
        for name in list(self.norm_inputs):
            self.sums_per_row(name)

    def split(self, branches: int, pictures: int) -> list[StepCache]:
        """One cache per picture of a batch ordered by branch, then by picture."""
        if pictures == 1:
            return [self]
        parts: list[StepCache] = []
        for index in range(pictures):
            picked = [branch * pictures + index for branch in range(branches)]
            copies: dict[int, Tensor] = {}
            norms = {n: NormTotals(t.center[picked], t.sums[picked], t.count) for n, t in self.norms.items()}
            rows, inputs = _picked(self.rows, picked, copies), _picked(self.norm_inputs, picked, copies)
            parts.append(StepCache(rows, self.levels, norms, inputs))
        return parts

    def keep_rows(self, name: str, level: int, rows: Tensor, dtype: torch.dtype | None) -> None:
        self.rows[name] = rows.to(dtype or rows.dtype).contiguous()
        self.levels[name] = level

    def keep_norm(self, name: str, level: int, rows: Tensor, groups: int) -> NormTotals:
        """Records the statistics of a norm whose input map is `rows` [B, N, C], and returns them."""
        batch, count, channels = rows.shape
        center = rows.float().mean(1).view(batch, groups, -1).mean(2)  # [B, G]
        totals = NormTotals(center, norm_sums(rows, center), count * (channels // groups))
        self.norm_inputs[name], self.levels[name], self.norms[name] = rows, level, totals
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
        return _nbytes(self.rows, self.sums, self.norm_inputs)

    def segments(self, picked: list[int]) -> RowsDelta:
        """The delta of some segments alone, in memory of its own."""
        copies: dict[int, Tensor] = {}
        kept = (_picked(one, picked, copies) for one in (self.rows, self.sums, self.norm_inputs))
        return RowsDelta(*kept)

    def complete(self, cache: StepCache) -> None:
        """Derives the sums per row, and casts rows to the dtypes that `cache` stores."""
        cache.complete()
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


def _nbytes(*kept: dict[str, Tensor]) -> int:
    """Bytes of all tensors, each counted once however many names it has."""
    return sum(t.nbytes for t in {id(t): t for tensors in kept for t in tensors.values()}.values())


def _picked(kept: dict[str, Tensor], segments: list[int], copies: dict[int, Tensor]) -> dict[str, Tensor]:
    """Some segments of each tensor, in memory of their own; `copies` remembers them, by the tensor they are of."""
    for tensor in kept.values():
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor[segments]
    return {name: copies[id(tensor)] for name, tensor in kept.items()}
