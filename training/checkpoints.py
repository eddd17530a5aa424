"""Where a long training stands, on disk: killed at any moment, it goes on from the last whole checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

TENSORS, FACTS = "state.safetensors", "state.json"


def save(folder: Path, groups: dict[str, dict[str, torch.Tensor]], facts: dict[str, Any]) -> None:
    """Writes named groups of tensors and JSON facts. The old checkpoint stays until the new one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = {
        f"{group}/{name}": tensor.contiguous() for group, tensors in groups.items() for name, tensor in tensors.items()
    }
    aside = folder / f"{TENSORS}.new"
    save_file(flat, aside, {FACTS: json.dumps(facts)})  # in one file, so that they always belong together
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(folder / TENSORS)


def load(folder: Path) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]] | None:
    """What `save` wrote last, or None."""
    path = folder / TENSORS
    if not path.exists():
        return None
    groups: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in load_file(path).items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return groups, json.loads(header["__metadata__"][FACTS])
