"""SparseUNet: diffusers' UNet2DConditionModel, recomputed only at the rows a plan lists."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from diffusers import UNet2DConditionModel
from torch import Tensor

from diffusion_engine import layers
from diffusion_engine.active_rows import ActiveRows, MaskLike, PlanPolicy, pyramid
from diffusion_engine.cache_block import Block
from diffusion_engine.plan import Plan
from diffusion_engine.recorder import from_rows, map_shape, recording, to_rows
from diffusion_engine.regional import PromptMap, regional_attention
from diffusion_engine.sites import Site, block_sites
from diffusion_engine.step_cache import CacheShape, RowsDelta, StepCache
from diffusion_engine.supported import check_unet
from diffusion_engine.text_context import RowPrompts, TextContext

AddedCondition = dict[str, Tensor]

# One row around the mask at the two finest levels, none deeper, where a row is a large part of the picture. Over 12
# cases of `deltabrush eval` a row at the deepest level made no difference, and none at the second cost 5 dB.
UNET_POLICY = PlanPolicy(grow=(1, 1, 0))


class SparseUNet:
    """A sparse executor over a loaded UNet. It owns no weights: the module stays usable and LoRA fusing is seen.

    `record` runs diffusers' own forward and keeps its activations; calling the object recomputes a plan's rows over
    such a recording. Where the input outside the plan is what was recorded, the result equals the dense one to
    rounding. Raises UnsupportedModel when the UNet has a part that cannot be executed by rows.
    """

    def __init__(
        self, unet: UNet2DConditionModel, *, norm: layers.NormPolicy = "delta", policy: PlanPolicy | None = None
    ) -> None:
        check_unet(unet)
        layers.pack_conv_weights(unet)
        self.unet = unet
        self.norm: layers.NormPolicy = norm
        self.policy = policy or UNET_POLICY
        self.level_count = len(unet.config["block_out_channels"])
        self.dense_calls = 0  # how often diffusers' forward has run

    def active_rows(self, mask: MaskLike) -> ActiveRows:
        """Active rows of a compute mask, bool [h, w] at latent resolution, sides divisible by 2 ** (levels - 1)."""
        return ActiveRows.of(pyramid(mask, self.level_count), self.policy)

    def plan_of(self, active: ActiveRows) -> Plan:
        return Plan.of(active, self.unet.device, pad_before=self.unet.config["downsample_padding"])

    def plan(self, mask: MaskLike) -> Plan:
        """Plan of a compute mask; see `active_rows`."""
        return self.plan_of(self.active_rows(mask))

    @torch.inference_mode()
    def dense(
        self,
        latents: Tensor,
        timestep: Tensor | float,
        text: Tensor | TextContext | PromptMap,
        added_cond: AddedCondition | None = None,
    ) -> Tensor:
        """diffusers' own forward of [B, 4, h, w], regional where `text` is a prompt map of several prompts."""
        check_unet(self.unet)
        self.dense_calls += 1
        states = text if isinstance(text, Tensor) else text.states
        states = states.repeat_interleave(latents.shape[0] // states.shape[0], 0)
        with regional_attention(self.unet, text) if isinstance(text, PromptMap) else contextlib.nullcontext():
            return self.unet(latents, timestep, states, added_cond_kwargs=added_cond).sample

    @torch.inference_mode()
    def record(
        self,
        latents: Tensor,
        timestep: Tensor | float,
        text: Tensor | TextContext | PromptMap,
        added_cond: AddedCondition | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> tuple[Tensor, StepCache]:
        """The dense pass, and a recording of it. dtype: number format of the kept rows, by default the network's; int8
        keeps steps of a scale per row."""
        shape = self.cache_shape(map_shape(latents), dtype)
        cache = StepCache.new(shape, latents.shape[0], lambda layout: Block.in_memory(layout, latents.device))
        return self.record_into([cache], latents, timestep, text, added_cond), cache

    def record_into(
        self,
        caches: Sequence[StepCache],
        latents: Tensor,
        timestep: Tensor | float,
        text: Tensor | TextContext | PromptMap,
        added_cond: AddedCondition | None = None,
    ) -> Tensor:
        """The dense pass, recorded into one cache per picture of a batch ordered by branch, then by picture."""
        with recording(self.sites, caches):
            return self.dense(latents, timestep, text, added_cond)

    def cache_shape(self, shape: tuple[int, int], dtype: torch.dtype | None = None) -> CacheShape:
        """What the recording of a map (h, w) consists of, with rows kept in `dtype`, by default the network's."""
        level_rows = tuple((shape[0] >> level) * (shape[1] >> level) for level in range(self.level_count))
        return CacheShape(self.sites, level_rows, dtype or self.unet.dtype, self.unet.dtype)

    @torch.inference_mode()
    def __call__(
        self,
        latents: Tensor,
        timestep: Tensor | float,
        text: Tensor | TextContext | RowPrompts,
        cache: StepCache,
        plan: Plan,
        added_cond: AddedCondition | None = None,
        *,
        captured: RowsDelta | None = None,
    ) -> Tensor:
        """The UNet's output where only the plan's rows are computed; elsewhere the recorded output.

        latents: [S, 4, h, w], segments ordered by guidance branch: S is a multiple of the recorded branches and of the
        text's. text: for all active rows, or each row's own. captured: filled with the computed rows (`cache.delta`),
        which then make the cache of a new version.
        Returns [S, 4, h, w].
        """
        segments = latents.shape[0]
        branch_of = tuple(s * cache.branches // segments for s in range(segments))
        shape = plan.levels[0].shape
        base = cache.rows["noise"].data  # [B, h * w, 4]
        out = base[list(branch_of)].to(latents.dtype)
        if not plan.empty:
            prompts = _row_prompts(text)
            time = F.silu(self._time_embedding(latents, timestep, prompts.first, added_cond))
            run = layers.RowPass(cache, branch_of, self.norm, captured, prompts, time)
            rows = self._rows(to_rows(latents), plan, run)
            run.capture("noise", rows)
            out.index_copy_(1, plan.levels[0].active, rows)
        return from_rows(out, shape)

    def _time_embedding(
        self, latents: Tensor, timestep: Tensor | float, text: TextContext, added_cond: AddedCondition | None
    ) -> Tensor:
        """[1, E], or [S, E] where segments differ by timestep or added condition."""
        unet: Any = self.unet
        times = torch.as_tensor(timestep, device=latents.device).reshape(-1)
        embedding = unet.time_embedding(unet.time_proj(times).to(latents.dtype))
        augmented = unet.get_aug_embed(emb=embedding, encoder_hidden_states=text.states, added_cond_kwargs=added_cond)
        if augmented is not None:
            per_segment = latents.shape[0] // augmented.shape[0]
            embedding = embedding + augmented.repeat_interleave(per_segment, 0)
        return embedding if unet.time_embed_act is None else unet.time_embed_act(embedding)

    def _rows(self, latents: Tensor, plan: Plan, run: layers.RowPass) -> Tensor:
        """The forward of Ronneberger et al. 2015 by rows: [S, h * w, 4] -> [S, M, 4]"""
        unet: Any = self.unet
        finest, level = plan.levels[0], 0
        skips = [layers.first_conv(latents, unet.conv_in, finest)]
        for index, block in enumerate(unet.down_blocks):
            name = f"down_blocks.{index}"
            skips += layers.down_block(skips[-1], block, name, plan.levels[level], run)
            if block.downsamplers:
                skips.append(run.conv(skips[-1], block.downsamplers[0].conv, f"{name}.downsamplers", plan.down[level]))
                level += 1
        x = skips[-1]
        if unet.mid_block is not None:
            x = layers.mid_block(x, unet.mid_block, "mid_block", plan.levels[level], run)
        for index, block in enumerate(unet.up_blocks):
            name = f"up_blocks.{index}"
            x = layers.up_block(x, block, name, plan.levels[level], run, skips)
            if block.upsamplers:
                level -= 1
                x = run.conv(x, block.upsamplers[0].conv, f"{name}.upsamplers", plan.up[level])
        return layers.last_conv(x, unet, finest, run)

    @property
    def sites(self) -> tuple[Site, ...]:
        """What a recording keeps of the network."""
        unet: Any = self.unet
        sites: list[Site] = []
        level = 0
        for index, block in enumerate(unet.down_blocks):
            sites += block_sites(block, f"down_blocks.{index}", level)
            if block.downsamplers:
                sites.append(Site("input", block.downsamplers[0], f"down_blocks.{index}.downsamplers", level))
                level += 1
        if unet.mid_block is not None:
            sites += block_sites(unet.mid_block, "mid_block", level)
        for index, block in enumerate(unet.up_blocks):
            sites += block_sites(block, f"up_blocks.{index}", level)
            if block.upsamplers:
                sites.append(Site("input", block.upsamplers[0], f"up_blocks.{index}.upsamplers", level))
                level -= 1
        sites.append(Site("norm", unet.conv_norm_out, "conv_norm_out", 0, "conv_out"))
        sites.append(Site("output", unet.conv_out, "noise", 0))
        return tuple(sites)


def _row_prompts(text: Tensor | TextContext | RowPrompts) -> RowPrompts:
    if isinstance(text, RowPrompts):
        return text
    return RowPrompts((text if isinstance(text, TextContext) else TextContext.of(text),))
