"""How much memory caches may take, where, and in which number format; and what they hold."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import psutil
import torch

from diffusion_engine.cache_tiers import DiskTier, MemoryTier, Tier
from diffusion_engine.errors import UserError

FORMATS = {
    "auto": None,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.int8,
}


@dataclass(frozen=True)
class CacheFormats:
    """Number formats of kept rows. A VAE's outgrow the range of fp16, so they are never kept in it."""

    unet: torch.dtype
    decoder: torch.dtype


@dataclass(frozen=True)
class CacheSettings:
    """What caches may take. Raises UserError where a field makes no sense.

    memory_bytes: of the device that computes, by default a third of what is free now
    host_bytes: of main memory, where an accelerator's own is full; by default a third of what is free now
    disk_bytes: of files, where memory is full; by default a quarter of what is free on that disk
    folder: where the files are, by default in the user's cache folder; each process has a folder of its own there
    dtype: number format of kept rows. auto: fp16 of what is computed in fp32, else as computed (docs/memory.md has the
        table that this comes from); int8: in steps of a scale per row
    """

    memory_bytes: int | None = None
    host_bytes: int | None = None
    disk_bytes: int | None = None
    folder: Path | None = None
    dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.dtype not in FORMATS:
            raise UserError(f"There is no cache dtype {self.dtype!r}; choose one of {', '.join(FORMATS)}.")
        for name, nbytes in (
            ("memory", self.memory_bytes),
            ("main memory", self.host_bytes),
            ("disk space", self.disk_bytes),
        ):
            if nbytes is not None and nbytes < 0:
                raise UserError(f"The cache's {name} must be 0 or more bytes.")

    def formats(self, computed: torch.dtype) -> CacheFormats:
        """Number formats of kept rows, for a UNet that is computed in `computed`, and a VAE that always is in fp32."""
        unet = FORMATS[self.dtype] or (torch.float16 if computed == torch.float32 else computed)
        return CacheFormats(unet, torch.bfloat16 if unet == torch.float16 else unet)

    def tiers(self, device: torch.device) -> dict[str, Tier]:
        """Named tiers, the nearest to the device first."""
        memory = _free_memory(device) // 3 if self.memory_bytes is None else self.memory_bytes
        tiers: dict[str, Tier] = {"memory": MemoryTier(memory, device)}
        if device.type != "cpu":
            cpu = torch.device("cpu")
            host = _free_memory(cpu) // 3 if self.host_bytes is None else self.host_bytes
            tiers["host"] = MemoryTier(host, cpu, pinned=device.type == "cuda")
        folder = self.folder or platformdirs.user_cache_path("deltabrush", appauthor=False)
        disk = _free_disk(folder) // 4 if self.disk_bytes is None else self.disk_bytes
        tiers["disk"] = DiskTier(disk, folder)
        return tiers


@dataclass(frozen=True)
class MemoryReport:
    """What caches hold, in bytes.

    by_version: version -> tier -> bytes; what waiting candidates hold is under ""
    held, budget: tier -> bytes
    """

    by_version: dict[str, dict[str, int]]
    held: dict[str, int]
    budget: dict[str, int]


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def _free_disk(folder: Path) -> int:
    """Of the disk that a folder is on, or will be."""
    existing = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return shutil.disk_usage(existing).free
