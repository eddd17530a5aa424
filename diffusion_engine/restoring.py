"""Between versions and what is saved of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from diffusion_engine.errors import UserError
from diffusion_engine.generating import dense_report
from diffusion_engine.model import Model
from diffusion_engine.pictures import picture_tensor, tensor_pixels
from diffusion_engine.preview import PreviewMap
from diffusion_engine.regional import PromptMap
from diffusion_engine.requests import check_description
from diffusion_engine.samplers import make_scheduler
from diffusion_engine.saved_versions import Array, SavedVersion
from diffusion_engine.text_context import TextContext
from diffusion_engine.trajectory import Trajectory
from diffusion_engine.versions import SamplingSettings, Version, VersionState
from diffusion_engine.workbench import Workbench


def saved(version: Version, parent: Version | None, weights: Array) -> SavedVersion:
    """A version as plain data, told against the one it was made from. weights: `sample_of` its model."""
    latents = _latents(version)
    before = np.zeros_like(latents) if parent is None else _latents(parent)
    cells = (latents.view(np.int32) != before.view(np.int32)).any(axis=(0, 1))  # by bits: -0.0 is not 0.0
    arrays: dict[str, Array] = {"cells": cells, "latents": latents[:, :, cells], "weights": weights}
    prompts: list[dict[str, Any]] = []
    state: VersionState | None = version.state
    while state is not None:
        for level, index in enumerate(state.prompts.index):
            arrays[f"prompts.{len(prompts)}.{level}"] = index.cpu().numpy().astype(np.int32)
        prompts.append({"start": state.start, "texts": [_words(text) for text in state.prompts.texts]})
        state = state.before
    facts = {
        "prompt": version.prompt,
        "negative_prompt": version.negative_prompt,
        "seed": version.seed,
        "size": list(version.settings.size),
        "steps": version.steps,
        "sampler": version.sampler,
        "guidance": version.guidance,
        "model": version.model_name,
        "condition": _words(version.state.condition),
        "prompts": prompts,
    }
    return SavedVersion(version.parent_id, facts, arrays)


def restored(
    bench: Workbench, version_id: str, lineage: Sequence[SavedVersion], image: Image.Image, settings: SamplingSettings
) -> Version:
    """The last of `lineage` as a version again, without a parent; nothing of it is recorded yet. Raises UserError.

    lineage: the versions it was made from, a whole one first, each told against the one before
    image: its pixels, RGB; settings: as its facts say
    """
    begun, model, last = time.perf_counter(), bench.model, lineage[-1]
    facts, shapes = last.facts, model.level_shapes(bench.latent_shape(settings))
    check_description(facts["prompt"], facts["negative_prompt"], facts["seed"])
    scheduler = make_scheduler(model.scheduler_config, settings.sampler)
    scheduler.set_timesteps(settings.steps, device=model.device)
    channels: int = model.pipeline.unet.config["in_channels"]
    latents = np.zeros((len(scheduler.timesteps) + 1, channels, *shapes[0]), np.float32)
    index = [last.index(number) for number in range(len(facts["prompts"]))]
    fits = [one.arrays["cells"].shape == shapes[0] for one in lineage]
    fits += [one.arrays["latents"].shape[:2] == latents.shape[:2] for one in lineage]
    fits += [[rows.size for rows in levels] == [height * width for height, width in shapes] for levels in index]
    if not all(fits) or image.size != settings.size:
        raise UserError("What was saved of this version does not fit it: export its picture, and open that.")
    for one in lineage:
        latents[:, :, one.arrays["cells"]] = one.arrays["latents"]
    trajectory = Trajectory(tuple(step[None].clone().to(model.device) for step in torch.from_numpy(latents)))
    planes = picture_tensor(image, settings.padded, model.device)
    pixels = tensor_pixels(planes, settings.size)[0]
    weights = bench.weights()

    def encode(words: Sequence[str]) -> TextContext:
        prompt, negative_prompt = words
        return bench.texts.encoded(prompt, negative_prompt, settings.branches, weights)

    condition = encode(facts["condition"])
    state: VersionState | None = None
    for told, levels in zip(reversed(facts["prompts"]), reversed(index), strict=True):
        rows = tuple(torch.tensor(level, dtype=torch.long, device=model.device) for level in levels)
        prompts = PromptMap(tuple(encode(text) for text in told["texts"]), rows)
        # before an edit's start the latents are those of what it was made from: one trajectory serves all states
        state = VersionState(trajectory, prompts, pixels, condition, told["start"], state)
    assert state is not None, "a saved version has a prompt map"
    bench.preview_map = PreviewMap.fit(trajectory.final, planes)
    seconds = time.perf_counter() - begun
    return Version(
        id=version_id,
        parent_id=None,
        image=Image.fromarray(pixels),
        prompt=facts["prompt"],
        negative_prompt=facts["negative_prompt"],
        seed=facts["seed"],
        settings=settings,
        model_name=model.name,
        report=dense_report(bench, {"total": seconds}, seconds, 0, len(shapes)),
        state=state,
    )


@torch.inference_mode()
def sample_of(model: Model) -> Array:
    """One weight of each tensor, fp32: tells one model from another at any precision, also where its name does not."""
    parts = [getattr(model.pipeline, name, None) for name in ("unet", "text_encoder", "text_encoder_2", "vae")]
    tensors = [tensor for part in parts if part is not None for tensor in part.parameters()]
    weights = [tensor[tuple(side // 2 for side in tensor.shape)] for tensor in tensors]
    return torch.stack([weight.float() for weight in weights]).cpu().numpy()


def _latents(version: Version) -> Array:
    """fp32 [steps + 1, C, h, w]."""
    return torch.cat(version.state.trajectory.latents).cpu().numpy()


def _words(text: TextContext) -> list[str]:
    assert text.words is not None, "the texts of versions are encoded from words"
    return [*text.words]
