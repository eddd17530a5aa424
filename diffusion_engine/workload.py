"""What an edit is going to compute, and how long that takes: one answer, for the edit and for its prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from diffusion_engine.active_rows import Mask
from diffusion_engine.cost_model import sparse_macs
from diffusion_engine.pictures import latent_mask, padded_mask
from diffusion_engine.requests import ResolvedEdit
from diffusion_engine.samplers import scheduler_class
from diffusion_engine.trajectory import start_step
from diffusion_engine.versions import Version
from diffusion_engine.workbench import Workbench


@dataclass(frozen=True)
class Prediction:
    """What an edit is expected to cost, once its version is recorded.

    active_fraction: share of a dense pass's multiply-adds
    seconds: of the edit, in the mode it would take; dense_seconds: of the same edit by dense passes
    tiles: bool [h, w], one per latent of the padded picture: what would be computed again. All of them in a dense
        pass, none with an empty mask, whose edit takes 0 seconds.
    tile_px: side of a tile in pixels; the last ones may reach beyond the picture
    measured: whether the seconds come from calls on this machine; before the first one they are a guess
    """

    active_fraction: float
    seconds: float
    dense_seconds: float
    mode: Literal["sparse", "dense"]
    tiles: Mask = field(repr=False, compare=False)
    tile_px: int
    measured: bool


class Workload:
    """What one edit of one version computes.

    cells: fp32 [h, w] in 0..1, how strongly each latent may change
    unet, decoder: active rows of either network
    start, steps: first step that runs, and how many the version has

    It consists of arrays and counts. So any thread may make one, and ask what it costs, while the compute thread works.
    """

    def __init__(self, bench: Workbench, base: Version, edit: ResolvedEdit) -> None:
        self._bench, self._edit = bench, edit
        settings, scale = base.settings, bench.model.latent_scale
        self._shape = bench.latent_shape(settings)
        self.cells: NDArray[np.float32] = latent_mask(edit.mask, settings.padded, scale)
        changes, shown = self.cells > 0, padded_mask(edit.blend, settings.padded) > 0
        self.unet = bench.model.unet.active_rows(changes)
        self.decoder = bench.model.decoder.active_rows(changes, shown)
        self.steps = base.state.trajectory.steps
        self.start = start_step(self.steps, edit.strength, scheduler_class(settings.sampler).order)
        self.variations = len(edit.seeds)
        self.segments = settings.branches * self.variations

    @property
    def active_fraction(self) -> float:
        """Share of a dense UNet pass's multiply-adds that the active rows take."""
        return self.sparse_macs / self.dense_macs

    @cached_property
    def sparse_macs(self) -> int:
        """Multiply-adds of one UNet call by rows, over all segments."""
        return self.segments * sparse_macs(self._bench.unet_costs, self.unet)

    @cached_property
    def dense_macs(self) -> int:
        """Multiply-adds of one dense UNet call, over all segments."""
        return self._bench.full_macs(self._shape, self.segments)

    @cached_property
    def decode_macs(self) -> int:
        """Multiply-adds of decoding all variations by rows."""
        return self.variations * sparse_macs(self._bench.decoder_costs, self.decoder)

    def by_rows(self, step: int) -> bool:
        """Whether a recorded step runs by rows: as the request forces it, or else if a dense one would cost more."""
        edit = self._edit
        if edit.mode == "dense" or edit.policy.is_dense(step, self.steps):
            return False
        return edit.mode == "sparse" or self._step_seconds("sparse") < self._step_seconds("dense")

    @property
    def decodes_by_rows(self) -> bool:
        """Whether a recorded decoder runs by rows."""
        return self._edit.mode != "dense"

    def seconds(self) -> float:
        """Expected, all steps being recorded."""
        sparse = sum(self.by_rows(step) for step in range(self.start, self.steps))
        dense = self.steps - self.start - sparse
        decode = self._decode_seconds("sparse" if self.decodes_by_rows else "dense")
        return sparse * self._step_seconds("sparse") + dense * self._step_seconds("dense") + decode

    def dense_seconds(self) -> float:
        """Expected of the same edit by dense passes."""
        return (self.steps - self.start) * self._step_seconds("dense") + self._decode_seconds("dense")

    def prediction(self) -> Prediction:
        tiles, mode, fraction = self.unet.masks[0], "sparse", self.active_fraction
        if not tiles.any():
            mode, fraction = "sparse", 0.0
        elif not self.by_rows(self.start):
            mode, fraction, tiles = "dense", 1.0, np.ones_like(tiles)
        return Prediction(
            active_fraction=fraction,
            seconds=self.seconds() if fraction else 0.0,
            dense_seconds=self.dense_seconds(),
            mode=mode,
            tiles=tiles,
            tile_px=self._bench.model.latent_scale,
            measured=self._bench.timer.measured,
        )

    def _step_seconds(self, kind: Literal["sparse", "dense"]) -> float:
        return self._bench.timer.predict(kind, self.sparse_macs if kind == "sparse" else self.dense_macs)

    def _decode_seconds(self, kind: Literal["sparse", "dense"]) -> float:
        dense = self.variations * self._bench.decode_macs(self._shape)
        return self._bench.decode_timer.predict(kind, self.decode_macs if kind == "sparse" else dense)
