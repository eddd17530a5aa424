"""SparseDecoder and SparseEncoder: diffusers' AutoencoderKL, recomputed only where a plan says."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from torch import Tensor

from diffusion_engine import layers
from diffusion_engine.active_rows import ActiveRows, MaskLike, PlanPolicy, as_mask, pyramid
from diffusion_engine.cache_block import Block
from diffusion_engine.errors import UserError
from diffusion_engine.plan import Plan
from diffusion_engine.recorder import from_rows, map_shape, recording, to_rows
from diffusion_engine.sites import Site, block_sites
from diffusion_engine.step_cache import CacheShape, RowsDelta, StepCache
from diffusion_engine.supported import check_vae

# One row more at the coarser levels, which cost little, brings 3 dB on the starter model; a third brings nothing.
DECODER_POLICY = PlanPolicy(grow=(1, 2))


class SparseDecoder:
    """A sparse executor over a VAE's decoder. Latents are those that `vae.decode` takes (already unscaled)."""

    def __init__(
        self, vae: AutoencoderKL, *, norm: layers.NormPolicy = "delta", policy: PlanPolicy | None = None
    ) -> None:
        check_vae(vae.decoder, "decoder")
        layers.pack_conv_weights(vae.decoder)
        self.vae: Any = vae
        self.norm: layers.NormPolicy = norm
        self.policy = policy or DECODER_POLICY
        self.level_count = len(vae.config["block_out_channels"])

    def active_rows(self, mask: MaskLike, pixels: MaskLike | None = None) -> ActiveRows:
        """Active rows for latents that change where `mask` (bool [h, w]) is true.

        pixels: bool [8 h, 8 w], the pixels that are wanted, by default all of the mask's; fewer cost less. Growth is
        in rows of each level (`policy`), so the finest levels, where the cost is, hardly exceed what is shown.
        """
        scale, latents = 2 ** (self.level_count - 1), as_mask(mask)
        if pixels is None:
            pixels = latents.repeat(scale, 0).repeat(scale, 1)
        if pixels.shape != (latents.shape[0] * scale, latents.shape[1] * scale):
            raise UserError(f"The pixel mask must be {scale} times the size of the latent mask {list(latents.shape)}.")
        masks = pyramid(pixels, self.level_count)
        masks[-1] = masks[-1] | latents
        return ActiveRows.of(masks, self.policy)

    def plan_of(self, active: ActiveRows) -> Plan:
        return Plan.of(active, self.vae.device)

    def plan(self, mask: MaskLike, pixels: MaskLike | None = None) -> Plan:
        """Plan for latents that change where `mask` is true; see `active_rows`."""
        return self.plan_of(self.active_rows(mask, pixels))

    @torch.inference_mode()
    def dense(self, latents: Tensor) -> Tensor:
        """diffusers' decode of [B, 4, h, w] -> picture [B, 3, 8 h, 8 w] about -1..1."""
        return self.vae.decode(latents).sample

    @torch.inference_mode()
    def record(self, latents: Tensor, *, dtype: torch.dtype | None = None) -> tuple[Tensor, StepCache]:
        """The dense decode, and a recording of it. dtype: number format of the kept rows, by default the network's."""
        shape = self.cache_shape(map_shape(latents), dtype)
        cache = StepCache.new(shape, latents.shape[0], lambda layout: Block.in_memory(layout, latents.device))
        return self.record_into(cache, latents), cache

    def record_into(self, cache: StepCache, latents: Tensor) -> Tensor:
        """The dense decode, recorded into a cache with a branch per picture."""
        with recording(self.sites, [cache]):
            return self.dense(latents)

    def cache_shape(self, shape: tuple[int, int], dtype: torch.dtype | None = None) -> CacheShape:
        """What the recording of latents (h, w) consists of, with rows kept in `dtype`, by default the network's."""
        coarsest = self.level_count - 1
        level_rows = tuple(shape[0] * shape[1] << 2 * (coarsest - level) for level in range(self.level_count))
        return CacheShape(self.sites, level_rows, dtype or self.vae.dtype, self.vae.dtype)

    @torch.inference_mode()
    def __call__(self, latents: Tensor, cache: StepCache, plan: Plan, *, captured: RowsDelta | None = None) -> Tensor:
        """The picture where only the plan's rows are computed: [S, 4, h, w] -> [S, 3, 8 h, 8 w]."""
        branch_of = tuple(s * cache.branches // latents.shape[0] for s in range(latents.shape[0]))
        out = cache.rows["picture"].data[list(branch_of)].to(latents.dtype)
        if not plan.empty:
            run = layers.RowPass(cache, branch_of, self.norm, captured)
            rows = self._rows(latents, plan, run)
            run.capture("picture", rows)
            out.index_copy_(1, plan.levels[0].active, rows)
        return from_rows(out, plan.levels[0].shape)

    def _rows(self, latents: Tensor, plan: Plan, run: layers.RowPass) -> Tensor:
        decoder: Any = self.vae.decoder
        level = self.level_count - 1
        here = plan.levels[level]
        quantized = self.vae.post_quant_conv(latents) if self.vae.post_quant_conv is not None else latents
        z = to_rows(quantized).contiguous()
        x = layers.first_conv(z, decoder.conv_in, here)
        x = layers.mid_block(x, decoder.mid_block, "mid_block", here, run)
        for index, block in enumerate(decoder.up_blocks):
            name = f"up_blocks.{index}"
            x = layers.up_block(x, block, name, plan.levels[level], run, None)
            if block.upsamplers:
                level -= 1
                x = run.conv(x, block.upsamplers[0].conv, f"{name}.upsamplers", plan.up[level])
        return layers.last_conv(x, decoder, plan.levels[0], run)

    @property
    def sites(self) -> tuple[Site, ...]:
        """What a recording keeps of the network."""
        decoder: Any = self.vae.decoder
        level = self.level_count - 1
        sites = block_sites(decoder.mid_block, "mid_block", level)
        for index, block in enumerate(decoder.up_blocks):
            sites += block_sites(block, f"up_blocks.{index}", level)
            if block.upsamplers:
                sites.append(Site("input", block.upsamplers[0], f"up_blocks.{index}.upsamplers", level))
                level -= 1
        sites.append(Site("norm", decoder.conv_norm_out, "conv_norm_out", 0, "conv_out"))
        sites.append(Site("output", decoder.conv_out, "picture", 0))
        return tuple(sites)


class SparseEncoder:
    """A sparse executor over a VAE's encoder; it returns the mean of the posterior, as the engine never samples it."""

    def __init__(
        self, vae: AutoencoderKL, *, norm: layers.NormPolicy = "delta", policy: PlanPolicy | None = None
    ) -> None:
        check_vae(vae.encoder, "encoder")
        layers.pack_conv_weights(vae.encoder)
        self.vae: Any = vae
        self.norm: layers.NormPolicy = norm
        self.policy = policy or PlanPolicy()
        self.level_count = len(vae.config["block_out_channels"])

    def plan(self, pixels: MaskLike) -> Plan:
        """Plan for a picture that changed where `pixels` (bool [H, W], sides divisible by 8) is true."""
        active = ActiveRows.of(pyramid(pixels, self.level_count), self.policy)
        return Plan.of(active, self.vae.device, pad_before=0)

    @torch.inference_mode()
    def record(self, picture: Tensor, *, dtype: torch.dtype | None = None) -> tuple[Tensor, StepCache]:
        """diffusers' encode of [B, 3, H, W] in -1..1 -> posterior mean [B, 4, H / 8, W / 8], and a recording of it."""
        height, width = map_shape(picture)
        level_rows = tuple((height >> level) * (width >> level) for level in range(self.level_count))
        shape = CacheShape(self.sites, level_rows, dtype or self.vae.dtype, self.vae.dtype)
        cache = StepCache.new(shape, picture.shape[0], lambda layout: Block.in_memory(layout, picture.device))
        with recording(self.sites, [cache]):
            return self.vae.encode(picture).latent_dist.mean, cache

    @torch.inference_mode()
    def __call__(self, picture: Tensor, cache: StepCache, plan: Plan, *, captured: RowsDelta | None = None) -> Tensor:
        """The posterior mean where only the plan's rows are computed: [S, 3, H, W] -> [S, 4, H / 8, W / 8]."""
        branch_of = tuple(s * cache.branches // picture.shape[0] for s in range(picture.shape[0]))
        coarsest = plan.levels[-1]
        out = cache.rows["moments"].data[list(branch_of)].to(picture.dtype)
        if not plan.empty:
            run = layers.RowPass(cache, branch_of, self.norm, captured)
            rows = self._rows(picture, plan, run)
            run.capture("moments", rows)
            out.index_copy_(1, coarsest.active, rows)
        moments = from_rows(out, coarsest.shape)
        if self.vae.quant_conv is not None:
            moments = F.conv2d(moments, self.vae.quant_conv.weight, self.vae.quant_conv.bias)
        return moments.chunk(2, 1)[0]

    def _rows(self, picture: Tensor, plan: Plan, run: layers.RowPass) -> Tensor:
        encoder: Any = self.vae.encoder
        x = layers.first_conv(to_rows(picture).contiguous(), encoder.conv_in, plan.levels[0])
        level = 0
        for index, block in enumerate(encoder.down_blocks):
            name = f"down_blocks.{index}"
            x = layers.down_block(x, block, name, plan.levels[level], run)[-1]
            if block.downsamplers:
                x = run.conv(x, block.downsamplers[0].conv, f"{name}.downsamplers", plan.down[level])
                level += 1
        x = layers.mid_block(x, encoder.mid_block, "mid_block", plan.levels[level], run)
        return layers.last_conv(x, encoder, plan.levels[level], run)

    @property
    def sites(self) -> tuple[Site, ...]:
        """What a recording keeps of the network."""
        encoder: Any = self.vae.encoder
        sites: list[Site] = []
        level = 0
        for index, block in enumerate(encoder.down_blocks):
            sites += block_sites(block, f"down_blocks.{index}", level)
            if block.downsamplers:
                sites.append(Site("input", block.downsamplers[0], f"down_blocks.{index}.downsamplers", level))
                level += 1
        sites += block_sites(encoder.mid_block, "mid_block", level)
        sites.append(Site("norm", encoder.conv_norm_out, "conv_norm_out", level, "conv_out"))
        sites.append(Site("output", encoder.conv_out, "moments", level))
        return tuple(sites)
