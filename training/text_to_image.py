"""`python -m training.text_to_image`: trains the UNet on composed scenes, for the text encoder that the model has.

v-prediction (Salimans and Ho 2022, arXiv:2202.00512), captions dropped for classifier-free guidance, an average of the
weights, and frames that grow. It starts from a model folder, and writes the averaged model as one that diffusers loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from diffusers import StableDiffusionPipeline
from torch import nn

from training.diffusion_run import DiffusionRun
from training.latent_pool import FIRST_FRAME, Batch
from training.run import Plan, run_options
from training.starter import export, load, mixed_precision

# The loss is of v, which is that of the picture times 1 + SNR; from this SNR on it is held back. Below it is not: with
# min-SNR weights (arXiv:2303.09556) noisy steps, where words decide shapes, counted too little.
MOST_SNR = 5.0
NO_CAPTION = 0.1
CURRICULUM = ((0.0, {16: 1.0}), (0.4, {16: 0.5, 32: 0.5}), (0.7, {16: 0.1, 32: 0.4, 64: 0.5}))
LEARNING_RATE = 0.012


class TextToImage(DiffusionRun):
    """Trains a pipeline's UNet. grown: it knows small frames, so all steps take the curriculum's last mix of frames."""

    def __init__(self, pipeline: StableDiffusionPipeline, plan: Plan, folder: Path, *, grown: bool = False) -> None:
        curriculum = ((0.0, CURRICULUM[-1][1]),) if grown else CURRICULUM
        super().__init__(pipeline, {"unet": cast(nn.Module, pipeline.unet)}, curriculum, plan, folder)
        self._ratio = self.kept / (1 - self.kept)  # signal to noise, at each time

    def errors(self, batch: Batch) -> torch.Tensor:
        latents = batch.latents.contiguous(memory_format=torch.channels_last)
        captions = ["" if self.random.random() < NO_CAPTION else words for words in batch.captions]
        times = self._times(len(captions), latents.shape[-1]).to(latents.device)
        noise = torch.randn_like(latents)
        noisy = self.noising.add_noise(latents, noise, times)
        text = self.text(captions)
        with mixed_precision(latents.device):
            predicted = self.modules["unet"](noisy, times, text, return_dict=False)[0]
        weights = ((MOST_SNR + 1) / (self._ratio[times] + 1)).clamp(max=1)[:, None, None]
        return weights * (predicted.float() - self.noising.get_velocity(latents, noise, times)).square().mean(1)

    def _times(self, count: int, frame: int) -> torch.Tensor:
        """Noise levels, mostly those at which shapes form: logit-normal (Esser et al. 2024, arXiv:2403.03206). Drawn
        from equal parts of that, one from each, so that batches differ less. In larger frames shapes are larger and
        stand out from more noise, up to (frame / 16)^2 as much (Hoogeboom et al. 2023, arXiv:2301.11093)."""
        parts = ((torch.arange(count) + torch.rand(count)) / count).clamp(1e-6, 1 - 1e-6)
        times = (torch.special.ndtri(parts).sigmoid() * len(self.kept)).long().clamp(max=len(self.kept) - 1)
        ratio = self._ratio.cpu()
        wanted = ratio[times] / max(frame / FIRST_FRAME, 1) ** (2 * torch.rand(count))
        return torch.searchsorted(-ratio, -wanted).clamp(max=len(ratio) - 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = run_options("text_to_image", "Trains the starter model.", "text-to-image", "starter-model", 20_000)
    parser.add_argument("--grown", action="store_true", help="the model knows small frames: train on large ones")
    options = parser.parse_args(arguments)
    pipeline = load(options.start)
    run = TextToImage(pipeline, Plan(options.steps, LEARNING_RATE, options.seed), options.work, grown=options.grown)
    run.train()
    cast(nn.Module, pipeline.unet).load_state_dict(run.averaged["unet"].state_dict())
    export(pipeline, options.output)


if __name__ == "__main__":
    main()
