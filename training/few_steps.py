"""`python -m training.few_steps`: a UNet that needs four steps and no guidance, distilled from the starter model's.

Progressive distillation (Salimans and Ho 2022, arXiv:2202.00512) in one stage: where the teacher, guided, takes several
DDIM steps, the student learns to arrive with one (guidance is distilled with it: Meng et al. 2023, arXiv:2210.03142).
The student is sampled by DDIM with trailing timesteps and guidance 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel

from training.diffusion_run import DiffusionRun
from training.latent_pool import Batch
from training.run import Plan, run_options
from training.starter import load, mixed_precision

STEPS = 4
TEACHER_STEPS = 4  # for each of the student's
GUIDANCE = 4.0
LEARNING_RATE = 0.004
CURRICULUM = ((0.0, {16: 0.5, 32: 0.5}), (0.6, {16: 0.2, 32: 0.5, 64: 0.3}))


class FewSteps(DiffusionRun):
    """Distils the UNet of a pipeline; its text encoder stays."""

    def __init__(self, pipeline: StableDiffusionPipeline, plan: Plan, folder: Path) -> None:
        self._teacher: UNet2DConditionModel = copy.deepcopy(pipeline.unet).eval().requires_grad_(False)
        super().__init__(pipeline, {"unet": pipeline.unet}, CURRICULUM, plan, folder)

    def errors(self, batch: Batch) -> torch.Tensor:
        count, device = len(batch.captions), batch.latents.device
        part = len(self.kept) // STEPS
        times = torch.randint(1, STEPS + 1, (count,), device=device) * part - 1  # where the student's steps begin
        noisy = self.noising.add_noise(batch.latents, torch.randn_like(batch.latents), times)
        text = self.text(batch.captions)
        nothing = self.text([""]).expand_as(text)
        reached, here = noisy, times
        for step in range(1, TEACHER_STEPS + 1):
            there = times - part * step // TEACHER_STEPS
            reached = self._ddim(reached, self._guided(reached, here, text, nothing), here, there)
            here = there
        with mixed_precision(device):
            predicted = self.modules["unet"](noisy, times, text, return_dict=False)[0]
        return (predicted.float() - self._velocity_between(noisy, reached, times, here)).square().mean(1)

    @torch.no_grad()
    def _guided(
        self, noisy: torch.Tensor, times: torch.Tensor, text: torch.Tensor, nothing: torch.Tensor
    ) -> torch.Tensor:
        with mixed_precision(noisy.device):
            both = self._teacher(
                torch.cat((noisy, noisy)), torch.cat((times, times)), torch.cat((nothing, text)), return_dict=False
            )[0]
        without, with_text = both.float().chunk(2)
        return without + GUIDANCE * (with_text - without)

    def _scales(self, times: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How much of picture and of noise there is at each time, [B, 1, 1, 1]; at -1 the picture alone."""
        kept = torch.where(times < 0, 1.0, self.kept[times.clamp(min=0)])[:, None, None, None]
        return kept.sqrt(), (1 - kept).sqrt()

    def _ddim(
        self, noisy: torch.Tensor, velocity: torch.Tensor, here: torch.Tensor, there: torch.Tensor
    ) -> torch.Tensor:
        (a, s), (b, r) = self._scales(here), self._scales(there)
        return b * (a * noisy - s * velocity) + r * (s * noisy + a * velocity)

    def _velocity_between(
        self, noisy: torch.Tensor, reached: torch.Tensor, here: torch.Tensor, there: torch.Tensor
    ) -> torch.Tensor:
        """The velocity with which one DDIM step from `noisy` arrives at `reached`."""
        (a, s), (b, r) = self._scales(here), self._scales(there)
        return (reached - (b * a + r * s) * noisy) / (r * a - b * s)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = run_options("few_steps", "Distils the starter model.", "few-steps", "few-steps-unet", 4000)
    options = parser.parse_args(arguments)
    pipeline = load(options.start)
    run = FewSteps(pipeline, Plan(options.steps, LEARNING_RATE, options.seed), options.work)
    run.train()
    pipeline.unet.load_state_dict(run.averaged["unet"].state_dict())
    pipeline.unet.to(torch.float16).save_pretrained(options.output)


if __name__ == "__main__":
    main()
