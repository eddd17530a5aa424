"""Tiers: where blocks of caches lie, each under its budget. The nearest to the device first, then what is slower."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from diffusion_engine.budget import Budget
from diffusion_engine.cache_block import Block, Layout

_OWNER = "owner.lock"
_SAFETENSORS_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int8: "I8",
    torch.uint8: "U8",
}


class Tier(Protocol):
    """Takes blocks while its budget lasts."""

    budget: Budget

    def allocate(self, layout: Layout) -> Block | None:
        """A new block of unknown content, or None where the budget or the medium has no room."""
        ...


class MemoryTier:
    """Memory of a device: of the one that computes, or main memory beside it. pinned: as `Block.in_memory` has it."""

    def __init__(self, capacity: int, device: torch.device, *, pinned: bool = False) -> None:
        self.budget = Budget(capacity)
        self._device, self._pinned = device, pinned

    def allocate(self, layout: Layout) -> Block | None:
        if not self.budget.reserve(layout.nbytes):
            return None
        try:
            block = Block.in_memory(layout, self._device, self, pinned=self._pinned)
        except BaseException:
            self.budget.give_back(layout.nbytes)
            raise
        self.budget.give_back_with(block, layout.nbytes)
        return block


class FileBlock(Block):
    """A block in a file of its own, in safetensors format, whose pages are mapped into memory. Reads touch the pages of
    the rows they need; writes go to the file."""

    is_file = True

    def __init__(self, layout: Layout, path: Path, tier: object = None) -> None:
        header = _header(layout)
        start, total = len(header), len(header) + layout.nbytes
        with path.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, total)  # a full disk shows here, not as a fault when a page is written
            file.write(header)
        storage: Any = torch.UntypedStorage.from_file(str(path), shared=True, nbytes=total)
        with torch.inference_mode(False):
            memory = torch.empty(0, dtype=torch.uint8).set_(storage, start, (layout.nbytes,), (1,))
        super().__init__(layout, memory, tier)
        self.path = path
        self._sum: int | None = None
        weakref.finalize(self, path.unlink, missing_ok=True)

    def seal(self) -> None:
        """Notes what the file holds, once it is written; `is_sound` compares."""
        self._sum = _word_sum(self.memory)

    def unseal(self) -> None:
        """Before it is written again: until it is sealed it counts as broken."""
        self._sum = None

    @property
    def is_sound(self) -> bool:
        return self._sum is not None and self._sum == _word_sum(self.memory)


def _word_sum(memory: Tensor) -> int:
    """The sum of all 64-bit words, modulo 2^64: one changed byte changes it, and it is read at the speed of memory."""
    return int(memory.view(torch.int64).sum())


def _header(layout: Layout) -> bytes:
    """The header of a safetensors file whose data is a block; 64-byte aligned, so that the data is."""
    described = {
        piece.name: {
            "dtype": _SAFETENSORS_NAMES[piece.dtype],
            "shape": piece.shape,
            "data_offsets": [piece.start, piece.start + piece.nbytes],
        }
        for piece in layout.pieces
    }
    text = json.dumps(described).encode()
    text += b" " * (-(len(text) + 8) % 64)
    return len(text).to_bytes(8, "little") + text


class DiskTier:
    """Files in a folder of this process's own, below `root`. It is removed at exit; what processes that have died left
    below `root` is removed at start."""

    def __init__(self, capacity: int, root: Path) -> None:
        self.budget = Budget(capacity)
        self._root, self._folder, self._count = root, None, 0
        _sweep(root)

    def allocate(self, layout: Layout) -> FileBlock | None:
        if not self.budget.reserve(layout.nbytes):
            return None
        try:
            block = FileBlock(layout, self._next_path(), self)
        except OSError:  # the disk is full, or the folder cannot be written: as if there were no such tier
            self.budget.give_back(layout.nbytes)
            return None
        except BaseException:
            self.budget.give_back(layout.nbytes)
            raise
        self.budget.give_back_with(block, layout.nbytes)
        return block

    def _next_path(self) -> Path:
        if self._folder is None:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = Path(tempfile.mkdtemp(prefix="new-", dir=self._root))
            lock = (folder / _OWNER).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._folder = folder.rename(self._root / f"caches-{folder.name[4:]}")  # owned when it is first seen
            weakref.finalize(self, _remove, self._folder, lock)  # also when the process ends
        self._count += 1
        return self._folder / f"{self._count}.safetensors"


def _remove(folder: Path, lock: object) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    del lock  # held until here


def _sweep(root: Path) -> None:
    """Removes folders that no living process owns."""
    for owner in root.glob(f"caches-*/{_OWNER}"):
        with contextlib.suppress(OSError), owner.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)
