"""Differential tests: where nothing outside the plan changed, a sparse pass equals diffusers' own forward.

The referee is the forward of an untouched module, one that no executor was ever made of, in fp64: its fp32 forward is
itself 1e-5 away where torch's GroupNorm gets a large channels-last map (after a VAE's mid attention).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from diffusion_engine import PlanPolicy, SparseDecoder, SparseEncoder, SparseUNet, TextContext
from diffusion_engine.model import load_model
from diffusion_engine.recorder import to_rows
from diffusion_engine.regional import PromptMap
from tests.engine.small_models import UNETS, masks, relative_rms, small_unet, small_vae, unet_inputs

SHAPES = [(32, 32), (40, 72)]
MASKS = list(masks((32, 32)))
TIMESTEP = 411


@lru_cache
def recorded(kind: str, shape: tuple[int, int]) -> tuple[SparseUNet, tuple[Any, ...], Tensor, Any]:
    sparse = SparseUNet(small_unet(kind))
    inputs = unet_inputs(sparse.unet, shape)
    recorded_noise, cache = sparse.record(inputs[0], TIMESTEP, inputs[1], inputs[2])
    with torch.inference_mode():
        exact = {key: value.double() for key, value in inputs[2].items()} if inputs[2] else None
        referee = small_unet(kind).double()
        noise = referee(inputs[0].double(), TIMESTEP, inputs[1].double(), added_cond_kwargs=exact).sample.float()
    assert relative_rms(recorded_noise, noise) < 1e-5
    return sparse, inputs, noise, cache


def inside(x: Tensor, active: Tensor) -> Tensor:
    return to_rows(x).index_select(1, active)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", UNETS)
def test_E4_unet_with_unchanged_input_equals_dense(kind: str, shape: tuple[int, int], name: str) -> None:
    sparse, (latents, text, added), noise, cache = recorded(kind, shape)
    plan = sparse.plan(masks(shape)[name])
    result = sparse(latents, TIMESTEP, text, cache, plan, added)
    active = plan.levels[0].active
    assert relative_rms(inside(result, active), inside(noise, active)) < 1e-5
    outside = torch.ones(shape[0] * shape[1], dtype=torch.bool)
    outside[active] = False
    assert torch.equal(to_rows(result)[:, outside], cache.rows["noise"].data[:, outside])


@pytest.mark.parametrize("kind", UNETS)
def test_E4_unet_with_every_row_active_equals_dense_of_new_input(kind: str) -> None:
    sparse, (latents, text, added), _, cache = recorded(kind, (32, 32))
    changed, other = torch.randn_like(latents), torch.randn_like(text)
    with torch.inference_mode():
        dense = sparse.unet(changed, TIMESTEP, other, added_cond_kwargs=added).sample
    plan = sparse.plan(torch.ones(32, 32, dtype=torch.bool))
    assert relative_rms(sparse(changed, TIMESTEP, other, cache, plan, added), dense) < 1e-5


@pytest.mark.parametrize("policy", [PlanPolicy((0,)), PlanPolicy((3, 1, 0)), PlanPolicy((1,), (8, 4, 2, 1))], ids=str)
def test_every_plan_policy_is_exact(policy: PlanPolicy) -> None:
    sparse, (latents, text, _), noise, cache = recorded("sd1", (40, 72))
    sparse = SparseUNet(sparse.unet, policy=policy)
    plan = sparse.plan(masks((40, 72))["two blobs"])
    assert relative_rms(sparse(latents, TIMESTEP, text, cache, plan), noise) < 1e-5


def test_variations_are_segments_of_one_batch() -> None:
    """Six segments over a recording of two branches: each equals its own pass alone."""
    sparse, (_, text, added), _, cache = recorded("sdxl", (32, 32))
    plan = sparse.plan(masks((32, 32))["two blobs"])
    several = torch.randn(3, 4, 32, 32)
    batch = torch.cat([several, several])
    added3 = {key: value.repeat_interleave(3, 0) for key, value in (added or {}).items()}
    together = sparse(batch, TIMESTEP, text, cache, plan, added3)
    for index in range(3):
        alone = sparse(torch.cat([several[index : index + 1]] * 2), TIMESTEP, text, cache, plan, added)
        assert relative_rms(together[[index, 3 + index]], alone) < 1e-5


def test_branches_may_share_one_recording() -> None:
    """With an empty prompt both guidance branches agree, so one recorded branch serves two segments."""
    sparse = SparseUNet(small_unet("sd1"))
    latents, text, _ = unet_inputs(sparse.unet, (32, 32), batch=1)
    noise, shared = sparse.record(latents, TIMESTEP, text)
    plan = sparse.plan(masks((32, 32))["scattered strokes"])
    both = sparse(torch.cat([latents] * 2), TIMESTEP, torch.cat([text] * 2), shared, plan)
    assert relative_rms(both, torch.cat([noise] * 2)) < 1e-5


def test_recording_is_left_as_it_was() -> None:
    """Self-attention writes into the recorded keys and values while it runs; afterwards every byte is back."""
    sparse, (latents, text, _), _, cache = recorded("sd1", (32, 32))
    before = cache.block.memory.clone()
    sparse(torch.randn_like(latents), TIMESTEP, text, cache, sparse.plan(masks((32, 32))["two blobs"]))
    assert torch.equal(cache.block.memory, before)


def test_module_is_left_as_it_was() -> None:
    """The UNet's values, hooks and processors are untouched, and its weights do not exist twice."""
    plain, wrapped = small_unet("sd1"), small_unet("sd1")
    latents, text, _ = unet_inputs(plain, (32, 32))
    sparse = SparseUNet(wrapped)
    _, cache = sparse.record(latents, TIMESTEP, text)
    sparse(latents, TIMESTEP, text, cache, sparse.plan(masks((32, 32))["one row"]))
    for (name, mine), theirs in zip(wrapped.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in wrapped.modules())
    with torch.inference_mode():
        assert relative_rms(wrapped(latents, 7, text).sample, plain(latents, 7, text).sample) < 1e-5
    storages = {weight.untyped_storage().data_ptr(): weight.nbytes for weight in wrapped.parameters()}
    assert sum(storages.values()) == sum(weight.nbytes for weight in plain.parameters())


