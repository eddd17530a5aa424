"""Muon and AdamW as one optimizer: every weight is moved by exactly one of them, and a resumed run goes on the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from diffusers import UNet2DConditionModel
from torch import nn
from transformers import CLIPTextModel

from tests.engine.small_models import small_unet, small_vae
from tests.training.small_pipeline import small_encoder
from training import optimizers
from training.optimizers import ADAMW_SHARE, Muon, MuonAndAdamW


def models() -> tuple[UNet2DConditionModel, CLIPTextModel]:
    return small_unet("sd1", layers_per_block=1).requires_grad_(True), small_encoder()


def backward(unet: UNet2DConditionModel, encoder: CLIPTextModel, seed: int) -> None:
    torch.manual_seed(seed)
    text = encoder(torch.randint(64, (2, 24)))[0]
    unet(torch.randn(2, 4, 16, 16), torch.tensor([30, 900]), text, return_dict=False)[0].square().mean().backward()


def owners(optimizer: MuonAndAdamW) -> dict[str, list[int]]:
    """Sizes of the momenta that each of the two keeps."""
    found: dict[str, list[int]] = {"muon": [], "adamw": []}
    for path, value in optimizer.state().items():
        owner, _, key = path.split(".")
        if key in ("momentum_buffer", "exp_avg"):
            found[owner].append(value.numel())
    return found


def test_every_weight_of_the_models_moves_and_has_one_owner() -> None:
    unet, encoder = models()
    named = {**dict(unet.named_parameters()), **dict(encoder.named_parameters())}
    before = {name: weight.detach().clone() for name, weight in named.items()}
    optimizer = MuonAndAdamW([unet, encoder], 0.01)
    backward(unet, encoder, 1)
    unmoved_by_nature = {name for name, weight in named.items() if weight.grad is not None and not weight.grad.any()}
    optimizer.step(1)
    still = {name for name, weight in named.items() if torch.equal(weight, before[name])}
    # softmax does not see a bias of keys, so their gradient is rounding noise or zero
    assert still <= unmoved_by_nature and all("k_proj.bias" in name for name in still)
    assert all(weight.grad is None for weight in named.values())
    sizes = owners(optimizer)
    assert sorted(sizes["muon"] + sizes["adamw"]) == sorted(weight.numel() for weight in named.values())


class Edges(nn.Module):
    """One weight of each kind; sizes tell them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(1, 2, 3, bias=False)  # 18
        self.block = nn.ModuleDict({"conv_out": nn.Conv2d(1, 3, 3, bias=False), "norm": nn.LayerNorm(5, bias=False)})
        self.token_embedding = nn.Embedding(7, 2)  # 14
        self.linear = nn.Linear(4, 5)  # 20 and 5
        self.conv = nn.Conv2d(3, 4, 1, bias=False)  # 12


def test_edges_embeddings_biases_and_norms_go_to_adamw() -> None:
    module = Edges()
    optimizer = MuonAndAdamW([module], 0.01)
    for weight in module.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step(1)
    assert owners(optimizer) == {"muon": [20, 12], "adamw": [18, 27, 5, 14, 5]}


def test_the_first_and_last_layers_of_an_autoencoder_are_edges_too() -> None:
    vae = small_vae().requires_grad_(True)
    optimizer = MuonAndAdamW([vae], 0.01)
    for weight in vae.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step(1)
    edges = {id(part.weight) for half in (vae.encoder, vae.decoder) for part in (half.conv_in, half.conv_out)}
    outer = [weight.numel() for weight in vae.parameters() if weight.ndim < 2 or id(weight) in edges]
    assert owners(optimizer)["adamw"] == outer and len(edges) == 4


def test_frozen_weights_stay() -> None:
    unet, encoder = models()
    encoder.requires_grad_(False)
    before = {name: weight.clone() for name, weight in encoder.named_parameters()}
    optimizer = MuonAndAdamW([unet, encoder], 0.01)
    backward(unet, encoder, 1)
    optimizer.step(1)
    assert all(torch.equal(weight, before[name]) for name, weight in encoder.named_parameters())


