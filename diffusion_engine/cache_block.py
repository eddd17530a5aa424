"""Blocks: the memory of one cache, in one piece, laid out as a safetensors file is; so it can be moved and counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_PADDING = "padding"


@dataclass(frozen=True)
class Piece:
    """One tensor of a block; start: its first byte."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """The tensors of a block, one after the other. The widest numbers come first, so each is aligned to its own."""

    pieces: tuple[Piece, ...]

    @staticmethod
    def of(tensors: Iterable[tuple[str, torch.dtype, tuple[int, ...]]]) -> Layout:
        """The layout of tensors given by name, dtype and shape."""
        pieces: list[Piece] = []
        start = 0
        for name, dtype, shape in sorted(tensors, key=lambda one: -one[1].itemsize):
            pieces.append(Piece(name, dtype, shape, start))
            start += pieces[-1].nbytes
        if start % 8:
            pieces.append(Piece(_PADDING, torch.uint8, (-start % 8,), start))
        return Layout(tuple(pieces))

    @cached_property
    def nbytes(self) -> int:
        """Of the block: a multiple of 8."""
        return sum(piece.nbytes for piece in self.pieces)

    def views(self, memory: Tensor) -> dict[str, Tensor]:
        """The tensors, as views of a block's memory uint8 [nbytes]."""
        with torch.inference_mode(False):  # views made in it could not be written out of it
            return self._views(memory)

    def _views(self, memory: Tensor) -> dict[str, Tensor]:
        typed = {dtype: memory.view(dtype) for dtype in {piece.dtype for piece in self.pieces}}
        views: dict[str, Tensor] = {}
        for piece in self.pieces:
            if piece.name == _PADDING:
                continue
            whole = typed[piece.dtype]
            strides = [math.prod(piece.shape[axis + 1 :]) for axis in range(len(piece.shape))]
            start = whole.storage_offset() + piece.start // piece.dtype.itemsize
            views[piece.name] = whole.as_strided(piece.shape, strides, start)
        return views


class Block:
    """Memory of one cache, uint8 [nbytes]. is_file: it is that of a mapped file; tier: what it was taken from."""

    is_file = False

    def __init__(self, layout: Layout, memory: Tensor, tier: object = None) -> None:
        self.layout, self.memory, self.tier = layout, memory, tier

    @staticmethod
    def in_memory(layout: Layout, device: torch.device, tier: object = None, *, pinned: bool = False) -> Block:
        """New memory on a device, of unknown content; pinned: an accelerator can copy from it while it computes."""
        with torch.inference_mode(False):  # so that it can be written in any mode
            memory = torch.empty(layout.nbytes, dtype=torch.uint8, device=device, pin_memory=pinned)
        return Block(layout, memory, tier)

    @property
    def nbytes(self) -> int:
        return self.memory.numel()

    def seal(self) -> None:
        """To be called when it has been written; a block in a file then knows what it should hold."""

    def unseal(self) -> None:
        """To be called before it is written again."""

    @property
    def is_sound(self) -> bool:
        """Whether it holds what it was sealed with; memory is believed."""
        return True
