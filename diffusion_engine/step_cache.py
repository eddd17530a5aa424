"""What is kept of one network call: rows of every site that a sparse pass may read, and the sums of its norms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from diffusion_engine.cache_block import Block, Layout
from diffusion_engine.sites import Site
from kernels import StoredRows, norm_sums

# Rows of fewer channels are kept as computed: there is little to save, and they are what a network returns.
_FEW_CHANNELS = 16

_serials = itertools.count(1)

Allocate = Callable[[Layout], Block]


@dataclass(frozen=True)
class KeptRows:
    """Rows that are kept under a name: their level, channels and number format (int8: in steps of a scale per row)."""

    level: int
    channels: int
    dtype: torch.dtype


@dataclass(frozen=True)
class KeptNorm:
    """A GroupNorm over a whole map. source: the kept rows that it gets; None where its sums are kept, row by row.

    count: values per group, rows times channels per group
    """

    groups: int
    count: int
    source: str | None


@dataclass(frozen=True)
class CacheShape:
    """What a step cache consists of, before there is one.

    sites: of the network; level_rows: rows of the map per level, finest first
    storage: number format of rows, int8 meaning steps of a scale per row; computed: of the network
    """

    sites: tuple[Site, ...]
    level_rows: tuple[int, ...]
    storage: torch.dtype
    computed: torch.dtype

    @cached_property
    def rows(self) -> dict[str, KeptRows]:
        """Name -> rows kept. A norm without a convolution has fp32 sums per row, [2 * G], under its own name."""
        kept: dict[str, KeptRows] = {}
        for site in self.sites:
            if site.keeps == "norm" and site.conv is None:
                kept[site.name] = KeptRows(site.level, 2 * site.module.num_groups, torch.float32)
            else:
                channels = _channels(site)
                dtype = self.computed if channels < _FEW_CHANNELS else self.storage
                kept[site.conv or site.name] = KeptRows(site.level, channels, dtype)
        return kept

    @cached_property
    def norms(self) -> dict[str, KeptNorm]:
        norms: dict[str, KeptNorm] = {}
        for site in self.sites:
            if site.keeps == "norm":
                per_group = site.module.num_channels // site.module.num_groups
                norms[site.name] = KeptNorm(site.module.num_groups, self.level_rows[site.level] * per_group, site.conv)
        return norms

    def layout(self, copies: int) -> Layout:
        """Of a whole cache with `copies` branches."""
        centers = [(f"{n}.center", torch.float32, (copies, norm.groups)) for n, norm in self.norms.items()]
        return Layout.of([*self._tensors(copies, self.level_rows), *centers])

    def delta_layout(self, copies: int, active_rows: Sequence[int]) -> Layout:
        """Of the rows that one pass computes, `active_rows` per level, for `copies` segments."""
        return Layout.of(self._tensors(copies, active_rows))

    def _tensors(self, copies: int, counts: Sequence[int]) -> list[tuple[str, torch.dtype, tuple[int, ...]]]:
        tensors: list[tuple[str, torch.dtype, tuple[int, ...]]] = []
        for name, rows in self.rows.items():
            tensors.append((name, rows.dtype, (copies, counts[rows.level], rows.channels)))
            if rows.dtype == torch.int8:
                tensors.append((f"{name}.scale", torch.float32, (copies, counts[rows.level], 1)))
        return tensors + [(f"{n}.sums", torch.float64, (copies, 2 * norm.groups)) for n, norm in self.norms.items()]


def _channels(site: Site) -> int:
    module = site.module
    if site.keeps == "norm":
        return module.num_channels
    if site.keeps == "input":
        return module.channels
    return module.out_features if hasattr(module, "out_features") else module.out_channels


class _Kept:
    """Rows and sums in one block, which may be exchanged for another one with the same bytes."""

    def __init__(self, shape: CacheShape, copies: int, block: Block) -> None:
        self.shape, self.copies = shape, copies
        self.block = block

    @property
    def block(self) -> Block:
        return self._block

    @block.setter
    def block(self, block: Block) -> None:
        self._block = block
        views = block.layout.views(block.memory)
        self.rows = {
            name: StoredRows(views[name], views.get(f"{name}.scale"), block.is_file) for name in self.shape.rows
        }
        self._views = views

    @property
    def nbytes(self) -> int:
        return self._block.nbytes

    def _alongside(self, layout: Layout) -> Block:
        """New memory on the same device."""
        return Block.in_memory(layout, self._block.memory.device)

    def sums(self, norm: str) -> Tensor:
        """fp64 [B, 2 * G], over all rows of the composite map: of x - center, then of (x - center)^2."""
        return self._views[f"{norm}.sums"]


class StepCache(_Kept):
    """Everything kept of one call, per guidance branch.

    rows: name -> [B, N, C], N rows of the level
    serial: tells one recorded cache from the next that takes its place
    key: what shaped the activations (see activation_key.py)
    seconds: what recording it took
    """

    def __init__(self, shape: CacheShape, copies: int, block: Block) -> None:
        super().__init__(shape, copies, block)
        self.serial = next(_serials)
        self.key = ""
        self.seconds = 0.0

    @staticmethod
    def new(shape: CacheShape, branches: int, allocate: Allocate) -> StepCache:
        """A cache of unknown content, for a recorder to fill."""
        return StepCache(shape, branches, allocate(shape.layout(branches)))

    @property
    def branches(self) -> int:
        return self.copies

    def center(self, norm: str) -> Tensor:
        """fp32 [B, G], the group means when the map was recorded; sums are taken about it."""
        return self._views[f"{norm}.center"]

    def level_rows(self, norm: str) -> int:
        """Rows of the map that a norm gets."""
        source = self.shape.norms[norm].source
        return self.rows[norm if source is None else source].count

    def keep_norm(self, name: str, center: Tensor, sums: Tensor) -> None:
        """Keeps a norm's statistics, [B, G] and [B, 2 * G]."""
        self.center(name).copy_(center)
        self.sums(name).copy_(sums)

    def sums_of(self, norm: str, active: Tensor, dtype: torch.dtype) -> Tensor:
        """fp64 [B, 2 * G]: the share that the listed rows have in a norm's sums."""
        source = self.shape.norms[norm].source
        if source is None:
            return self.rows[norm].gather(active, torch.float32).sum(1, dtype=torch.float64)
        return norm_sums(self.rows[source].gather(active, dtype), self.center(norm))

    def delta(self, segments: int, active_rows: Sequence[int], allocate: Allocate | None = None) -> RowsDelta:
        """Room for what a pass over this cache computes; active_rows: per level of its plan."""
        return RowsDelta.new(self.shape, segments, active_rows, allocate or self._alongside)

    def copied_to(self, block: Block) -> StepCache:
        """The same cache in a block that holds, or will, what its own does."""
        copy = StepCache(self.shape, self.copies, block)
        copy.serial, copy.key, copy.seconds = self.serial, self.key, self.seconds
        return copy

    def widened(self, branches: int, allocate: Allocate) -> StepCache:
        """A copy with rows for each guidance branch, where one recording served all."""
        wide = StepCache.new(self.shape, branches, allocate)
        for name, view in wide._views.items():
            view.copy_(self._views[name].expand_as(view))
        wide.serial, wide.key, wide.seconds = self.serial, self.key, self.seconds
        return wide