def test_changed_weights_are_seen() -> None:
    """LoRA fusing replaces or adds to a weight; the sparse pass reads the module's own, so it follows."""
    unet = small_unet("sd1")
    sparse = SparseUNet(unet)
    latents, text, _ = unet_inputs(unet, (32, 32))
    conv: Any = unet.mid_block.resnets[0].conv1  # pyright: ignore
    conv.weight.data = (conv.weight.data + 0.05 * torch.randn_like(conv.weight)).contiguous()
    unet.up_blocks[1].attentions[0].transformer_blocks[0].attn1.to_q.weight.data += 0.05  # pyright: ignore
    noise, cache = sparse.record(latents, TIMESTEP, text)
    result = sparse(latents, TIMESTEP, text, cache, sparse.plan(masks((32, 32))["full"]))
    assert relative_rms(result, noise) < 1e-5


@pytest.mark.parametrize(
    "storage,tolerance", [(torch.bfloat16, 3e-2), (torch.float16, 5e-3), (torch.int8, 3e-2)], ids=str
)
def test_recording_may_be_kept_in_fewer_bytes(storage: torch.dtype, tolerance: float) -> None:
    sparse, (latents, text, _), noise, full = recorded("sd1", (32, 32))
    _, cache = sparse.record(latents, TIMESTEP, text, dtype=storage)
    assert cache.nbytes < 0.7 * full.nbytes
    plan = sparse.plan(masks((32, 32))["two blobs"])
    active = plan.levels[0].active
    result = sparse(latents, TIMESTEP, text, cache, plan)
    assert 0 < relative_rms(inside(result, active), inside(noise, active)) < tolerance


@pytest.mark.parametrize("name", ["two blobs", "scattered strokes", "full"])
@pytest.mark.parametrize("kind", UNETS)
def test_rows_of_several_prompts_equal_the_regional_dense_pass(kind: str, name: str) -> None:
    """A picture painted twice: over its recording, any plan's rows equal the regional dense pass."""
    sparse, (latents, _, added), _, _ = recorded(kind, (32, 32))
    width = sparse.unet.config["cross_attention_dim"]
    texts = [TextContext.of(torch.randn(2, 7, width)) for _ in range(3)]
    shapes = [(32 >> level, 32 >> level) for level in range(sparse.level_count)]
    prompts = PromptMap.uniform(texts[0], shapes, latents.device)
    prompts = prompts.painted(texts[1], masks((32, 32))["two blobs"]).painted(texts[2], masks((32, 32))["top-left"])
    noise, cache = sparse.record(latents, TIMESTEP, prompts, added)
    plan = sparse.plan(masks((32, 32))[name])
    assert relative_rms(sparse(latents, TIMESTEP, prompts.rows(plan), cache, plan, added), noise) < 1e-5
    one_prompt = sparse(latents, TIMESTEP, texts[0], cache, plan, added)
    assert relative_rms(one_prompt, noise) > 1e-4
    several = sparse(
        torch.cat([latents, latents])[[0, 2, 1, 3]], TIMESTEP, prompts.rows(plan), cache, plan, twice(added)
    )
    assert relative_rms(several, noise[[0, 0, 1, 1]]) < 1e-5


def twice(added: dict[str, Tensor] | None) -> dict[str, Tensor] | None:
    return added and {key: value.repeat_interleave(2, 0) for key, value in added.items()}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("attention", [True, False], ids=["mid attention", "no attention"])
