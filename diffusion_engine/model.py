"""A loaded model: the parts of a Stable Diffusion pipeline, checked and ready to be executed by rows.

Loading is diffusers' own, from safetensors only, so weights never run code; its offline switches are respected.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import DiffusionPipeline, StableDiffusionPipeline, StableDiffusionXLPipeline
from diffusers.utils import logging as diffusers_logging
from torch import Tensor
from transformers.utils import logging as transformers_logging

from diffusion_engine.active_rows import PlanPolicy
from diffusion_engine.errors import UnsupportedModel, UserError
from diffusion_engine.samplers import model_sampler
from diffusion_engine.sparse_unet import AddedCondition, SparseUNet
from diffusion_engine.sparse_vae import SparseDecoder, SparseEncoder
from diffusion_engine.text_context import TextContext
from diffusion_engine.words import Words, taught_words

STARTER = Path(__file__).resolve().parent.parent / "assets" / "starter-model"
# Its finest level is cheap, so one row more there costs little; with `deltabrush eval` it brings about half a dB.
STARTER_POLICY = PlanPolicy(grow=(2, 1, 0))
Pipeline = StableDiffusionPipeline | StableDiffusionXLPipeline


@dataclass
class Model:
    """Parts of one pipeline on one device. The UNet runs in `dtype`, the VAE in fp32 (fp16 overflows there)."""

    name: str
    pipeline: Any
    unet: SparseUNet
    decoder: SparseDecoder
    encoder: SparseEncoder
    device: torch.device
    dtype: torch.dtype
    words: Words

    @property
    def scheduler_config(self) -> dict[str, Any]:
        return dict(self.pipeline.scheduler.config)

    @property
    def sampler(self) -> str:
        return model_sampler(type(self.pipeline.scheduler).__name__)

    @property
    def is_xl(self) -> bool:
        return isinstance(self.pipeline, StableDiffusionXLPipeline)

    @property
    def pixel_multiple(self) -> int:
        """Pictures are padded to multiples of this, so that every level of the UNet divides evenly."""
        return self.latent_scale * 2 ** (self.unet.level_count - 1)

    @property
    def latent_scale(self) -> int:
        """Pixels per latent row."""
        return 2 ** (self.decoder.level_count - 1)

    def level_shapes(self, latent_shape: tuple[int, int]) -> list[tuple[int, int]]:
        return [(latent_shape[0] >> level, latent_shape[1] >> level) for level in range(self.unet.level_count)]

    @torch.inference_mode()
    def encode_text(self, prompt: str, negative_prompt: str, branches: int) -> TextContext:
        """Text of each guidance branch, unconditional first: [branches, tokens, D], and pooled [branches, P] for SDXL.

        The pipeline's own encoding is used, with its rules for long and empty prompts.
        """
        guided = branches == 2
        encoded = self.pipeline.encode_prompt(
            prompt,
            device=self.device,
            num_images_per_prompt=1,
            do_classifier_free_guidance=guided,
            negative_prompt=negative_prompt or None,
        )
        conditional, unconditional = encoded[0], encoded[1]
        states = torch.cat([unconditional, conditional]) if guided else conditional
        words = (prompt, negative_prompt)
        if not self.is_xl:
            return TextContext.of(states, words=words)
        pooled = torch.cat([encoded[3], encoded[2]]) if guided else encoded[2]
        return TextContext.of(states, pooled, words)

    def added_condition(self, text: TextContext, size: tuple[int, int], segments: int) -> AddedCondition | None:
        """SDXL's pooled text and size conditioning for `segments` segments; None for other models."""
        if text.pooled is None:
            return None
        width, height = size
        ids = torch.tensor([[height, width, 0, 0, height, width]], dtype=text.pooled.dtype, device=self.device)
        pooled = text.pooled.repeat_interleave(segments // text.branches, 0)
        return {"text_embeds": pooled, "time_ids": ids.expand(segments, -1)}

    @torch.inference_mode()
    def encode_picture(self, picture: Tensor) -> Tensor:
        """Picture [1, 3, H, W] in -1..1 -> scaled latents fp32 [1, 4, h, w], the posterior's mean."""
        mean = self.pipeline.vae.encode(picture).latent_dist.mean
        return (mean - self._shift) * self.pipeline.vae.config.scaling_factor

    def unscaled(self, latents: Tensor) -> Tensor:
        """Latents as the VAE's decoder takes them."""
        return latents / self.pipeline.vae.config.scaling_factor + self._shift

    @property
    def _shift(self) -> float:
        return self.pipeline.vae.config.get("shift_factor") or 0.0


def load_model(source: str, *, device: str = "auto", dtype: str = "auto", offline: bool = False) -> Model:
    """Loads "starter", a diffusers folder, one .safetensors file, or a Hugging Face id.

    Raises UserError with one sentence when the model cannot be found or read, UnsupportedModel when it has a part that
    cannot be executed by rows.
    """
    target = _device(device)
    number = _dtype(dtype, target)
    name = source if source == "starter" else Path(source).name
    policy = STARTER_POLICY if source == "starter" else None
    taught = taught_words(_path(source))
    return model_of(_pipeline(source, number, offline), name, target, number, policy, taught)


def model_of(
    pipeline: Any,
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    policy: PlanPolicy | None = None,
    taught: frozenset[str] | None = None,
) -> Model:
    """A loaded Stable Diffusion pipeline as a model. Raises UnsupportedModel where a part cannot be run by rows.

    policy: how far plans of its UNet reach, by default what suits any UNet
    taught: the words it knows, where that is known
    """
    channels = pipeline.unet.config["in_channels"]
    if channels != pipeline.vae.config["latent_channels"]:
        raise UnsupportedModel(
            f"{name} takes {channels} input channels (an inpainting or edit checkpoint); use its base model instead."
        )
    pipeline.to(device)
    for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder):
        part.eval().requires_grad_(False)
    return Model(
        name=name,
        pipeline=pipeline,
        unet=SparseUNet(pipeline.unet, policy=policy),
        decoder=SparseDecoder(pipeline.vae),
        encoder=SparseEncoder(pipeline.vae),
        device=device,
        dtype=dtype,
        words=Words(pipeline.tokenizer, taught),
    )