class RowsDelta(_Kept):
    """Rows that a sparse pass computed, of all its segments; or, once exchanged, the rows it replaced.

    rows: name -> [S, M, C] of the plan's active rows, in the number format of the cache they are for
    """

    @staticmethod
    def new(shape: CacheShape, segments: int, active_rows: Sequence[int], allocate: Allocate) -> RowsDelta:
        """Room for one pass; active_rows: per level of the plan."""
        return RowsDelta(shape, segments, allocate(shape.delta_layout(segments, active_rows)))

    def keep(self, name: str, rows: Tensor) -> None:
        """Keeps computed rows [S, M, C]."""
        self.rows[name].write(rows)

    def keep_sums(self, norm: str, sums: Tensor) -> None:
        self.sums(norm).copy_(sums)

    def segments(self, picked: list[int], allocate: Allocate | None = None) -> RowsDelta:
        """The delta of some segments alone, in memory of its own."""
        counts = {rows.level: self.rows[name].count for name, rows in self.shape.rows.items()}
        active_rows = [counts.get(level, 0) for level in range(len(self.shape.level_rows))]
        own = RowsDelta.new(self.shape, len(picked), active_rows, allocate or self._alongside)
        for name, view in own._views.items():
            view.copy_(self._views[name][picked])
        return own

    def exchange(self, cache: StepCache, active: list[Tensor]) -> None:
        """Swaps this delta's rows with the cache's, both in place: commits a version, or goes back to its parent.

        active: per level, the plan's active rows. There is one segment per branch of the cache.
        """
        device = cache.block.memory.device  # this delta's may be another one
        branches = torch.arange(cache.branches, device=device)[:, None]
        counts = zip(active, self.shape.level_rows, strict=True)
        stacked = [(rows.to(device) + branches * count).flatten() for rows, count in counts]  # [B * M] per level
        for name, rows in self.rows.items():
            cache.rows[name].swap(stacked[self.shape.rows[name].level], rows)
        for name in self.shape.norms:
            mine, theirs = self.sums(name), cache.sums(name)
            held = theirs.clone()
            theirs.copy_(mine)
            mine.copy_(held)
