"""`python -m training.text_encoder`: teaches the text encoder what the things look like that its words name.

A UNet that gets a word as one arbitrary vector has to learn each shape by heart. This encoder answers with appearance:
the last SLOTS positions of its output hold a thumbnail of what the caption names, a part of it in each, from which a
UNet only has to copy. The thumbnails are latents of the cut-outs and of the backgrounds; a linear head reads them from
the output while it is trained, and is then thrown away. To any program it is an ordinary CLIP text encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, StableDiffusionPipeline
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel

from training.backgrounds import Background, draw_background
from training.captions import Description, describe, vocabulary
from training.colours import PAINTS
from training.compositor import Compositor
from training.latent_pool import encode
from training.layouts import Arranger, Layout, Placed
from training.objects import objects
from training.run import Plan, Run, run_options
from training.starter import export, load, mixed_precision
from training.tokenizer import POSITIONS, SLOTS, adopt_tokenizer, make_tokenizer

ACROSS = 4  # parts of a thumbnail a side
THUMBNAIL = 16  # latents a side, of an object
BEHIND = 8  # of a background
OBJECTS = 2  # that have thumbnails
ALPHA = 1  # channels
PART = (4 + ALPHA) * (THUMBNAIL // ACROSS) ** 2  # numbers of an object in one slot
PART_BEHIND = 4 * (BEHIND // ACROSS) ** 2
BATCH = 192
BACKGROUNDS = 2048
LEARNING_RATE = 0.01
LONG, CAPTIONS_IN_LONG = 0.1, 4  # share of prompts that go on into the SLOTS, and what they are made of


class TextEncoderRun(Run):
    """Trains a pipeline's text encoder on captions alone; pictures are only looked up."""

    def __init__(self, pipeline: StableDiffusionPipeline, plan: Plan, folder: Path) -> None:
        self._tokenizer: Any = pipeline.tokenizer
        self._device = pipeline.device
        encoder: Any = pipeline.text_encoder
        encoder.set_attn_implementation("eager")  # the fused one is slow backwards in bf16
        head = nn.Linear(encoder.config.hidden_size, OBJECTS * PART + PART_BEHIND).to(self._device)
        super().__init__({"text_encoder": encoder, "head": head}, plan, folder)
        draw = np.random.default_rng(plan.seed)
        self._grounds = [draw_background(draw, BEHIND * 8) for _ in range(BACKGROUNDS)]
        self._behind = background_parts(pipeline.vae, self._grounds)
        self._things = object_parts(pipeline.vae)
        self._arranger = Arranger()

    def loss(self) -> torch.Tensor:
        chosen = self.random.integers(len(self._grounds), size=BATCH)
        grounds = [self._grounds[index] for index in chosen]
        layouts = [self._arranger.arrange(self.random, ground.place, ground.horizon) for ground in grounds]
        told = [describe(self.random, *one) for one in zip(layouts, grounds, strict=True)]
        told = [self._longer(one, told) if self.random.random() < LONG else one for one in told]
        tokens = self._tokenizer(
            [one.words for one in told], padding="max_length", truncation=True, return_tensors="pt"
        )
        with mixed_precision(self._device):
            text = self.modules["text_encoder"](tokens.input_ids.to(self._device))[0][:, -SLOTS:]
            seen = self.modules["head"](text).float()  # [B, SLOTS, numbers]
        wanted = torch.stack([self._objects(one) for one in told])
        error = (seen[..., : OBJECTS * PART] - wanted).square().mean()
        named = torch.tensor([one.names_place for one in told])
        behind = (seen[..., OBJECTS * PART :] - self._behind[chosen]).square().mean((1, 2))
        return error + (behind * named).mean()

    def _longer(self, first: Description, others: Sequence[Description]) -> Description:
        """A prompt that goes on with other captions: what it names first still has its thumbnails."""
        more = [others[index] for index in self.random.integers(len(others), size=CAPTIONS_IN_LONG - 1)]
        everything = [first, *more]
        named = tuple(thing for one in everything for thing in one.named)
        return Description(", ".join(one.words for one in everything), named, first.names_place)

    def _objects(self, told: Description) -> torch.Tensor:
        """[SLOTS, OBJECTS * PART]: the first objects that a caption names, zeros where it names fewer."""
        parts = [self._things[one.thing.name, one.paint] for one in told.named[:OBJECTS]]
        return torch.cat([*parts, *[torch.zeros(SLOTS, PART)] * (OBJECTS - len(parts))], 1)


