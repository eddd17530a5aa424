"""Recording: diffusers' own forward runs, and hooks keep what a sparse pass will read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import torch
from diffusers.models.attention_processor import Attention
from torch import Tensor, nn

from diffusion_engine.layers import norm_affine
from diffusion_engine.step_cache import StepCache


def to_rows(x: Tensor) -> Tensor:
    """[B, C, H, W] -> [B, H * W, C]; a view where the map is stored channels-last."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, x.shape[1])


def from_rows(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """[B, H * W, C] -> [B, C, H, W], in channels-last storage."""
    return rows.view(rows.shape[0], *shape, rows.shape[2]).permute(0, 3, 1, 2)


def map_shape(x: Tensor) -> tuple[int, int]:
    """(H, W) of a map [B, C, H, W]."""
    return x.shape[2], x.shape[3]


class Recorder:
    """Takes part in a network's forward where a sparse pass will want to read, until it is closed.

    dtype: storage dtype of rows; None keeps what the network computes
    """

    def __init__(self, dtype: torch.dtype | None) -> None:
        self.cache = StepCache()
        self._dtype = dtype
        self._handles: list[Any] = []
        self._norms: list[nn.GroupNorm] = []

    def norm(self, norm: nn.GroupNorm, name: str, level: int, conv_name: str | None = None) -> None:
        """Keeps a norm's sums, and its input rows under `conv_name` where a convolution follows it.

        While recording, the norm is computed from these sums: they are needed anyway, and torch's own GroupNorm of
        channels-last maps on a CPU loses up to two digits on large ones (fp32, seen at 512 x 512).
        """

        def forward(input: Tensor) -> Tensor:  # the name that nn.GroupNorm gives it
            is_map = input.ndim == 4
            rows = (to_rows(input) if is_map else input.transpose(1, 2)).contiguous()  # attention norms get [B, C, N]
            totals = self.cache.keep_norm(name, level, rows, norm.num_groups)
            if conv_name is not None:
                self.cache.keep_rows(conv_name, level, rows, self._dtype)
            scale, shift = norm_affine(norm, totals.center, totals.sums, totals.count, rows.dtype)
            normed = torch.addcmul(shift.unsqueeze(1), rows, scale.unsqueeze(1))
            return from_rows(normed, map_shape(input)) if is_map else normed.transpose(1, 2)

        norm.forward = forward
        self._norms.append(norm)

    def input(self, module: nn.Module, name: str, level: int) -> None:
        """Keeps the input rows of a resampling module."""

        def hook(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
            self.cache.keep_rows(name, level, to_rows(args[0]), self._dtype)

        self._handles.append(module.register_forward_pre_hook(hook))

    def output(self, module: nn.Module, name: str, level: int) -> None:
        """Keeps what a module returns: rows [B, N, C] of a linear layer, or a map [B, C, H, W]."""

        def hook(_module: nn.Module, _args: tuple[Tensor, ...], out: Tensor) -> None:
            self.cache.keep_rows(name, level, to_rows(out) if out.ndim == 4 else out, self._dtype)

        self._handles.append(module.register_forward_hook(hook))

    def block(self, block: Any, name: str, level: int) -> None:
        """Keeps what the layers of a down, mid or up block read of other rows."""
        for index, resnet in enumerate(block.resnets):
            label = f"{name}.resnets.{index}"
            self.norm(resnet.norm1, f"{label}.norm1", level, f"{label}.conv1")
            self.norm(resnet.norm2, f"{label}.norm2", level, f"{label}.conv2")
        for index, mixer in enumerate(getattr(block, "attentions", None) or ()):
            label = f"{name}.attentions.{index}"
            if isinstance(mixer, Attention):
                self.norm(mixer.group_norm, f"{label}.group_norm", level)
                self._self_attention(mixer, label, level)
            elif mixer is not None:
                self.norm(mixer.norm, f"{label}.norm", level)
                for depth, layer in enumerate(mixer.transformer_blocks):
                    self._self_attention(layer.attn1, f"{label}.transformer_blocks.{depth}.attn1", level)

    def _self_attention(self, attention: Any, name: str, level: int) -> None:
        self.output(attention.to_k, f"{name}.to_k", level)
        self.output(attention.to_v, f"{name}.to_v", level)

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        for norm in self._norms:
            del norm.forward  # the class's own again


@contextlib.contextmanager
def recording(dtype: torch.dtype | None, register: Callable[[Recorder], None]) -> Generator[StepCache]:
    """Hooks are in place inside the block, and the cache is complete when it ends."""
    recorder = Recorder(dtype)
    try:
        register(recorder)
        yield recorder.cache
    finally:
        recorder.close()
    if dtype is not None:
        recorder.cache.complete()  # the inputs would be kept beside what is stored of them