def test_decoder_equals_dense(attention: bool, name: str) -> None:
    decoder = SparseDecoder(small_vae(mid_block_add_attention=attention))
    torch.manual_seed(5)
    latents = torch.randn(2, 4, 32, 32)
    recorded_picture, cache = decoder.record(latents)
    with torch.inference_mode():
        picture = small_vae(mid_block_add_attention=attention).double().decode(latents.double()).sample.float()
    assert relative_rms(recorded_picture, picture) < 1e-5
    plan = decoder.plan(masks((32, 32))[name])
    active = plan.levels[0].active
    assert relative_rms(inside(decoder(latents, cache, plan), active), inside(picture, active)) < 1e-5


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("shape", [(64, 64), (80, 144)], ids=str)
def test_encoder_equals_dense(shape: tuple[int, int], name: str) -> None:
    encoder = SparseEncoder(small_vae())
    torch.manual_seed(6)
    picture = torch.randn(2, 3, *shape)
    recorded_mean, cache = encoder.record(picture)
    with torch.inference_mode():
        mean = small_vae().double().encode(picture.double()).latent_dist.mean.float()
    assert relative_rms(recorded_mean, mean) < 1e-5
    assert relative_rms(encoder(picture, cache, encoder.plan(masks(shape)[name])), mean) < 1e-5


def test_decoder_follows_a_change_inside_the_mask() -> None:
    """With the starter's trained weights, changed latents decode nearly as a dense pass would inside the mask."""
    model = load_model("starter")
    torch.manual_seed(7)
    latents = model.unscaled(torch.randn(1, 4, 32, 32))
    picture, cache = model.decoder.record(latents)
    mask = masks((32, 32))["two blobs"]
    changed = torch.where(mask, model.unscaled(torch.randn_like(latents)), latents)
    result, dense = model.decoder(changed, cache, model.decoder.plan(mask)), model.decoder.dense(changed)
    pixels = mask.repeat_interleave(8, 0).repeat_interleave(8, 1)
    error, change = (relative_rms(one[..., pixels], dense[..., pixels]) for one in (result, picture))
    assert error < 0.05 < 0.3 < change


@pytest.mark.parametrize("kind", UNETS)
def test_cached_norms_are_exact_only_without_a_change(kind: str) -> None:
    """Frozen statistics agree on unchanged input; delta statistics come closer to the dense pass on changed input."""
    sparse, (latents, text, added), noise, cache = recorded(kind, (32, 32))
    frozen = SparseUNet(sparse.unet, norm="cached")
    plan = sparse.plan(masks((32, 32))["two blobs"])
    assert relative_rms(frozen(latents, TIMESTEP, text, cache, plan, added), noise) < 1e-5
    changed = torch.where(masks((32, 32))["two blobs"], 3 * latents + 2, latents)
    with torch.inference_mode():
        dense = inside(sparse.unet(changed, TIMESTEP, text, added_cond_kwargs=added).sample, plan.levels[0].active)
    errors = [
        relative_rms(inside(one(changed, TIMESTEP, text, cache, plan, added), plan.levels[0].active), dense)
        for one in (sparse, frozen)
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    "storage,tolerance", [(None, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2), (torch.int8, 3e-2)], ids=str
)
def test_rows_of_a_pass_become_a_cache(storage: torch.dtype | None, tolerance: float) -> None:
    """A committed edit's cache holds the computed rows inside the plan and the old ones outside, byte for byte; the
    same pass over it predicts the same; exchanging again brings the old cache back."""
    sparse, (latents, text, _), _, _ = recorded("sd1", (32, 32))
    _, cache = sparse.record(latents, TIMESTEP, text, dtype=storage)
    before = cache.block.memory.clone()
    old = {name: rows.data.clone() for name, rows in cache.rows.items()}
    mask = masks((32, 32))["two blobs"]
    plan = sparse.plan(mask)
    changed = torch.where(mask, torch.randn_like(latents), latents)
    captured = cache.delta(2, plan.active.counts)
    first = sparse(changed, TIMESTEP, text, cache, plan, captured=captured)
    delta = captured.segments([0, 1])
    computed = {name: rows.data.clone() for name, rows in delta.rows.items()}
    assert set(computed) == set(old)
    active = [level.active for level in plan.levels]
    delta.exchange(cache, active)
    for name, rows in cache.rows.items():
        here = active[cache.shape.rows[name].level]
        assert torch.equal(rows.data[:, here], computed[name]), name
        untouched = torch.ones(rows.count, dtype=torch.bool)
        untouched[here] = False
        assert torch.equal(rows.data[:, untouched], old[name][:, untouched]), name
    again = sparse(changed, TIMESTEP, text, cache, plan)
    assert relative_rms(again, first) < tolerance
    delta.exchange(cache, active)
    assert torch.equal(cache.block.memory, before)
