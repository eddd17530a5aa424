"""Checkpoints: what was saved comes back, and a kill at any moment leaves the last whole one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from training import checkpoints

FACTS: dict[str, Any] = {"step": 3, "curve": [{"step": 1, "loss": 0.5}], "note": 'größer "als" 8 /\n', "none": None}
TENSORS = {
    "plain": torch.arange(6.0).reshape(2, 3),
    "half": torch.randn(4, dtype=torch.float16),
    "bfloat": torch.randn(4, dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "steps": torch.tensor(2.0),
    "empty": torch.empty(0, 3),
    "nan": torch.tensor([float("nan"), float("inf")]),
    "path/with.dots/and slashes": torch.ones(1),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    checkpoints.save(tmp_path / "new folder", {"model": {name: TENSORS[name]}}, {})
    found = checkpoints.load(tmp_path / "new folder")
    assert found is not None and list(found[0]) == ["model"]
    back = found[0]["model"][name]
    assert back.dtype == TENSORS[name].dtype and back.shape == TENSORS[name].shape
    assert torch.equal(back.nan_to_num(), TENSORS[name].nan_to_num())


@pytest.mark.parametrize(
    "tensor",
    [torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last), torch.randn(4, 6).T, torch.randn(9)[::2]],
    ids=["channels last", "transposed", "every other"],
)
def test_memory_order_does_not_matter(tmp_path: Path, tensor: torch.Tensor) -> None:
    checkpoints.save(tmp_path, {"model": {"weight": tensor}}, {})
    found = checkpoints.load(tmp_path)
    assert found is not None and torch.equal(found[0]["model"]["weight"], tensor)


def test_facts_and_groups_come_back(tmp_path: Path) -> None:
    groups = {"model": {"weight": torch.ones(2)}, "average": {"weight": torch.zeros(2)}}
    checkpoints.save(tmp_path, groups, FACTS)
    found = checkpoints.load(tmp_path)
    assert found is not None
    assert found[1] == FACTS
    assert {group: list(tensors) for group, tensors in found[0].items()} == {"model": ["weight"], "average": ["weight"]}
    assert found[0]["average"]["weight"].sum() == 0 and found[0]["model"]["weight"].sum() == 2


def test_without_a_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert checkpoints.load(tmp_path) is None
    assert checkpoints.load(tmp_path / "no such folder") is None


def save_step(folder: Path, step: int) -> None:
    checkpoints.save(folder, {"model": {"weight": torch.full((1000,), float(step))}}, {"step": step})


def loaded_step(folder: Path) -> int:
    found = checkpoints.load(folder)
    assert found is not None
    (weights,) = found[0]["model"].values()
    assert (weights == found[1]["step"]).all(), "facts and tensors belong together"
    return found[1]["step"]


def test_the_last_one_counts(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_step(tmp_path, step)
        assert loaded_step(tmp_path) == step


def test_a_kill_before_renaming_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_step(tmp_path, 1)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save_step(tmp_path, 2)
    assert loaded_step(tmp_path) == 1
    save_step(tmp_path, 3)
    assert loaded_step(tmp_path) == 3


def test_a_kill_while_writing_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_step(tmp_path, 1)

    def half_written(_: Any, path: Path, *__: Any) -> None:
        path.write_bytes(b"\x80\x00\x00\x00\x00\x00\x00\x00{")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", half_written)
        with pytest.raises(KeyboardInterrupt):
            save_step(tmp_path, 2)
    assert loaded_step(tmp_path) == 1


def test_a_kill_of_the_first_one_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_step(tmp_path, 1)
    assert checkpoints.load(tmp_path) is None
