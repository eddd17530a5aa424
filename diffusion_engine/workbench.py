"""What generating, editing and recording share: the model, the recordings, the cost of a pass, and the preview map."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from diffusion_engine.activation_key import SlotKeys
from diffusion_engine.cache_settings import CacheFormats
from diffusion_engine.cost_model import PassTimer, dense_macs, network_costs, sparse_macs
from diffusion_engine.fingerprint import WeightKeys
from diffusion_engine.model import Model
from diffusion_engine.noise import tile_noise
from diffusion_engine.pictures import tensor_pixels
from diffusion_engine.preview import PreviewMap
from diffusion_engine.recording import Recording
from diffusion_engine.recording_store import RecordingStore
from diffusion_engine.regional import PromptMap
from diffusion_engine.sparse_unet import AddedCondition
from diffusion_engine.staging import Staging
from diffusion_engine.step_cache import StepCache
from diffusion_engine.text_cache import TextCache
from diffusion_engine.text_context import TextContext
from diffusion_engine.versions import SamplingSettings, VersionState


class Stopwatch:
    """Seconds per named stage of one request."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """The time since the last lap belongs to `stage`."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def stop(self) -> dict[str, float]:
        self.seconds["total"] = time.perf_counter() - self._begun
        return self.seconds


@dataclass
class Workbench:
    """Owned by the engine; used by one computation at a time."""

    model: Model
    store: RecordingStore
    formats: CacheFormats
    timer: PassTimer = field(default_factory=PassTimer)
    decode_timer: PassTimer = field(default_factory=PassTimer)

    def __post_init__(self) -> None:
        model = self.model
        self.texts = TextCache(model)
        self.unet_costs = network_costs(model.pipeline.unet, model.unet.level_count)
        self.decoder_costs = network_costs(model.pipeline.vae.decoder, model.decoder.level_count, starts_coarse=True)
        self.preview_map = self._first_preview_map()
        self._calibrated = False

    def latent_shape(self, settings: SamplingSettings) -> tuple[int, int]:
        scale = self.model.latent_scale
        return settings.padded[1] // scale, settings.padded[0] // scale

    def noise(self, seeds: list[int], shape: tuple[int, int]) -> Tensor:
        """Tile-keyed noise of each seed, fp32 [V, C, h, w] on the model's device."""
        channels: int = self.model.pipeline.unet.config["in_channels"]
        return torch.cat([tile_noise(seed, shape, channels) for seed in seeds]).to(self.model.device)

    def full_macs(self, shape: tuple[int, int], segments: int) -> int:
        return segments * dense_macs(self.unet_costs, self.model.level_shapes(shape))

    def decode_macs(self, shape: tuple[int, int]) -> int:
        scale = self.model.latent_scale
        finest = (shape[0] * scale, shape[1] * scale)
        levels = [(finest[0] >> i, finest[1] >> i) for i in range(self.model.decoder.level_count)]
        return dense_macs(self.decoder_costs, levels)

    @property
    def calibrated(self) -> bool:
        return self._calibrated

    def calibrate(
        self,
        inputs: Tensor,
        timestep: Tensor,
        text: TextContext | PromptMap,
        cache: StepCache | None,
        added: AddedCondition | None,
    ) -> None:
        """Measures what a sparse pass costs that has next to nothing to compute: one row of the finest level."""
        assert cache is not None, "there is nothing to run over"
        cache = Staging(self.model.device).near(cache, None)
        mask = np.zeros(inputs.shape[2:], np.bool_)
        mask[0, 0] = True
        plan = self.model.unet.plan(mask)
        prompts = text.rows(plan) if isinstance(text, PromptMap) else text
        self.model.unet(inputs, timestep, prompts, cache, plan, added)  # builds the plan's tables
        begun = time.perf_counter()
        self.model.unet(inputs, timestep, prompts, cache, plan, added)
        macs = inputs.shape[0] * sparse_macs(self.unet_costs, plan.active)
        self.timer.calibrate_overhead(time.perf_counter() - begun, macs)
        self._calibrated = True

    def weights(self) -> WeightKeys:
        """Of the model as it is now."""
        return WeightKeys.of(self.model)

    def keys(self, weights: WeightKeys, settings: SamplingSettings, state: VersionState) -> list[str]:
        """What shapes the activations of a version: a key per slot."""
        return SlotKeys(self.model, weights, self.formats, settings).of(state)

    def key(self, weights: WeightKeys, settings: SamplingSettings, state: VersionState, slot: int) -> str:
        """What shapes the activations of one slot of a version."""
        return SlotKeys(self.model, weights, self.formats, settings).key(state, slot)

    def new_step_caches(
        self, recording: Recording, shape: tuple[int, int], branches: int, count: int = 1
    ) -> list[StepCache] | None:
        """Room for recording one UNet call on `count` pictures of latents (h, w); None where the budgets have none."""
        return self.store.new_caches(self.model.unet.cache_shape(shape, self.formats.unet), branches, count, recording)

    def new_decode_cache(self, recording: Recording, shape: tuple[int, int]) -> StepCache | None:
        """Room for recording one decode of latents (h, w), or None where the budgets have none."""
        caches = self.store.new_caches(self.model.decoder.cache_shape(shape, self.formats.decoder), 1, 1, recording)
        return None if caches is None else caches[0]

    def preview(self, clean: Tensor, size: tuple[int, int]) -> Image.Image:
        """Picture of estimated clean latents [1, C, h, w], cropped to size (width, height)."""
        colours = self.preview_map.colours(clean).nan_to_num()
        planes = F.interpolate(colours, scale_factor=self.model.latent_scale, mode="bilinear")
        return Image.fromarray(tensor_pixels(planes, size)[0])

    def _first_preview_map(self) -> PreviewMap:
        """Fitted to a small picture of noise, until there is a real one to fit to."""
        latents = self.noise([0], (16, 16))
        return PreviewMap.fit(latents, self.model.decoder.dense(self.model.unscaled(latents)))