@pytest.mark.parametrize(
    "weight",
    [lambda: nn.Conv2d(6, 10, 3), lambda: nn.Conv2d(6, 10, 1), lambda: nn.Conv2d(1, 8, 3)],
    ids=["3x3", "1x1", "one channel"],
)
def test_memory_order_does_not_matter(weight: Callable[[], nn.Conv2d]) -> None:
    torch.manual_seed(2)
    contiguous = weight()
    other = weight()
    other.load_state_dict(contiguous.state_dict())
    other.to(memory_format=torch.channels_last)
    before = contiguous.weight.detach().clone()
    pictures = torch.randn(3, contiguous.in_channels, 9, 9)
    first, second = MuonAndAdamW([contiguous], 0.02), MuonAndAdamW([other], 0.02)
    for _ in range(3):
        for module, optimizer, layout in (
            (contiguous, first, torch.contiguous_format),
            (other, second, torch.channels_last),
        ):
            module(pictures.contiguous(memory_format=layout)).square().mean().backward()
            optimizer.step(1)
    moved = (contiguous.weight - before).norm()
    assert moved > 0.01
    assert (contiguous.weight - other.weight).norm() < 0.05 * moved, "Muon computes in bfloat16: near, not equal"


def test_a_resumed_run_goes_on_bit_by_bit() -> None:
    straight = models()
    optimizer = MuonAndAdamW(straight, 0.01)
    for step in range(2):
        backward(*straight, step)
        optimizer.step(0.5 + 0.1 * step)
    weights = [{name: weight.clone() for name, weight in model.state_dict().items()} for model in straight]
    state = {name: value.clone() for name, value in optimizer.state().items()}
    for step in range(2, 4):
        backward(*straight, step)
        optimizer.step(0.5 + 0.1 * step)

    resumed = models()
    again = MuonAndAdamW(resumed, 0.01)
    for model, saved in zip(resumed, weights, strict=True):
        model.load_state_dict(saved)
    again.load_state(state)
    for step in range(2, 4):
        backward(*resumed, step)
        again.step(0.5 + 0.1 * step)
    for one, other in zip(straight, resumed, strict=True):
        for (name, weight), twin in zip(one.named_parameters(), other.parameters(), strict=True):
            assert torch.equal(weight, twin), name


def test_without_its_state_a_run_goes_on_differently() -> None:
    """So that the test above shows something."""
    moved: list[torch.Tensor] = []
    for keep in (True, False):
        torch.manual_seed(0)
        linear = nn.Linear(4, 4)
        optimizer = MuonAndAdamW([linear], 0.01)
        for step in range(2):
            linear(torch.eye(4) * (step + 1)).square().sum().backward()
            if step and not keep:
                optimizer = MuonAndAdamW([linear], 0.01)
            optimizer.step(1)
        moved.append(linear.weight.detach().clone())
    assert not torch.equal(*moved)


@pytest.mark.parametrize("share", [1, 0.25, 0.01])
def test_the_share_scales_the_step(share: float) -> None:
    module = Edges()
    bias, kernel = (weight.detach().clone() for weight in (module.linear.bias, module.linear.weight))
    for weight in module.parameters():
        weight.grad = torch.ones_like(weight)
    MuonAndAdamW([module], 0.01).step(share)
    assert torch.allclose(bias - module.linear.bias, torch.full((5,), 0.01 * ADAMW_SHARE * share), rtol=1e-3)
    whole = 0.01 * share * (20 * max(1, 5 / 4)) ** 0.5
    assert 0 < (kernel - module.linear.weight).norm() < whole


@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (8, 40), (1, 9), (64, 576)], ids=str)
@pytest.mark.parametrize("has_bf16", [True, False])
def test_muon_moves_as_torch_s_does(shape: tuple[int, int], has_bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several steps with momentum and decay; torch's is in bf16, so to three digits."""
    monkeypatch.setattr(optimizers, "computes_bf16", lambda _: has_bf16)
    torch.manual_seed(3)
    start = torch.randn(shape)
    weights = [nn.Parameter(start.clone()) for _ in range(2)]
    both = [
        kind([weight], lr=0.1, weight_decay=0.01)
        for kind, weight in zip((Muon, torch.optim.Muon), weights, strict=True)
    ]
    for _ in range(4):
        gradient = torch.randn(shape)
        for weight, optimizer in zip(weights, both, strict=True):
            weight.grad = gradient.clone()
            optimizer.step()
    moved, expected = (weight.detach() - start for weight in weights)
    assert (moved - expected).norm() < 0.02 * expected.norm()
