"""Recording: diffusers' own forward runs, and hooks keep what a sparse pass will read."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from diffusion_engine.layers import norm_affine
from diffusion_engine.sites import Site
from diffusion_engine.step_cache import StepCache
from kernels import norm_sums, norm_sums_per_row


def to_rows(x: Tensor) -> Tensor:
    """[B, C, H, W] -> [B, H * W, C]; a view where the map is stored channels-last."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, x.shape[1])


def from_rows(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """[B, H * W, C] -> [B, C, H, W], in channels-last storage."""
    return rows.view(rows.shape[0], *shape, rows.shape[2]).permute(0, 3, 1, 2)


def map_shape(x: Tensor) -> tuple[int, int]:
    """(H, W) of a map [B, C, H, W]."""
    return x.shape[2], x.shape[3]


@contextlib.contextmanager
def recording(sites: Sequence[Site], caches: Sequence[StepCache]) -> Generator[None]:
    """Inside the block, a network's forward fills caches at its sites: one per picture of its batch, which is ordered
    by guidance branch, then by picture."""
    recorder = _Recorder(caches)
    try:
        for site in sites:
            recorder.take_part(site)
        yield
    finally:
        recorder.close()


class _Recorder:
    """Takes part in a network's forward until it is closed."""

    def __init__(self, caches: Sequence[StepCache]) -> None:
        self._caches = caches
        self._handles: list[Any] = []
        self._norms: list[nn.GroupNorm] = []

    def take_part(self, site: Site) -> None:
        if site.keeps == "norm":
            site.module.forward = self._norm_forward(site)
            self._norms.append(site.module)
        elif site.keeps == "input":

            def before(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
                self._keep(site.name, to_rows(args[0]))

            self._handles.append(site.module.register_forward_pre_hook(before))
        else:

            def after(_module: nn.Module, _args: tuple[Tensor, ...], out: Tensor) -> None:
                self._keep(site.name, to_rows(out) if out.ndim == 4 else out)

            self._handles.append(site.module.register_forward_hook(after))

    def _norm_forward(self, site: Site) -> Any:
        """A norm's forward by the statistics that are kept: they are needed anyway, and torch's own GroupNorm of
        channels-last maps on a CPU loses up to two digits on large ones (fp32, seen at 512 x 512)."""
        norm, kept = site.module, self._caches[0].shape.norms[site.name]

        def forward(input: Tensor) -> Tensor:  # the name that nn.GroupNorm gives it
            is_map = input.ndim == 4
            rows = (to_rows(input) if is_map else input.transpose(1, 2)).contiguous()  # attention norms get [B, C, N]
            center = rows.float().mean(1).unflatten(1, (kept.groups, -1)).mean(2)  # [B, G]
            if site.conv is None:
                per_row = norm_sums_per_row(rows, center)
                sums = per_row.sum(1, dtype=torch.float64)
                self._keep(site.name, per_row)
            else:
                sums = norm_sums(rows, center)
                self._keep(site.conv, rows)
            for picture, cache in enumerate(self._caches):
                cache.keep_norm(site.name, center[self._of(picture)], sums[self._of(picture)])
            scale, shift = norm_affine(norm, center, sums, kept.count, rows.dtype)
            normed = torch.addcmul(shift.unsqueeze(1), rows, scale.unsqueeze(1))
            return from_rows(normed, map_shape(input)) if is_map else normed.transpose(1, 2)

        return forward

    def _keep(self, name: str, rows: Tensor) -> None:
        for picture, cache in enumerate(self._caches):
            cache.rows[name].write(rows[self._of(picture)])

    def _of(self, picture: int) -> slice:
        """Where a picture's branches are in the batch."""
        return slice(picture, None, len(self._caches))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        for norm in self._norms:
            norm.__dict__.pop("forward", None)  # the class's own again
