"""One long training: what all of them share. It goes on from its last checkpoint when it was stopped."""

from __future__ import annotations

import argparse
import csv
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from diffusion_engine.allocator import keep_freed_memory
from training import checkpoints
from training.optimizers import MuonAndAdamW
from training.starter import STARTER

SAVE_SECONDS = 300
REPORT_STEPS = 50
CURVE = "curve.csv"
OUTPUTS = Path("outputs")


@dataclass(frozen=True)
class Plan:
    """What a run does.

    learning_rate: Muon's, at its highest. average: share of the averaged weights that stays at each step.
    warm_up, decay: shares of the steps in which the rate rises at the beginning and falls at the end
    """

    steps: int
    learning_rate: float
    seed: int = 0
    average: float = 0.998
    warm_up: float = 0.01
    decay: float = 0.25

    def rate(self, share: float) -> float:
        """Of the learning rate, when `share` of the steps are done."""
        return min(1, share / self.warm_up + 0.01, (1 - share) / self.decay + 0.01)


class Run(ABC):
    """Trains modules and keeps an average of their weights. folder: of its checkpoints and its curve."""

    def __init__(self, modules: dict[str, nn.Module], plan: Plan, folder: Path) -> None:
        keep_freed_memory()
        self.modules, self.plan = nn.ModuleDict(modules), plan
        self._folder = folder
        self._optimizer = MuonAndAdamW(self.modules.values(), plan.learning_rate)
        self._average = AveragedModel(self.modules, multi_avg_fn=get_ema_multi_avg_fn(plan.average))
        self._curve: list[tuple[int, float]] = []
        self.step = 0
        self._resume()
        self.random = np.random.default_rng([plan.seed, self.step])
        torch.manual_seed(plan.seed + self.step)

    @abstractmethod
    def loss(self) -> torch.Tensor:
        """Of the next batch."""

    @property
    def share(self) -> float:
        """Of the steps that are done."""
        return self.step / self.plan.steps

    @property
    def averaged(self) -> nn.ModuleDict:
        """The modules with averaged weights."""
        return cast(nn.ModuleDict, self._average.module)

    def train(self) -> None:
        """Until the plan's steps are done; saves now and then and at the end."""
        losses: list[float] = []
        saved = reported = time.monotonic()
        while self.step < self.plan.steps:
            losses.append(self._advance())
            if len(losses) == REPORT_STEPS:
                now, mean = time.monotonic(), float(np.mean(losses))
                self._curve.append((self.step, mean))
                print(f"{self.step:>7} steps, loss {mean:.4f}, {now - reported:.0f} s", flush=True)
                losses, reported = [], now
            if time.monotonic() - saved > SAVE_SECONDS:
                self._save()
                saved = time.monotonic()
        self._save()

    def _advance(self) -> float:
        loss = self.loss()
        loss.backward()
        self._optimizer.step(self.plan.rate(self.share))
        self._average.update_parameters(self.modules)
        self.step += 1
        return float(loss.detach())

    def _save(self) -> None:
        groups = {
            "model": self.modules.state_dict(),
            "average": self._average.state_dict(),
            "optimizer": self._optimizer.state(),
        }
        checkpoints.save(self._folder, groups, {"step": self.step, "curve": self._curve})
        with (self._folder / CURVE).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [("step", "loss"), *((s, f"{v:.4f}") for s, v in self._curve)]
            )

    def _resume(self) -> None:
        found = checkpoints.load(self._folder)
        if found:
            groups, facts = found
            self.modules.load_state_dict(groups["model"])
            self._average.load_state_dict(groups["average"])
            self._optimizer.load_state(groups["optimizer"])
            self.step, self._curve = facts["step"], [(int(step), float(loss)) for step, loss in facts["curve"]]
            print(f"goes on from step {self.step}", flush=True)


def run_options(name: str, description: str, work: str, output: str, steps: int) -> argparse.ArgumentParser:
    """The options that runs share, with these defaults. name: of the module; work, output: folders below outputs."""
    parser = argparse.ArgumentParser(prog=f"python -m training.{name}", description=description)
    parser.add_argument("--start", type=Path, default=STARTER, help="the model folder to begin with")
    parser.add_argument("--work", type=Path, default=OUTPUTS / work, help="folder of the checkpoints")
    parser.add_argument("--output", type=Path, default=OUTPUTS / output, help="where to write what was trained")
    parser.add_argument("--steps", type=int, default=steps, help=f"steps in all (default {steps})")
    parser.add_argument("--seed", type=int, default=0)
    return parser
