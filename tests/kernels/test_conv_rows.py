"""conv_rows against torch's own convolution of the whole composite map, in fp64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import available_backends, conv_rows, use_backend
from kernels.conv_rows import reference
from kernels.conv_rows.taps import build_taps
from tests.engine.small_models import relative_rms
from tests.kernels.row_maps import DEVICE, active_mask, composite, randn, rows_of, same_bits


@dataclass(frozen=True)
class Case:
    """shape: of the source map; source, out: kinds of active masks; branch_of: one recorded branch per segment."""

    shape: tuple[int, int] = (12, 14)
    channels: tuple[int, int] = (60, 60)
    source: str = "scattered"
    out: str = "scattered"
    stride: int = 1
    upsample: int = 1
    pad_before: int = 1
    branch_of: tuple[int, ...] = (0, 1)
    affine: bool = False
    silu: bool = False
    residual: bool = False
    bias_per_segment: bool = False
    channels_last: bool = True
    storage: torch.dtype = torch.float32

    @property
    def out_shape(self) -> tuple[int, int]:
        return self.shape[0] * self.upsample // self.stride, self.shape[1] * self.upsample // self.stride


RESNET: dict[str, Any] = {"affine": True, "silu": True}
CASES = {
    "plain": Case(),
    "weight not packed": Case(channels_last=False),
    "4 channels in": Case(channels=(4, 320)),
    "4 channels out": Case(channels=(320, 4)),
    "320 channels in several pieces": Case((24, 32), (320, 60), "full", "full", **RESNET),
    "320 channels, last piece short": Case((31, 27), (320, 60), "border", "full", **RESNET),
    "one row": Case(source="one row", out="one row", **RESNET),
    "one row of another place": Case(source="one row", out="corners", **RESNET),
    "corners": Case(source="corners", out="corners", **RESNET),
    "border": Case(source="border", out="border", **RESNET),
    "halo empty": Case(source="full", out="full", **RESNET),
    "nothing active in the source": Case(source="none", out="scattered", **RESNET),
    "nothing wanted": Case(out="none", **RESNET),
    "map of one row": Case((1, 1), source="full", out="full", **RESNET),
    "map of one line": Case((1, 9), **RESNET),
    "map of one column": Case((9, 1), **RESNET),
    "affine without silu": Case(affine=True),
    "silu without affine": Case(silu=True),
    "residual": Case(residual=True, **RESNET),
    "residual and time embedding": Case(residual=True, bias_per_segment=True, **RESNET),
    "time embedding": Case(bias_per_segment=True, **RESNET),
    "one segment": Case(branch_of=(0,), bias_per_segment=True, **RESNET),
    "six segments over two branches": Case(branch_of=(0, 0, 0, 1, 1, 1), bias_per_segment=True, **RESNET),
    "two segments share a branch": Case(branch_of=(0, 0), residual=True, **RESNET),
    "down": Case(stride=2),
    "down, halo empty": Case(stride=2, source="full", out="full"),
    "down, corners": Case(stride=2, source="corners", out="corners"),
    "down to one row": Case((2, 2), stride=2, source="one row", out="full"),
    "down, padded right and below": Case(stride=2, pad_before=0),
    "down, padded right and below, full": Case(stride=2, pad_before=0, source="full", out="full"),
    "down, padded right and below, corners": Case(stride=2, pad_before=0, source="corners", out="corners"),
    "up": Case(upsample=2),
    "up, halo empty": Case(upsample=2, source="full", out="full"),
    "up, corners": Case(upsample=2, source="corners", out="corners"),
    "up, border": Case(upsample=2, source="border", out="border"),
    "up from one row": Case((1, 1), upsample=2, source="full", out="full"),
    "up, six segments": Case(upsample=2, branch_of=(0, 0, 0, 1, 1, 1), channels=(320, 4)),
    "recorded in bf16": Case(storage=torch.bfloat16, residual=True, **RESNET),
    "recorded in fp16, up": Case(storage=torch.float16, upsample=2),
}


@dataclass(frozen=True)
class Inputs:
    active: Tensor
    base: Tensor
    weight: Tensor
    bias: Tensor
    affine: tuple[Tensor, Tensor] | None
    residual: Tensor | None
    source_rows: Tensor
    out_rows: Tensor


def make_inputs(case: Case) -> Inputs:
    (channels_in, channels_out), segments = case.channels, len(case.branch_of)
    source_rows = rows_of(active_mask(case.source, case.shape))
    out_rows = rows_of(active_mask(case.out, case.out_shape))
    weight = randn(channels_out, channels_in, 3, 3, seed=1)
    affine = 1 + randn(segments, channels_in, seed=2), 1 + randn(segments, channels_in, seed=3)
    return Inputs(
        active=randn(segments, source_rows.numel(), channels_in, seed=4),
        base=randn(max(case.branch_of) + 1, case.shape[0] * case.shape[1], channels_in, seed=5, dtype=case.storage),
        weight=weight.contiguous(memory_format=torch.channels_last) if case.channels_last else weight,
        bias=randn(*([segments] if case.bias_per_segment else []), channels_out, seed=6),
        affine=affine if case.affine else None,
        residual=randn(segments, out_rows.numel(), channels_out, seed=7) if case.residual else None,
        source_rows=source_rows,
        out_rows=out_rows,
    )


def plain(case: Case, given: Inputs) -> Tensor:
    """fp64 [S, Mout, Cout]"""
    rows = composite(given.active, given.base, given.source_rows, case.branch_of)
    if given.affine is not None:
        rows = rows * given.affine[0].double()[:, None] + given.affine[1].double()[:, None]
    if case.silu:
        rows = rows * torch.sigmoid(rows)
    x = rows.transpose(1, 2).unflatten(2, case.shape)
    x = x.repeat_interleave(case.upsample, 2).repeat_interleave(case.upsample, 3)
    x = F.pad(x, (case.pad_before, 1, case.pad_before, 1))
    out = F.conv2d(x, given.weight.double(), stride=case.stride)
    out = out[:, :, : case.out_shape[0], : case.out_shape[1]].flatten(2)[..., given.out_rows].transpose(1, 2)
    out = out + given.bias.double().view(-1, 1, out.shape[2])
    return out if given.residual is None else out + given.residual.double()


@pytest.mark.parametrize("boxes", [True, False], ids=["boxes convolved", "boxes gathered"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", available_backends("conv_rows"))
def test_equals_convolution_of_the_whole_map(
    backend: str, name: str, boxes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded rows that no tap needs are NaN, and so is all new memory: neither may show."""
    monkeypatch.setattr(reference, "_BOX_ROWS", 0 if boxes else 1 << 30)
    case = CASES[name]
    given = make_inputs(case)
    expected = plain(case, given)
    taps = build_taps(
        given.out_rows,
        case.out_shape,
        given.source_rows,
        case.shape,
        stride=case.stride,
        upsample=case.upsample,
        pad_before=case.pad_before,
    )
    unread = torch.ones(given.base.shape[1], dtype=torch.bool, device=DEVICE)
    unread[taps.halo] = False
    assert unread[given.source_rows].all(), "a halo row is not an active one"
    given.base[:, unread] = torch.nan
    read_only = [given.active, given.base, given.weight, given.bias, *(given.affine or ())]
    before = [tensor.clone() for tensor in read_only]
    with use_backend(backend):
        result = conv_rows(
            given.active,
            given.base,
            taps,
            given.weight,
            given.bias,
            branch_of=case.branch_of,
            affine=given.affine,
            silu=case.silu,
            residual=given.residual,
        )
    assert result.shape == expected.shape and result.dtype == torch.float32
    assert result.numel() == 0 or relative_rms(result, expected) < 1e-5
    assert all(same_bits(old, new) for old, new in zip(before, read_only, strict=True))


