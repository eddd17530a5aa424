"""Perturbation tests of exact receptive fields, on diffusers' own forwards of convolution-only networks.

Group norms are made local by freezing the statistics of a first pass. A change is so large that its furthest and
weakest effect, one tap per convolution, is far above fp64's rounding of what is there without it; nothing else makes
an output differ. Maps are large enough that fields end inside them. The field must be the changed set itself, which is
more than covering it and being less than a tile larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn

from diffusion_engine.errors import UnsupportedModel, UserError
from diffusion_engine.receptive_field import radius_of, reach
from tests.engine.small_models import masks, small_unet, small_vae

CHANGE, UNCHANGED = 1e60, 1e-6


@dataclass(frozen=True)
class Frozen:
    """A network without attention and with frozen norms, its input and what it makes of it."""

    network: Any
    forward: Callable[[Tensor], Tensor]
    base: Tensor
    output: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape[2], self.base.shape[3]

    def changed(self, mask: Tensor) -> Tensor:
        """Outputs that differ when the input inside the mask does."""
        torch.manual_seed(9)
        after = self.forward(self.base + CHANGE * torch.randn_like(self.base) * mask)
        assert torch.isfinite(after).all()
        return ((after - self.output).abs() > UNCHANGED).any(1)[0]


@torch.no_grad()
def freeze_norms(network: nn.Module, run: Callable[[], object]) -> None:
    """Every group norm keeps the statistics of one run, as an affine map per channel."""

    def keep(norm: Any, args: tuple[Tensor, ...], _out: Tensor) -> None:
        groups = args[0].double().reshape(norm.num_groups, -1)
        per_group = norm.num_channels // norm.num_groups
        mean, variance = (x.repeat_interleave(per_group) for x in (groups.mean(1), groups.var(1, correction=0)))
        scale = norm.weight / (variance + norm.eps).sqrt()
        affine = (x[:, None, None] for x in (scale, norm.bias - mean * scale))
        frozen[norm] = tuple(affine)

    frozen: dict[Any, tuple[Tensor, Tensor]] = {}
    norms = [module for module in network.modules() if isinstance(module, nn.GroupNorm)]
    handles = [norm.register_forward_hook(keep) for norm in norms]
    run()
    for handle in handles:
        handle.remove()
    for norm in norms:
        scale, shift = frozen[norm]
        norm.forward = lambda input, scale=scale, shift=shift: input * scale + shift


def frozen_unet(shape: tuple[int, int], channels: tuple[int, ...], layers: int, **changes: Any) -> Frozen:
    config: dict[str, Any] = {
        "block_out_channels": channels,
        "layers_per_block": layers,
        "down_block_types": ("DownBlock2D",) * len(channels),
        "up_block_types": ("UpBlock2D",) * len(channels),
        "mid_block_type": "UNetMidBlock2D",
        **changes,
    }
    unet = small_unet("sd1", **config).double()
    return _frozen(unet, lambda x: unet(x, 300, torch.zeros(1, 1, 32)).sample, (4, *shape))


def convolutional_vae() -> Any:
    config: dict[str, Any] = {
        "block_out_channels": (16, 32, 32),
        "layers_per_block": 1,
        "down_block_types": ("DownEncoderBlock2D",) * 3,
        "up_block_types": ("UpDecoderBlock2D",) * 3,
        "mid_block_add_attention": False,
    }
    return small_vae(**config).double()


def frozen_decoder(shape: tuple[int, int]) -> Frozen:
    vae = convolutional_vae()
    return _frozen(vae.decoder, lambda z: vae.decode(z).sample, (4, *shape))


def frozen_encoder(shape: tuple[int, int]) -> Frozen:
    vae = convolutional_vae()
    return _frozen(vae.encoder, lambda x: vae.encode(x).latent_dist.mean, (3, *shape))


def _frozen(network: Any, forward: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Frozen:
    torch.manual_seed(8)
    base = torch.randn(1, *shape, dtype=torch.float64)
    forward = torch.no_grad()(forward)
    freeze_norms(network, lambda: forward(base))
    return Frozen(network, forward, base, forward(base))


NETWORKS: dict[str, Callable[[], Frozen]] = {
    "unet of three levels": lambda: frozen_unet((112, 128), (16, 32, 32), 1),
    "unet with two layers per block": lambda: frozen_unet((80, 96), (16, 32), 2),
    "unet without a mid block": lambda: frozen_unet((64, 48), (16, 32), 1, mid_block_type=None),
    "unet padded right and below": lambda: frozen_unet((112, 128), (16, 32, 32), 1, downsample_padding=0),
    "decoder": lambda: frozen_decoder((48, 40)),
    "encoder": lambda: frozen_encoder((128, 160)),
}


@lru_cache
def network(name: str) -> Frozen:
    return NETWORKS[name]()


def change_masks(shape: tuple[int, int]) -> dict[str, Tensor]:
    """Changed inputs whose fields end inside the map: single rows at all sorts of places, corners, two blobs."""
    height, width = shape
    places = {
        "centre": (height // 2, width // 2),
        "odd row and column": (height // 2 + 1, width // 2 + 1),
        "odd row": (height // 2 - 1, width // 2 - 2),
        "last of its coarsest row": (height // 2 + 3, width // 2 - 1),
        "right border": (height // 2 + 2, width - 1),
        "bottom border, odd column": (height - 1, width // 3 | 1),
    }
    found: dict[str, Tensor] = {}
    for name, (row, column) in places.items():
        found[name] = torch.zeros(shape, dtype=torch.bool)
        found[name][row, column] = True
    common = masks(shape)
    corners = ("top-left", "top-right", "bottom-left", "bottom-right")
    return {**found, **{name: common[name] for name in (*corners, "two blobs")}}


@pytest.mark.parametrize("place", list(change_masks((32, 32))))
@pytest.mark.parametrize("name", NETWORKS)
def test_field_is_exactly_what_changes(name: str, place: str) -> None:
    subject = network(name)
    mask = change_masks(subject.shape)[place]
    field, changed = reach(subject.network, mask), subject.changed(mask)
    assert changed.any() and not field.all(), "the map is too small to show where the field ends"
    assert not (changed & ~field).any(), "an output outside the field changed"
    assert not (field & ~changed).any(), "the field is larger than needed"


@pytest.mark.parametrize("name", NETWORKS)
def test_radius_is_that_of_the_worst_place(name: str) -> None:
    """Measured again on a square map, by sides of the field of every row of one coarsest row."""
    subject = network(name).network
    side, radii = 256, []
    for place in range(4):
        mask = torch.zeros(side, side, dtype=torch.bool)
        mask[side // 2 + place, side // 2 + place] = True
        field = reach(subject, mask)
        rows = field.any(1).nonzero().flatten()
        assert torch.equal(field.any(0), field.any(1)) and rows[0] > 0 and rows[-1] < field.shape[0] - 1
        scale = field.shape[0] / side  # output rows per input row
        row_in, row_out = max(scale, 1), max(1 / scale, 1)  # sides in finest rows
        above = (side // 2 + place) * row_in - rows[0] * row_out
        below = (rows[-1] + 1) * row_out - (side // 2 + place + 1) * row_in
        radii.append(int(max(above, below)))
    assert max(radii) == radius_of(subject)


def test_radii_of_stable_diffusion() -> None:
    """SD 1.5: 198 latents of taps (summed by hand), and up to 7 of the places of 8 latents in their coarsest row."""
    with torch.device("meta"):
        unet = UNet2DConditionModel(cross_attention_dim=768).eval()
        vae = small_vae(block_out_channels=(128, 256, 512, 512))
    assert radius_of(unet) == 198 + 7
    assert radius_of(vae.decoder) == 138


@pytest.mark.parametrize("value", [False, True], ids=["nothing", "everything"])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_or_nothing(name: str, value: bool) -> None:
    subject = network(name)
    field = reach(subject.network, torch.full(subject.shape, value))
    assert field.shape == subject.output.shape[2:] and bool((field == value).all())


def test_refused_input() -> None:
    with pytest.raises(UserError, match="divisible by 4"):
        reach(network("unet of three levels").network, torch.zeros(64, 62, dtype=torch.bool))
    with pytest.raises(UnsupportedModel, match="AttnDownBlock2D"):
        radius_of(small_unet("sd1", down_block_types=("AttnDownBlock2D",) + ("DownBlock2D",) * 3))
