"""Exact receptive fields: which outputs a network's convolutions can carry a change of its input to.

Computed from the modules of a loaded network, by passing masks through the same blocks that its forward passes maps
through. Attention and group statistics reach everything, and are left out: with them every field is the whole map. A
plan truncates the field on purpose (see `active_rows.py`); this is what it truncates.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from diffusion_engine.errors import UserError
from diffusion_engine.supported import check_unet, check_vae


def reach(network: Any, mask: Tensor) -> Tensor:
    """The outputs that can change when the inputs in `mask` do, by convolutions alone.

    network: a UNet2DConditionModel, or the decoder or the encoder of an AutoencoderKL
    mask: bool [h, w] at the input; its sides are divisible by the network's reduction
    Returns bool at the output's resolution: [h, w] of a UNet, [8 h, 8 w] of an f8 decoder, [h / 8, w / 8] of its
    encoder. Every output outside it is unchanged; inside it nothing is listed that no tap can reach.
    Raises UnsupportedModel for a network that the engine does not run, UserError for a mask of other sides.
    """
    _check(network)
    step = 2 ** _count(network, "downsamplers")
    if mask.ndim != 2 or mask.shape[0] % step or mask.shape[1] % step:
        raise UserError(f"A field needs a mask [h, w] with sides divisible by {step}; this one is {list(mask.shape)}.")
    return _through_network(network, mask[None].float())[0].bool()


def radius_of(network: Any) -> int:
    """How far a change reaches at most, in rows of the finest level (latents of a UNet, pixels of a VAE).

    Counted from the border of a changed input row to the far border of the furthest output row that it reaches, each
    as large as it is at the finest level. The field depends on where the row lies on the coarsest grid; this is the
    worst place.
    """
    _check(network)
    downs, ups = _count(network, "downsamplers"), _count(network, "upsamplers")
    row_in, row_out = 2 ** max(ups - downs, 0), 2 ** max(downs - ups, 0)  # sides of an input and of an output row
    places, length = 2**downs, 16 * 2**downs
    while True:
        radii = [_line_radius(network, (length, places), place, row_in, row_out) for place in range(places)]
        known = [radius for radius in radii if radius is not None]
        if len(known) == places:
            return max(known)
        length *= 2


def _line_radius(network: Any, strip: tuple[int, int], place: int, row_in: int, row_out: int) -> int | None:
    """Radius of one changed line across a strip of input rows; None where the strip is too short to tell."""
    changed = strip[0] // 2 + place
    mask = torch.zeros(1, *strip)
    mask[:, changed] = 1
    reached = _through_network(network, mask)[0].any(1)
    if reached[0] or reached[-1]:
        return None
    lines = reached.nonzero()
    first, end = int(lines[0]), int(lines[-1]) + 1
    return max(changed * row_in - first * row_out, end * row_out - (changed + 1) * row_in)


def _check(network: Any) -> None:
    if isinstance(network, UNet2DConditionModel):
        check_unet(network)
    else:
        check_vae(network, type(network).__name__)


def _count(network: Any, samplers: str) -> int:
    blocks = [*getattr(network, "down_blocks", ()), *getattr(network, "up_blocks", ())]
    return sum(len(getattr(block, samplers, None) or ()) for block in blocks)


def _through_network(network: Any, changed: Tensor) -> Tensor:
    """fp32 [1, h, w] of zeros and ones, through the blocks in the order of diffusers' forwards."""
    concatenates = isinstance(network, UNet2DConditionModel)  # a VAE has no skips
    x = _through_conv(network.conv_in, changed)
    skips = [x]
    for block in getattr(network, "down_blocks", ()):
        for layer in block.resnets:
            x = _through_resnet(layer, x)
            skips.append(x)
        for sampler in block.downsamplers or ():
            x = _through_downsampler(sampler, x)
            skips.append(x)
    for layer in network.mid_block.resnets if network.mid_block is not None else ():
        x = _through_resnet(layer, x)
    for block in getattr(network, "up_blocks", ()):
        for layer in block.resnets:
            if concatenates:
                x = torch.maximum(x, skips.pop())
            x = _through_resnet(layer, x)
        for sampler in block.upsamplers or ():
            x = _through_conv(sampler.conv, F.interpolate(x[None], scale_factor=2)[0])
    return _through_conv(network.conv_out, x)


def _through_conv(conv: Any, changed: Tensor) -> Tensor:
    """An output changes where any of its taps does: a maximum over the convolution's own window."""
    return F.max_pool2d(changed, conv.kernel_size, conv.stride, conv.padding)


def _through_resnet(block: Any, changed: Tensor) -> Tensor:
    """Both convolutions, and the shortcut around them, which reaches less."""
    return torch.maximum(changed, _through_conv(block.conv2, _through_conv(block.conv1, changed)))


def _through_downsampler(sampler: Any, changed: Tensor) -> Tensor:
    """Without padding of its own, diffusers pads the right and the bottom edge first."""
    if sampler.padding == 0:
        changed = F.pad(changed, (0, 1, 0, 1))
    return _through_conv(sampler.conv, changed)