@pytest.mark.parametrize("kind", ["stride 1", "down", "up"])
def test_halo_lists_only_rows_that_are_read(kind: str) -> None:
    """One active row in the middle of a map: 8 neighbours, the 3 x 3 less it, or the coarse rows around a cell."""
    factors = {"stride 1": (1, 1, 8), "down": (2, 1, 8), "up": (1, 2, 3)}
    stride, upsample, expected = factors[kind]
    shape = (12, 12)
    out_shape = (shape[0] * upsample // stride, shape[1] * upsample // stride)
    out = torch.zeros(out_shape, dtype=torch.bool, device=DEVICE)
    out[out_shape[0] // 2, out_shape[1] // 2] = True
    source = active_mask("one row", shape)
    taps = build_taps(rows_of(out), out_shape, rows_of(source), shape, stride=stride, upsample=upsample)
    assert taps.halo.numel() == expected
    assert taps.halo.unique().numel() == taps.halo.numel() and not source.flatten()[taps.halo].any()


BOXES = {
    "a rectangle": ([(3, 7), (4, 7), (3, 8), (4, 8)], (4, 4)),
    "one row": ([(0, 0)], (3, 3)),
    "an L is none": ([(3, 7), (4, 7), (4, 8)], None),
    "a line across": ([(11, x) for x in range(12)], (3, 14)),
}


@pytest.mark.parametrize("name", BOXES)
def test_filled_rectangles_are_found(name: str) -> None:
    places, window = BOXES[name]
    rows = torch.tensor(sorted(y * 12 + x for y, x in places), device=DEVICE)
    taps = build_taps(rows, (12, 12), rows, (12, 12))
    assert (taps.box and taps.box.shape) == window
