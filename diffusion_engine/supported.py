"""What the sparse engine can execute by rows. Everything else is refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffusers.models.activations import GEGLU
from diffusers.models.attention import BasicTransformerBlock, FeedForward
from diffusers.models.attention_processor import (
    Attention,
    AttnProcessor,
    AttnProcessor2_0,
    XFormersAttnProcessor,
)
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.transformers.transformer_2d import Transformer2DModel
from diffusers.models.upsampling import Upsample2D
from torch import nn

from diffusion_engine.errors import UnsupportedModel

_UNET_BLOCKS = {
    "DownBlock2D",
    "CrossAttnDownBlock2D",
    "UNetMidBlock2D",
    "UNetMidBlock2DCrossAttn",
    "UpBlock2D",
    "CrossAttnUpBlock2D",
}
_VAE_BLOCKS = {"DownEncoderBlock2D", "UNetMidBlock2D", "UpDecoderBlock2D"}
_PROCESSORS = (AttnProcessor, AttnProcessor2_0, XFormersAttnProcessor)

_UNET_CONFIG: dict[str, tuple[Any, ...]] = {
    "conv_in_kernel": (3,),
    "conv_out_kernel": (3,),
    "class_embed_type": (None,),
    "num_class_embeds": (None,),
    "addition_embed_type": (None, "text_time"),
    "encoder_hid_dim_type": (None,),
    "time_cond_proj_dim": (None,),
    "resnet_time_scale_shift": ("default",),
    "resnet_skip_time_act": (False,),
    "attention_type": ("default",),
    "dual_cross_attention": (False,),
    "center_input_sample": (False,),
}


def check_unet(unet: Any) -> None:
    """Raises UnsupportedModel, naming the first part of the UNet that cannot be executed by rows."""
    if type(unet).__name__ != "UNet2DConditionModel":
        raise _refused(type(unet).__name__, "is not a UNet2DConditionModel")
    for key, allowed in _UNET_CONFIG.items():
        if unet.config.get(key) not in allowed:
            raise _refused(f"unet.{key} = {unet.config[key]!r}", "is not supported")
    if getattr(unet, "encoder_hid_proj", None) is not None:
        raise _refused("IP-Adapter (encoder_hid_proj)", "adds image prompts to every row; unload it first")
    for name, block in _blocks(unet):
        if type(block).__name__ not in _UNET_BLOCKS:
            raise _refused(f"{name} ({type(block).__name__})", "is a block of another kind")
        if any(getattr(block, strength, None) is not None for strength in ("s1", "s2", "b1", "b2")):
            raise _refused(f"FreeU on {name}", "filters whole maps; call disable_freeu() first")
    _check_layers(unet)


def check_vae(network: Any, name: str) -> None:
    """The same for a VAE's encoder or decoder."""
    for label, block in _blocks(network):
        if type(block).__name__ not in _VAE_BLOCKS:
            raise _refused(f"{name}.{label} ({type(block).__name__})", "is a block of another kind")
    if not isinstance(network.conv_norm_out, nn.GroupNorm):
        raise _refused(f"{name}.conv_norm_out", "is not a group norm")
    _check_layers(network)


def _blocks(network: Any) -> Iterator[tuple[str, Any]]:
    for group in ("down_blocks", "up_blocks"):
        for index, block in enumerate(getattr(network, group, ())):
            yield f"{group}.{index}", block
    if network.mid_block is not None:
        yield "mid_block", network.mid_block


def _check_layers(network: nn.Module) -> None:
    for name, module in network.named_modules():
        problem = _problem(module)
        if problem:
            raise _refused(f"{name} ({type(module).__name__})", problem)


def _problem(module: Any) -> str | None:
    if isinstance(module, nn.Conv2d):
        if type(module) is not nn.Conv2d:
            return "replaces a convolution; fuse it into the weights first"
        if module.groups != 1 or module.dilation != (1, 1) or module.kernel_size not in ((1, 1), (3, 3)):
            return "is not a plain 1x1 or 3x3 convolution"
    if hasattr(module, "lora_A") and not isinstance(getattr(module, "base_layer", None), nn.Linear):
        return "is an adapter around a convolution; call fuse_lora() first"
    if isinstance(module, ResnetBlock2D):
        return _resnet_problem(module)
    if isinstance(module, Downsample2D | Upsample2D):
        return _sampler_problem(module)
    if isinstance(module, Transformer2DModel) and not module.is_input_continuous:
        return "takes discrete or patched input"
    if isinstance(module, BasicTransformerBlock):
        return _transformer_problem(module)
    if isinstance(module, Attention):
        return _attention_problem(module)
    if isinstance(module, FeedForward):
        return _feed_forward_problem(module)
    return None


def _resnet_problem(block: Any) -> str | None:
    if block.time_emb_proj is not None and (block.time_embedding_norm != "default" or block.skip_time_act):
        return "modulates its norm by the timestep"
    if block.upsample is not None or block.downsample is not None:
        return "resamples inside the block"
    if not isinstance(block.nonlinearity, nn.SiLU):
        return "uses another activation than SiLU"
    return None


def _sampler_problem(module: Any) -> str | None:
    conv = getattr(module, "conv", None)
    if not module.use_conv or not isinstance(conv, nn.Conv2d) or conv.kernel_size != (3, 3):
        return "resamples without a 3x3 convolution"
    if module.norm is not None or not getattr(module, "interpolate", True):
        return "resamples in an unusual way"
    return None


def _transformer_problem(block: Any) -> str | None:
    if block.norm_type != "layer_norm" or block.pos_embed is not None or block.attn2 is None:
        return "is a transformer block of another kind"
    if block.only_cross_attention or block.double_self_attention or hasattr(block, "fuser"):
        return "attends in an unusual order"
    return None


def _feed_forward_problem(module: Any) -> str | None:
    if module.training:
        return "is in training mode; call eval() first"
    if len(module.net) != 3 or not isinstance(module.net[0], GEGLU):
        return "is not a gated GELU"
    return None


def _attention_problem(attention: Any) -> str | None:
    if type(attention.processor) not in _PROCESSORS:
        return f"has the processor {type(attention.processor).__name__} (IP-Adapter, PAG and the like); remove it first"
    if attention.added_kv_proj_dim is not None or attention.spatial_norm is not None or attention.fused_projections:
        return "has added, fused or spatially normalised projections"
    if attention.norm_q is not None or attention.norm_k is not None or attention.norm_cross is not None:
        return "normalises queries or keys"
    return None


def _refused(part: str, reason: str) -> UnsupportedModel:
    return UnsupportedModel(f"The sparse engine cannot run this model: {part} {reason}.")
