"""`python -m training.vae`: trains the autoencoder on crops of composed scenes.

The latents are means with a little noise: sampling from a posterior made them grow until the noise was drowned.
With the encoder frozen the decoder can be improved at any time without touching a trained UNet; a trained encoder moves
the latents a little, so that a UNet has to be trained on after it. The loss is of pixels, of their gradients, of
reduced pictures, and of the first layers of the judge, which care for outlines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from torch import nn

from training.backgrounds import draw_background
from training.compositor import Compositor
from training.judge import HELD_OUT, Judge, load_judge
from training.layouts import Arranger
from training.run import Plan, Run, run_options
from training.starter import decoded, device, encoded, load, mixed_precision

CHANNELS = (16, 32, 64, 128)
NOISE = 0.05  # of the latents' own spread
SMALL_LATENTS = 1e-3  # penalty on their square: keeps them near one
SIDES = (256, 512)  # of the scenes that crops are cut from
CROP = 96
SCENES_AT_ONCE, CROPS_PER_SCENE = 8, 6
SCENE_USES = 4
LEARNING_RATE, LEARNING_RATE_ANEW = 0.004, 0.02


def new_vae() -> AutoencoderKL:
    """The starter model's autoencoder, untrained: 8 pixels to a latent of 4 channels."""
    config: dict[str, Any] = {
        "down_block_types": ("DownEncoderBlock2D",) * len(CHANNELS),
        "up_block_types": ("UpDecoderBlock2D",) * len(CHANNELS),
        "block_out_channels": CHANNELS,
        "layers_per_block": 1,
        "norm_num_groups": 2,  # with more, groups of the narrow blocks are so small that brightness is lost
        "mid_block_add_attention": False,
    }
    return AutoencoderKL(**config)


class Crops:
    """An endless stream of crops [n, 3, CROP, CROP], 0..1, at the places where there is most to see."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._arranger = Arranger()
        self._compositor: Compositor | None = None
        self._scenes: list[torch.Tensor] = []

    def draw(self) -> torch.Tensor:
        """SCENES_AT_ONCE * CROPS_PER_SCENE crops."""
        if not self._scenes:
            scenes = self.scenes(SCENES_AT_ONCE, int(self._random.choice(SIDES)))
            self._scenes = [scenes] * SCENE_USES
        scenes = self._scenes.pop()
        places = self._random.integers(0, scenes.shape[-1] - CROP, (len(scenes), CROPS_PER_SCENE, 2))
        return torch.stack(
            [scene[:, y : y + CROP, x : x + CROP] for scene, ways in zip(scenes, places, strict=True) for y, x in ways]
        )

    def scenes(self, count: int, side: int) -> torch.Tensor:
        """Whole scenes [count, 3, side, side], 0..1."""
        grounds = [draw_background(self._random, max(SIDES)) for _ in range(count)]
        if self._compositor is None:
            self._compositor = Compositor(grounds)
        layouts = [self._arranger.arrange(self._random, ground.place, ground.horizon) for ground in grounds]
        for index, ground in enumerate(grounds):
            self._compositor.replace(index, ground)
        return self._compositor.compose(range(count), layouts, side).images


def difference(made: torch.Tensor, wanted: torch.Tensor, judge: Judge | None) -> torch.Tensor:
    """made, wanted: [n, 3, s, s], -1..1."""
    error = made - wanted
    total = error.abs().mean() + 10 * error.square().mean() + F.avg_pool2d(error, 4).abs().mean()
    total = total + 0.5 * (error.diff(dim=2).abs().mean() + error.diff(dim=3).abs().mean())
    if judge is not None:
        outlines = judge.body[:2]
        total = total + 0.05 * (outlines(made) - outlines(wanted)).abs().mean()
    return total


class VaeRun(Run):
    """Trains an autoencoder, or its decoder alone. judge: its first layers compare outlines; None leaves that out."""

    def __init__(
        self, vae: AutoencoderKL, plan: Plan, folder: Path, *, decoder_only: bool, judge: Judge | None
    ) -> None:
        self._vae, self._judge, self._learns_latents = vae, judge, not decoder_only
        vae.requires_grad_(not decoder_only)
        for part in cast(list[nn.Module], [vae.decoder, vae.post_quant_conv]):
            part.requires_grad_(True)
        super().__init__({"vae": cast(nn.Module, vae)}, plan, folder)
        self._crops = Crops(plan.seed + self.step)

    def loss(self) -> torch.Tensor:
        wanted = (self._crops.draw().to(self._vae.device) * 2 - 1).contiguous(memory_format=torch.channels_last)
        with mixed_precision(self._vae.device):
            latents = encoded(self._vae, wanted)
            noisy = latents + NOISE * latents.detach().std() * torch.randn_like(latents)
            made = decoded(self._vae, noisy)
        error = difference(made.float(), wanted, self._judge)
        return error + SMALL_LATENTS * latents.float().square().mean() if self._learns_latents else error


@torch.no_grad()
def reconstruction_db(vae: AutoencoderKL, scenes: int = 48, side: int = 512) -> float:
    """Mean PSNR in dB of whole held-out scenes through the autoencoder."""
    crops, found = Crops(HELD_OUT), list[float]()
    for _ in range(scenes // SCENES_AT_ONCE):
        for wanted in crops.scenes(SCENES_AT_ONCE, side).to(vae.device).split(1):
            made = decoded(vae, encoded(vae, wanted * 2 - 1)) / 2 + 0.5
            found.append(-10 * math.log10(float((made.clamp(0, 1) - wanted).square().mean())))
    return float(np.mean(found))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = run_options("vae", "Trains the autoencoder.", "vae", "starter-vae", 2000)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--decoder-only", action="store_true", help="freeze the encoder")
    how.add_argument("--anew", action="store_true", help="begin from nothing instead of the model in --start")
    options = parser.parse_args(arguments)
    begun: Any = new_vae() if options.anew else load(options.start).vae
    vae: AutoencoderKL = begun.to(device(), memory_format=torch.channels_last)
    judge = load_judge().requires_grad_(False).to(vae.device)
    work = options.work / ("decoder" if options.decoder_only else "whole")  # one does not go on from the other
    rate = LEARNING_RATE_ANEW if options.anew else LEARNING_RATE
    plan = Plan(options.steps, rate, options.seed, decay=0.4)
    run = VaeRun(vae, plan, work, decoder_only=options.decoder_only, judge=judge)
    run.train()
    vae.load_state_dict(run.averaged["vae"].state_dict())
    vae.requires_grad_(False)
    if not options.decoder_only:
        finish(vae, options.seed)
    vae.half().save_pretrained(options.output)
    print(f"PSNR of held-out scenes: {reconstruction_db(vae.float()):.2f} dB")


@torch.no_grad()
def finish(vae: AutoencoderKL, seed: int) -> None:
    """Scales the latents of a newly trained one to a spread of 1, and makes its posterior certain."""
    scenes = Crops(seed).scenes(64, min(SIDES)).to(vae.device)
    vae.register_to_config(scaling_factor=1 / float(encoded(vae, scenes * 2 - 1).std()))
    assert vae.quant_conv is not None and vae.quant_conv.bias is not None
    vae.quant_conv.weight[4:] = 0
    vae.quant_conv.bias[4:] = -30


if __name__ == "__main__":
    main()
