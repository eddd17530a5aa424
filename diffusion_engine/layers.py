"""diffusers' blocks, executed by rows. Parameters are read from the modules themselves at each call, never copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from diffusers.models.attention_processor import Attention
from torch import Tensor, nn

from diffusion_engine.plan import Level
from diffusion_engine.step_cache import RowsDelta, StepCache
from diffusion_engine.text_context import RowPrompts
from kernels import Taps, attend_rows, conv_rows, norm_sums, norm_sums_per_row, product_rows

# The hidden rows of a feed-forward are eight times as wide; in pieces they stay in the last-level cache.
_FEED_FORWARD_ROWS = 1024

NormPolicy = Literal["delta", "cached"]


def pack_conv_weight(conv: nn.Conv2d) -> Tensor:
    """The weight in channels-last storage, whose memory is the [Cout, 9 * Cin] matrix of a product by rows.

    The module's own parameter is moved there, once, so diffusers' forward and LoRA fusing act on the same memory; a
    weight that something has replaced since is moved again.
    """
    weight = conv.weight
    if not weight.is_contiguous(memory_format=torch.channels_last):
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return weight


def pack_conv_weights(module: nn.Module) -> None:
    """Packs every 3x3 convolution of a network."""
    for child in module.modules():
        if isinstance(child, nn.Conv2d) and child.kernel_size == (3, 3):
            pack_conv_weight(child)


def pointwise(x: Tensor, layer: Any) -> Tensor:
    """A 1x1 convolution or a linear layer on rows, [S, M, Cin] -> [S, M, Cout]; an adapter around one is called."""
    if type(layer) is nn.Conv2d:
        return product_rows(x, layer.weight.flatten(1), layer.bias)
    if type(layer) is nn.Linear:
        return product_rows(x, layer.weight, layer.bias)
    return layer(x)


def norm_affine(
    norm: nn.GroupNorm, center: Tensor, sums: Tensor, count: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """GroupNorm with known statistics as scale and shift per channel, [S, C] each.

    center, sums: as a `StepCache` keeps them, [S, G] and fp64 [S, 2 * G]; count: values per group
    Rounding can make a variance negative, which is taken as zero.
    """
    first, second = (sums / count).view(*center.shape[:-1], 2, -1, 1).unbind(-3)  # fp64 [S, G, 1]
    inverse = torch.addcmul(second, first, first, value=-1).clamp_(min=0).add_(norm.eps).rsqrt_()
    scale = norm.weight.view(norm.num_groups, -1) * inverse  # [S, G, C / G]
    shift = norm.bias.view(norm.num_groups, -1) - (center[..., None] + first) * scale
    return scale.flatten(1).to(dtype), shift.flatten(1).to(dtype)


@dataclass
class RowPass:
    """State of one sparse pass over one recorded call.

    branch_of: which recorded branch each segment reads
    text, time: what the UNet's blocks are conditioned on; a VAE has neither
    norm: "delta" updates GroupNorm statistics by the active rows, "cached" keeps the recorded ones (as SIGE does)
    captured: collects the active rows of everything a later pass would read, when given
    """

    cache: StepCache
    branch_of: tuple[int, ...]
    norm: NormPolicy = "delta"
    captured: RowsDelta | None = None
    text: RowPrompts | None = None
    time: Tensor | None = None  # [1 or S, E], activated

    def capture(self, name: str, rows: Tensor) -> None:
        if self.captured is not None:
            self.captured.keep(name, rows)

    def base(self, tensor: Tensor) -> Tensor:
        """[B, ...] per branch -> [S, ...] per segment."""
        if tensor.shape[0] == 1:
            return tensor.expand(len(self.branch_of), *tensor.shape[1:])
        if self.branch_of == tuple(range(tensor.shape[0])):
            return tensor
        return tensor[list(self.branch_of)]

    def affine(self, x: Tensor, norm: nn.GroupNorm, name: str, active: Tensor) -> tuple[Tensor, Tensor]:
        """GroupNorm of the composite map as scale and shift, [S, C] each: new sums = S - S_old(active) + S_new(active).

        x: [S, M, C], the new values of the active rows.
        """
        kept = self.cache.shape.norms[name]
        center, sums = self.base(self.cache.center(name)), self.base(self.cache.sums(name))
        if self.norm == "delta":
            if kept.source is None:
                per_row = norm_sums_per_row(x, center)
                self.capture(name, per_row)
                new = per_row.sum(1, dtype=torch.float64)
            else:
                new = norm_sums(x, center)
            if active.numel() == self.cache.level_rows(name):
                sums = new  # nothing recorded is left in the map
            else:
                sums = sums - self.base(self.cache.sums_of(name, active, x.dtype)) + new
        if self.captured is not None:
            self.captured.keep_sums(name, sums)
        return norm_affine(norm, center, sums, kept.count, x.dtype)

    def conv(
        self,
        x: Tensor,
        conv: nn.Conv2d,
        name: str,
        taps: Taps,
        *,
        affine: tuple[Tensor, Tensor] | None = None,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """A 3x3 convolution over a recorded map whose active rows are now `x`; captures `x` under `name`."""
        self.capture(name, x)
        return conv_rows(
            x,
            self.cache.rows[name],
            taps,
            pack_conv_weight(conv),
            _bias(conv) if bias is None else bias,
            branch_of=self.branch_of,
            affine=affine,
            silu=affine is not None,
            residual=residual,
        )


def _bias(layer: nn.Conv2d) -> Tensor:
    return layer.bias if layer.bias is not None else layer.weight.new_zeros(layer.out_channels)


def resnet(x: Tensor, block: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """ResnetBlock2D: [S, M, Cin] -> [S, M, Cout]."""
    affine = run.affine(x, block.norm1, f"{name}.norm1", here.active)
    bias = _bias(block.conv1)
    if run.time is not None:
        bias = bias + block.time_emb_proj(run.time)  # [1 or S, Cout]
    h = run.conv(x, block.conv1, f"{name}.conv1", here.same, affine=affine, bias=bias)
    affine = run.affine(h, block.norm2, f"{name}.norm2", here.active)
    residual = x.clone() if block.conv_shortcut is None else pointwise(x, block.conv_shortcut)
    out = run.conv(h, block.conv2, f"{name}.conv2", here.same, affine=affine, residual=residual)
    return out if block.output_scale_factor == 1 else out.div_(block.output_scale_factor)


def self_attention(x: Tensor, attention: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """Attention of the active rows over the composite map: [S, M, C] -> [S, M, C]."""
    key, value = pointwise(x, attention.to_k), pointwise(x, attention.to_v)
    run.capture(f"{name}.to_k", key)
    run.capture(f"{name}.to_v", value)
    base_key, base_value = run.cache.rows[f"{name}.to_k"], run.cache.rows[f"{name}.to_v"]
    query = pointwise(x, attention.to_q)
    mixed = attend_rows(query, key, value, base_key, base_value, here.active, attention.heads, branch_of=run.branch_of)
    return pointwise(mixed, attention.to_out[0])


def cross_attention(x: Tensor, attention: Any, name: str, here: Level, text: RowPrompts) -> Tensor:
    """Attention of the active rows to the tokens of their own prompts: [S, M, C] -> [S, M, C]."""
    mixed = text.attend(pointwise(x, attention.to_q), attention, name, here.rows)
    return pointwise(mixed, attention.to_out[0])


def feed_forward(x: Tensor, module: Any) -> Tensor:
    """FeedForward with a gated GELU (Shazeer 2020): [S, M, C] -> [S, M, C]."""
    gated, _, last = module.net
    pieces: list[Tensor] = []
    for rows in x.view(-1, x.shape[-1]).split(_FEED_FORWARD_ROWS):
        hidden, gate = pointwise(rows, gated.proj).chunk(2, -1)
        pieces.append(pointwise(hidden * gated.gelu(gate), last))
    return torch.cat(pieces).view(x.shape)


def transformer(x: Tensor, module: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """Transformer2DModel of any depth: [S, M, C] -> [S, M, C]."""
    assert run.text is not None, "a transformer block needs text"
    scale, shift = run.affine(x, module.norm, f"{name}.norm", here.active)
    h = pointwise(torch.addcmul(shift.unsqueeze(1), x, scale.unsqueeze(1)), module.proj_in)
    for index, block in enumerate(module.transformer_blocks):
        label = f"{name}.transformer_blocks.{index}"
        h = h + self_attention(block.norm1(h), block.attn1, f"{label}.attn1", here, run)
        h = h + cross_attention(block.norm2(h), block.attn2, f"{label}.attn2", here, run.text)
        h = h + feed_forward(block.norm3(h), block.ff)
    return pointwise(h, module.proj_out).add_(x)


def spatial_attention(x: Tensor, attention: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """The VAE's mid-block attention, with its own norm and residual: [S, M, C] -> [S, M, C]."""
    scale, shift = run.affine(x, attention.group_norm, f"{name}.group_norm", here.active)
    h = torch.addcmul(shift.unsqueeze(1), x, scale.unsqueeze(1))
    return self_attention(h, attention, name, here, run).add_(x).div_(attention.rescale_output_factor)


