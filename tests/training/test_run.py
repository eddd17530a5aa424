"""A long training: it learns, is killed at any moment, goes on from its last checkpoint, and keeps its average."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from training import checkpoints, run
from training.run import CURVE, Plan, Run


class Copying(Run):
    """Learns to copy numbers. Raises, as a kill would, in step `killed_in`."""

    def __init__(self, plan: Plan, folder: Path, killed_in: int | None = None) -> None:
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 4))
        self.killed_in = killed_in
        self.losses = 0
        super().__init__({"net": self.net}, plan, folder)

    def loss(self) -> torch.Tensor:
        if self.step == self.killed_in:
            raise KeyboardInterrupt
        self.losses += 1
        numbers = torch.from_numpy(self.random.random((32, 4))).float() + 0.01 * torch.randn(32, 4)
        return (self.modules["net"](numbers) - numbers).square().mean()


def saved(folder: Path) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
    found = checkpoints.load(folder)
    assert found is not None
    return found


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.fixture
def always_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SAVE_SECONDS", -1)


def test_it_learns_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "REPORT_STEPS", 20)
    Copying(Plan(100, 0.02), tmp_path).train()
    _, facts = saved(tmp_path)
    assert facts["step"] == 100
    steps, losses = zip(*facts["curve"], strict=True)
    assert steps == (20, 40, 60, 80, 100) and losses[-1] < 0.5 * losses[0]
    rows = [line.split(",") for line in (tmp_path / CURVE).read_text().splitlines()]
    assert rows[0] == ["step", "loss"]
    assert [(int(step), float(loss)) for step, loss in rows[1:]] == [
        (step, round(loss, 4)) for step, loss in facts["curve"]
    ]


@pytest.mark.parametrize("killed_in", [1, 3, 5], ids=["second step", "middle", "last step"])
def test_a_killed_run_goes_on_from_its_last_checkpoint(
    tmp_path: Path, always_saves: None, capsys: pytest.CaptureFixture[str], killed_in: int
) -> None:
    plan = Plan(6, 0.02)
    killed = Copying(plan, tmp_path, killed_in)
    with pytest.raises(KeyboardInterrupt):
        killed.train()
    groups, facts = saved(tmp_path)
    assert facts["step"] == killed_in
    resumed = Copying(plan, tmp_path)
    assert f"goes on from step {killed_in}" in capsys.readouterr().out
    assert same(resumed.modules.state_dict(), killed.modules.state_dict())
    assert same(resumed.averaged.state_dict(), killed.averaged.state_dict())
    resumed.train()
    assert killed.losses + resumed.losses == 6
    groups, facts = saved(tmp_path)
    assert facts["step"] == 6 and groups["average"]["n_averaged"] == 6
    counted = [value for name, value in groups["optimizer"].items() if name.endswith(".step")]
    assert counted and all(value == 6 for value in counted)


def test_a_kill_between_checkpoints_loses_what_came_after(tmp_path: Path) -> None:
    Copying(Plan(2, 0.02), tmp_path).train()
    with pytest.raises(KeyboardInterrupt):
        Copying(Plan(9, 0.02), tmp_path, killed_in=6).train()
    assert saved(tmp_path)[1]["step"] == 2


def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    Copying(Plan(3, 0.02), tmp_path).train()
    first, _ = saved(tmp_path)
    again = Copying(Plan(3, 0.02), tmp_path)
    again.train()
    second, _ = saved(tmp_path)
    assert again.losses == 0
    assert all(same(first[group], second[group]) for group in first)


def test_a_curve_goes_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "REPORT_STEPS", 2)
    Copying(Plan(4, 0.02), tmp_path).train()
    Copying(Plan(8, 0.02), tmp_path).train()
    assert [int(line.split(",")[0]) for line in (tmp_path / CURVE).read_text().splitlines()[1:]] == [2, 4, 6, 8]


def test_the_same_seed_makes_the_same_weights(tmp_path: Path) -> None:
    runs = [Copying(Plan(5, 0.02, seed=seed), tmp_path / name) for seed, name in ((1, "a"), (1, "b"), (2, "c"))]
    weights: list[dict[str, torch.Tensor]] = []
    for one in runs:
        torch.manual_seed(one.plan.seed)
        one.train()
        weights.append(one.modules.state_dict())
    assert same(weights[0], weights[1]) and not same(weights[0], weights[2])


def test_a_resumed_run_sees_other_samples(tmp_path: Path) -> None:
    first = Copying(Plan(3, 0.02), tmp_path).random.random(8).tolist()
    Copying(Plan(3, 0.02), tmp_path).train()
    assert Copying(Plan(6, 0.02), tmp_path).random.random(8).tolist() != first


@pytest.mark.parametrize("average", [0.5, 0.9])
def test_the_average_lags_behind(tmp_path: Path, average: float) -> None:
    one = Copying(Plan(6, 0.02, average=average), tmp_path)
    begun = one.net[0].weight.detach().clone()
    one.train()
    averaged = one.averaged["net"][0].weight
    assert 0 < (averaged - begun).norm() < (one.net[0].weight - begun).norm()


def test_the_average_is_the_weighted_mean(tmp_path: Path, always_saves: None) -> None:
    wanted: torch.Tensor | None = None
    for step in range(1, 5):
        one = Copying(Plan(9, 0.02, average=0.7), tmp_path, killed_in=step)
        with pytest.raises(KeyboardInterrupt):
            one.train()
        weight = one.net[2].weight.detach().clone()
        wanted = weight if wanted is None else 0.7 * wanted + 0.3 * weight
        assert torch.allclose(one.averaged["net"][2].weight, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("share", "rate"),
    [(0, 0.01), (0.005, 0.51), (0.01, 1), (0.5, 1), (0.75, 1), (0.875, 0.51), (1, 0.01)],
    ids=["first step", "warming up", "warm", "middle", "still warm", "falling", "last step"],
)
def test_the_rate_rises_and_falls(share: float, rate: float) -> None:
    assert Plan(100, 0.02).rate(share) == pytest.approx(rate)
