"""Caches that lie where the device cannot compute on them: each is copied to it for one pass, while the pass before it
runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from diffusion_engine.cache_block import Block
from diffusion_engine.step_cache import StepCache


@dataclass
class _Place:
    """Memory on the device for one cache. holds: the serial of what was copied into it last."""

    block: Block
    holds: int


class Staging:
    """Two places on the device, of a cache's size each: one is read while the next cache travels to the other.

    They are working memory of a pass, beside the budgets, and live as long as this object: one edit, in which no cache
    changes. On CUDA copies run on a stream of their own; from pinned memory that is while kernels run.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._places: list[_Place] = []  # the one that is read last

    def near(self, cache: StepCache, following: StepCache | None) -> StepCache:
        """`cache` where the device computes on it as it lies, else a copy, good until the next call but one.

        following: what the next pass will read; it sets out now.
        """
        if self._within_reach(cache):
            return cache
        place = self._fetched(cache)
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        if following is not None and not self._within_reach(following):
            self._fetched(following)
            self._places.reverse()
        return cache.copied_to(place.block)

    def _within_reach(self, cache: StepCache) -> bool:
        return cache.block.memory.device == self._device

    def _fetched(self, cache: StepCache) -> _Place:
        """The place that holds a cache or soon will, now the last; it takes the place that was not read last."""
        for place in self._places:
            if place.holds == cache.serial:
                break
        else:
            place = self._free_place(cache)
            if self._stream is not None:
                self._stream.wait_stream(torch.cuda.current_stream(self._device))  # which may read that place still
            with torch.cuda.stream(self._stream):
                place.block.memory.copy_(cache.block.memory, non_blocking=True)
            place.holds = cache.serial
        self._places.remove(place)
        self._places.append(place)
        return place

    def _free_place(self, cache: StepCache) -> _Place:
        if len(self._places) == 2:
            oldest = self._places[0]
            if oldest.block.layout == cache.block.layout:
                return oldest
            self._places.remove(oldest)
        self._places.append(_Place(Block.in_memory(cache.block.layout, self._device), 0))
        return self._places[-1]