def object_parts(vae: AutoencoderKL) -> dict[tuple[str, str | None], torch.Tensor]:
    """Of each object in each paint: latents and alpha, zero outside of it, [SLOTS, PART]."""
    plain = Background(np.full((8, 8, 3), 0.5, np.float32), (), (), "plain", None, np.ones(3, np.float32))
    compositor = Compositor([plain], vae.device)
    keys = [(thing, paint) for thing in objects() for paint in (None, *(PAINTS if thing.recolour else ()))]
    found: dict[tuple[str, str | None], torch.Tensor] = {}
    for begin in range(0, len(keys), 32):
        some = keys[begin : begin + 32]
        placed = [Placed(thing, paint, 0.5, 0.5, 0.95, 0.0, False, False) for thing, paint in some]
        layouts = [Layout(0, 0, 1, (one,)) for one in placed]
        pictures = compositor.compose([0] * len(some), layouts, THUMBNAIL * 8)
        alphas = F.avg_pool2d(pictures.alphas[:, :1], 8)  # [b, 1, 16, 16]
        latents = torch.cat((encode(vae, pictures.images) * (alphas > 0.1), alphas), 1)
        for (thing, paint), parts in zip(some, _parts(latents), strict=True):
            found[thing.name, paint] = parts
    return found


def background_parts(vae: AutoencoderKL, grounds: Sequence[Background]) -> torch.Tensor:
    """Latents of each background, [n, SLOTS, PART_BEHIND]."""
    compositor = Compositor(grounds[:1], vae.device)
    whole = Layout(0, 0, 1, ())
    latents: list[torch.Tensor] = []
    for ground in grounds:
        compositor.replace(0, ground)
        latents.append(compositor.compose([0], [whole], BEHIND * 8).images)
    return torch.cat([_parts(encode(vae, torch.cat(latents[i : i + 64]))) for i in range(0, len(latents), 64)])


def _parts(latents: torch.Tensor) -> torch.Tensor:
    """[b, C, s, s] as [b, SLOTS, C * (s / ACROSS)^2]: unfolded, a square part in each slot."""
    size = latents.shape[-1] // ACROSS
    return F.unfold(latents.float(), size, stride=size).transpose(1, 2)


def widened(encoder: CLIPTextModel) -> CLIPTextModel:
    """The encoder with SLOTS more positions after its own, if it has none yet."""
    config = encoder.config
    if config.max_position_embeddings == POSITIONS:
        return encoder
    settings: dict[str, Any] = {**config.to_dict(), "max_position_embeddings": POSITIONS}
    wider: Any = CLIPTextModel(CLIPTextConfig(**settings))
    weights = encoder.state_dict()
    places = "embeddings.position_embedding.weight"
    held = wider.state_dict()[places].clone()
    held[: len(weights[places])] = weights[places]
    wider.load_state_dict({**weights, places: held}, strict=False)
    return wider.to(encoder.device)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = run_options("text_encoder", "Trains the text encoder.", "text-encoder", "worded-model", 3000)
    options = parser.parse_args(arguments)
    pipeline: Any = load(options.start)
    tokenizer = make_tokenizer(vocabulary())
    adopt_tokenizer(pipeline.text_encoder, pipeline.tokenizer, tokenizer)
    pipeline.tokenizer, pipeline.text_encoder = tokenizer, widened(pipeline.text_encoder)
    run = TextEncoderRun(pipeline, Plan(options.steps, LEARNING_RATE, options.seed), options.work)
    run.train()
    pipeline.text_encoder.load_state_dict(run.averaged["text_encoder"].state_dict())
    export(pipeline, options.output)


if __name__ == "__main__":
    main()
