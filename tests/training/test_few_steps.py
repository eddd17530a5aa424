"""Distillation: the student's one step arrives where the guided teacher's several do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from diffusers import DDIMScheduler
from torch import nn
from transformers import CLIPTokenizer

from tests.training.small_pipeline import RandomPool, small_pipeline
from training import diffusion_run, few_steps
from training.few_steps import FewSteps
from training.run import Plan


class Teacher(nn.Module):
    """Its velocity depends on what it sees, when, and on the text."""

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, text: torch.Tensor, **_: object) -> tuple[torch.Tensor]:
        return (0.3 * noisy + times[:, None, None, None] / 2000 + text[..., 0].mean(1)[:, None, None, None],)


@pytest.fixture
def made(tokenizer: CLIPTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FewSteps:
    monkeypatch.setattr(RandomPool, "asked", [], raising=False)
    monkeypatch.setattr(diffusion_run, "LatentPool", RandomPool)
    monkeypatch.setattr(diffusion_run, "LATENTS_PER_STEP", 4 * 16**2)
    monkeypatch.setattr(few_steps, "CURRICULUM", ((0.0, {8: 1.0}),))
    return FewSteps(small_pipeline(tokenizer), Plan(2, 0.01), tmp_path)


@pytest.mark.parametrize(
    ("here", "there", "steps"), [(999, 749, 4), (499, 249, 4), (249, -1, 4), (999, 937, 16)], ids=str
)
def test_a_step_is_that_of_ddim(made: FewSteps, here: int, there: int, steps: int) -> None:
    scheduler = DDIMScheduler.from_config(made.pipeline.scheduler.config, clip_sample=False)
    scheduler.set_timesteps(steps)
    noisy, velocity = torch.randn(2, 3, 4, 8, 8)
    before, after = (torch.full((3,), time) for time in (here, there))
    reached = made._ddim(noisy, velocity, before, after)
    assert torch.allclose(reached, scheduler.step(velocity, here, noisy).prev_sample, atol=1e-5)
    assert torch.allclose(made._velocity_between(noisy, reached, before, after), velocity, atol=2e-3)


@pytest.mark.parametrize(
    ("guidance", "steps", "arrives"),
    [(1.0, 1, True), (1.0, 4, False), (4.0, 1, False)],
    ids=["as the teacher", "in one step for four", "without guidance"],
)
def test_what_the_student_must_learn(
    made: FewSteps, monkeypatch: pytest.MonkeyPatch, guidance: float, steps: int, arrives: bool
) -> None:
    """A student that is its teacher is right only where it need not do more than the teacher's one step."""
    monkeypatch.setattr(few_steps, "GUIDANCE", guidance)
    monkeypatch.setattr(few_steps, "TEACHER_STEPS", steps)
    teacher = Teacher()
    made.modules["unet"] = teacher
    monkeypatch.setattr(made, "_teacher", teacher)
    errors = made.errors(RandomPool(None, 8).draw(12))
    assert errors.shape == (12, 8, 8)
    assert (errors.mean() < 1e-5) == arrives, float(errors.mean())


def test_it_trains_the_student_alone(made: FewSteps) -> None:
    teacher = {name: weight.clone() for name, weight in made._teacher.state_dict().items()}
    made.train()
    assert all(torch.equal(weight, teacher[name]) for name, weight in made._teacher.state_dict().items())
    assert not torch.equal(made.averaged["unet"].conv_in.weight, teacher["conv_in.weight"])