def mixer(x: Tensor, module: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """Whatever attends over the map in a block: a text-conditioned transformer, or a VAE's attention."""
    run_module = spatial_attention if isinstance(module, Attention) else transformer
    return run_module(x, module, name, here, run)


def down_block(x: Tensor, block: Any, name: str, here: Level, run: RowPass) -> list[Tensor]:
    """The layers of a down block but its downsampling; every layer's output, each also a skip. [S, M, C] each"""
    outputs: list[Tensor] = []
    attentions = getattr(block, "attentions", None)
    for index, layer in enumerate(block.resnets):
        x = resnet(x, layer, f"{name}.resnets.{index}", here, run)
        if attentions is not None:
            x = mixer(x, attentions[index], f"{name}.attentions.{index}", here, run)
        outputs.append(x)
    return outputs


def mid_block(x: Tensor, block: Any, name: str, here: Level, run: RowPass) -> Tensor:
    """[S, M, C] -> [S, M, C]"""
    x = resnet(x, block.resnets[0], f"{name}.resnets.0", here, run)
    for index, (attention, layer) in enumerate(zip(block.attentions, block.resnets[1:], strict=True)):
        if attention is not None:
            x = mixer(x, attention, f"{name}.attentions.{index}", here, run)
        x = resnet(x, layer, f"{name}.resnets.{index + 1}", here, run)
    return x


def up_block(x: Tensor, block: Any, name: str, here: Level, run: RowPass, skips: list[Tensor] | None) -> Tensor:
    """The layers of an up block but its upsampling; takes its skips from the end of the list. [S, M, C] -> same"""
    attentions = getattr(block, "attentions", None)
    for index, layer in enumerate(block.resnets):
        if skips is not None:
            x = torch.cat([x, skips.pop()], 2)
        x = resnet(x, layer, f"{name}.resnets.{index}", here, run)
        if attentions is not None:
            x = mixer(x, attentions[index], f"{name}.attentions.{index}", here, run)
    return x


def first_conv(x: Tensor, conv: nn.Conv2d, here: Level) -> Tensor:
    """A network's first convolution, over a map that is given whole: [S, N, Cin] -> [S, M, Cout]."""
    return conv_rows(
        x.index_select(1, here.active),
        x,
        here.same,
        pack_conv_weight(conv),
        _bias(conv),
        branch_of=tuple(range(x.shape[0])),
    )


def last_conv(x: Tensor, network: Any, here: Level, run: RowPass) -> Tensor:
    """Output norm, SiLU and convolution of a network: [S, M, C] -> [S, M, Cout]."""
    affine = run.affine(x, network.conv_norm_out, "conv_norm_out", here.active)
    return run.conv(x, network.conv_out, "conv_out", here.same, affine=affine)