def _path(source: str) -> Path:
    return STARTER if source == "starter" else Path(source).expanduser()


def _pipeline(source: str, dtype: torch.dtype, offline: bool) -> Any:
    path = _path(source)
    # The VAE runs in fp32 whatever the rest does: fp16 overflows in it.
    common: dict[str, Any] = {"dtype": {"default": dtype, "vae": torch.float32}, "local_files_only": offline}
    diffusers_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
    try:
        if path.is_file():
            if path.suffix != ".safetensors":
                raise UserError(
                    f"{source} is not a .safetensors file; other weight files can run code and are refused."
                )
            return _single_file(path, common)
        if path.exists() and not (path / "model_index.json").is_file():
            raise UserError(f"{source} is not a diffusers folder: it has no model_index.json.")
        location = str(path) if path.exists() else source
        pipeline = DiffusionPipeline.from_pretrained(location, use_safetensors=True, safety_checker=None, **common)
    except (OSError, ValueError) as problem:
        if isinstance(problem, UserError):
            raise
        reason = str(problem).strip().splitlines()[0][:300]
        raise UserError(f"The model {source!r} could not be loaded: {reason}") from problem
    if not isinstance(pipeline, Pipeline):
        raise UnsupportedModel(
            f"{source} is a {type(pipeline).__name__}; SD 1.x, SD 2.x and SDXL models are supported."
        )
    return pipeline


def _single_file(path: Path, common: dict[str, Any]) -> Any:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as weights:
        is_xl = any(key.startswith("conditioner.embedders.1.") for key in weights.keys())  # noqa: SIM118
    kind = StableDiffusionXLPipeline if is_xl else StableDiffusionPipeline
    return kind.from_single_file(str(path), safety_checker=None, **common)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        raise UserError(f"The device {name!r} is not available here; use --device auto or cpu.") from problem
    return device


def _dtype(name: str, device: torch.device) -> torch.dtype:
    numbers = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in numbers:
        raise UserError(f"There is no dtype {name!r}; choose one of auto, {', '.join(numbers)}.")
    return numbers[name]
