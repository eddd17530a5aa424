"""Small parts: noise, regional attention, samplers' starting points, previews, costs, pictures, the compute thread."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diffusion_engine import EngineError, PlanPolicy, SparseUNet, TextContext, UserError
from diffusion_engine.active_rows import ActiveRows, pyramid
from diffusion_engine.compute_thread import ComputeThread
from diffusion_engine.cost_model import PassTimer, dense_macs, network_costs, sparse_macs
from diffusion_engine.noise import tile_noise
from diffusion_engine.pictures import composite, latent_mask, picture_tensor, tensor_pixels
from diffusion_engine.plan import Plan
from diffusion_engine.preview import BlendedPreview, PreviewMap
from diffusion_engine.recorder import to_rows
from diffusion_engine.regional import PromptMap
from diffusion_engine.trajectory import guided, start_step
from tests.engine.small_models import masks, relative_rms, small_unet, small_vae


def test_noise_is_keyed_by_place() -> None:
    """A larger canvas begins with the smaller one's noise, also where its edge cut a tile; seeds and tiles differ."""
    small, large = tile_noise(5, (13, 9)), tile_noise(5, (64, 72))
    assert torch.equal(small, large[..., :13, :9])
    assert not torch.equal(large[..., :8, :8], large[..., 8:16, :8])
    assert not torch.equal(tile_noise(6, (13, 9)), small)
    assert abs(large.mean()) < 0.02 and abs(large.std() - 1) < 0.02


def test_regional_dense_pass_gives_each_row_its_own_prompt() -> None:
    """The referee against diffusers' forward with one prompt: rows of a network whose rows meet only in cross-attention
    cannot be had, so the first cross-attention is compared, row by row."""
    sparse = SparseUNet(small_unet("sd1"))
    texts = [TextContext.of(torch.randn(2, tokens, 32)) for tokens in (7, 7)]
    latents = torch.randn(2, 4, 32, 32)
    mask = masks((32, 32))["two blobs"]
    plan = sparse.plan(mask)
    prompts = PromptMap.uniform(texts[0], [level.shape for level in plan.levels], latents.device)
    prompts = prompts.painted(texts[1], mask)
    seen: list[Any] = []
    attention: Any = sparse.unet.down_blocks[0].attentions[0].transformer_blocks[0].attn2  # pyright: ignore
    handle = attention.register_forward_hook(lambda _m, args, kwargs, out: seen.append(out), with_kwargs=True)
    outputs: list[torch.Tensor] = []
    for text in (*texts, prompts):
        sparse.dense(latents, 9, text)
        outputs.append(seen.pop())
    handle.remove()
    inside = mask.flatten()
    assert relative_rms(outputs[2][:, inside], outputs[1][:, inside]) < 1e-5
    assert relative_rms(outputs[2][:, ~inside], outputs[0][:, ~inside]) < 1e-5
    assert relative_rms(outputs[0], outputs[1]) > 1e-2


def test_regional_pass_of_one_prompt_is_the_plain_one_and_processors_come_back() -> None:
    sparse = SparseUNet(small_unet("sd1"))
    before = dict(sparse.unet.attn_processors)
    text, latents = TextContext.of(torch.randn(1, 7, 32)), torch.randn(1, 4, 32, 32)
    plan = sparse.plan(masks((32, 32))["one row"])
    shapes = [level.shape for level in plan.levels]
    twice = PromptMap.uniform(text, shapes, latents.device).painted(text, masks((32, 32))["one row"])
    assert relative_rms(sparse.dense(latents, 9, twice), sparse.dense(latents, 9, text)) < 1e-5
    assert sparse.unet.attn_processors == before
    with pytest.raises(KeyError):
        sparse.dense(torch.randn(1, 4, 24, 24), 9, twice)  # a map of another size
    assert sparse.unet.attn_processors == before


def test_prompts_without_rows_are_dropped() -> None:
    sparse = SparseUNet(small_unet("sd1"))
    texts = [TextContext.of(torch.randn(1, 7, 32)) for _ in range(3)]
    dab, full = masks((32, 32))["one row"], masks((32, 32))["full"]
    plan = sparse.plan(dab)
    prompts = PromptMap.uniform(texts[0], [level.shape for level in plan.levels], torch.device("cpu"))
    once = prompts.painted(texts[1], dab)
    assert once.texts == (texts[0], texts[1])
    assert once.painted(texts[2], full).texts == (texts[2],)
    assert once.painted(texts[2], dab).texts == (texts[0], texts[2])
    assert once.rows(plan).texts == (texts[0], texts[1]), "rows around the mask keep their prompt"
    elsewhere = sparse.plan(dab.flip(0, 1))
    assert once.rows(elsewhere).texts == (texts[0],)


@pytest.mark.parametrize("mask_name", masks((32, 32)))
def test_plans_cover_the_mask_at_every_level(mask_name: str) -> None:
    mask = masks((32, 32))[mask_name]
    active = ActiveRows.of(pyramid(mask, 4), PlanPolicy((1, 0), (1, 2)))
    plan = Plan.of(active, torch.device("cpu"))
    for index, level in enumerate(plan.levels):
        here = torch.zeros(level.rows, dtype=torch.bool)
        here[level.active] = True
        ys, xs = mask.nonzero(as_tuple=True)
        assert here.view(level.shape)[ys >> index, xs >> index].all()
        assert torch.equal(level.active, level.active.unique())
    assert [level.active.numel() for level in plan.levels] == active.counts
    assert not any(ActiveRows.of(pyramid(torch.zeros_like(mask), 4), PlanPolicy()).counts)


def test_plan_refuses_a_map_that_does_not_halve_evenly() -> None:
    with pytest.raises(UserError, match="divisible by 8"):
        pyramid(torch.ones(30, 32, dtype=torch.bool), 4)


@pytest.mark.parametrize(
    ("steps", "strength", "order", "first"),
    [(20, 1.0, 1, 0), (20, 0.5, 1, 10), (20, 0.01, 1, 19), (1, 0.3, 1, 0), (3, 0.5, 1, 1), (39, 0.5, 2, 18)],
)
def test_strength_decides_the_first_step(steps: int, strength: float, order: int, first: int) -> None:
    assert start_step(steps, strength, order) == first


def test_guidance_is_linear_in_its_scale() -> None:
    unconditional, conditional = torch.randn(2, 3, 4, 8, 8)
    both = torch.cat([unconditional, conditional])
    assert torch.allclose(guided(both, 1, 2), conditional, atol=1e-6)
    assert torch.allclose(guided(both, 0, 2), unconditional, atol=1e-6)
    assert torch.allclose(guided(both, 3, 2), unconditional + 3 * (conditional - unconditional), atol=1e-5)
    assert torch.equal(guided(conditional, 3, 1), conditional)


def test_preview_map_recovers_a_linear_decoder() -> None:
    latents, matrix = torch.randn(1, 4, 16, 24), torch.randn(4, 3) / 8
    planes = torch.einsum("bchw,cd->bdhw", latents, matrix) + 0.1
    preview = PreviewMap.fit(latents, planes.repeat_interleave(8, 2).repeat_interleave(8, 3))
    assert (preview.colours(latents) - planes).abs().max() < 0.02
    parent = np.full((120, 190, 3), 9, np.uint8)
    blend = np.zeros((120, 190), np.uint8)
    blend[50:77, 31:90] = 255
    blend[60, 40] = 0
    blended = BlendedPreview(preview, 8, parent, blend)
    assert blended.place == (31, 50, 59, 27)
    shown = np.asarray(blended.picture(latents))
    colours = preview.colours(latents).add(1).mul(127.5).clamp(0, 255)[0, :, 8, 8]  # of pixels 64..71 of both sides
    assert shown.shape == (27, 59, 3) and (shown[10, 9] == 9).all() and (shown != 9).any()
    assert np.abs(shown[67 - 50 : 69 - 50, 67 - 31 : 69 - 31].mean((0, 1)) - colours.numpy()).max() < 20


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
def test_counted_products_match_what_runs(kind: str) -> None:
    """Multiply-adds counted from the modules, against those that hooks see in a dense pass over one map."""
    unet: Any = small_unet(kind)
    seen = 0

    def count(module: Any, args: Any, out: torch.Tensor) -> None:
        nonlocal seen
        rows = out[0, 0].numel() if isinstance(module, torch.nn.Conv2d) else out[0].numel() // out.shape[-1]
        seen += module.weight.numel() * rows

    skipped = ("time_emb", "add_embedding", "attn2.to_k", "attn2.to_v")
    for name, module in unet.named_modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and not any(part in name for part in skipped):
            module.register_forward_hook(count)
    sparse = SparseUNet(unet)
    latents, text = torch.randn(1, 4, 32, 32), torch.randn(1, 7, unet.config["cross_attention_dim"])
    added = {"text_embeds": torch.randn(1, 20), "time_ids": torch.rand(1, 6)} if kind == "sdxl" else None
    sparse.dense(latents, 9, text, added)
    costs = network_costs(unet, sparse.level_count)
    rows = [(32 >> level) ** 2 for level in range(sparse.level_count)]
    assert sum(cost.products * n for cost, n in zip(costs, rows, strict=True)) == seen
    plan = sparse.plan(torch.ones(32, 32, dtype=torch.bool))
    assert sparse_macs(costs, plan.active) == dense_macs(costs, [level.shape for level in plan.levels]) > seen


def test_counted_products_of_a_decoder() -> None:
    vae: Any = small_vae()
    costs = network_costs(vae.decoder, 4, starts_coarse=True)
    weights = sum(m.weight.numel() for m in vae.decoder.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear))
    assert sum(cost.products for cost in costs) == weights
    assert [cost.per_key > 0 for cost in costs] == [False, False, False, True]


def test_timer_learns_and_separates_overhead() -> None:
    timer = PassTimer()
    for _ in range(20):
        timer.observe("dense", 2.0, 10**9)
    assert timer.predict("dense", 5 * 10**8) == pytest.approx(1.0)
    assert timer.predict("sparse", 10**9) == pytest.approx(2.0), "until measured, the dense rate stands in"
    timer.calibrate_overhead(0.3, 10**8)
    assert timer.overhead == pytest.approx(0.1)
    for _ in range(30):
        timer.observe("sparse", 0.1 + 0.25, 10**8)
    assert timer.predict("sparse", 2 * 10**8) == pytest.approx(0.6)


def test_picture_round_trip_is_exact_and_padding_repeats_the_edge() -> None:
    array = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    planes = picture_tensor(Image.fromarray(array), (64, 40), torch.device("cpu"))
    assert planes.shape == (1, 3, 40, 64)
    assert torch.equal(planes[..., 38, 5], planes[..., 36, 5]) and torch.equal(planes[..., 7, 60], planes[..., 7, 52])
    assert np.array_equal(tensor_pixels(planes, (53, 37))[0], array)


def test_A9_latent_mask_takes_the_maximum_of_each_cell() -> None:
    mask = np.zeros((20, 30), np.uint8)
    mask[19, 29] = 51
    cells = latent_mask(mask, (64, 64), 8)
    assert cells.shape == (8, 8) and cells[2, 3] == pytest.approx(0.2) and np.count_nonzero(cells) == 1


def test_composite_keeps_the_parent_where_blend_is_zero_and_takes_the_new_where_it_is_full() -> None:
    parent, new = np.random.default_rng(1).integers(0, 256, (2, 16, 16, 3), np.uint8)
    blend = np.arange(256, dtype=np.uint8).reshape(16, 16)
    mixed = composite(parent, new, blend)
    assert np.array_equal(mixed[0, 0], parent[0, 0]) and np.array_equal(mixed[15, 15], new[15, 15])
    exact = parent + (new.astype(float) - parent) * blend[..., None] / 255
    assert np.abs(mixed - exact).max() <= 0.51


def test_requests_go_before_idle_work_and_all_run_on_one_thread() -> None:
    compute, order, begun = ComputeThread(), list[str](), threading.Event()
    threads: set[threading.Thread] = set()

    def note(what: str) -> None:
        order.append(what)
        threads.add(threading.current_thread())

    def idle() -> bool:
        note("idle")
        begun.set()
        return order.count("idle") < 3

    def first() -> None:
        note("request")
        compute.when_idle(idle)
        waiting = threading.Thread(target=compute.run, args=(lambda: note("request"),))
        waiting.start()
        while not compute._jobs:  # pyright: ignore[reportPrivateUsage]
            pass

    compute.run(first)
    begun.wait()
    compute.run(lambda: compute.run(lambda: note("nested")))
    while order.count("idle") < 3:
        compute.run(lambda: None)
    compute.close()
    assert order[:3] == ["request", "request", "idle"] and "nested" in order
    assert len(threads) == 1 and threading.current_thread() not in threads


def test_what_a_request_raises_reaches_who_asked_and_later_requests_still_run() -> None:
    compute, context = ComputeThread(), ContextVar("context", default="")
    context.set("the caller's")
    assert compute.run(context.get) == "the caller's"
    with pytest.raises(ZeroDivisionError):
        compute.run(lambda: 1 / 0)
    assert compute.run(lambda: 5) == 5
    compute.close()
    with pytest.raises(EngineError, match="closed"):
        compute.run(lambda: 5)


def test_noise_rows_are_the_recorded_output() -> None:
    sparse = SparseUNet(small_unet("sd1"))
    latents, text = torch.randn(1, 4, 32, 32), torch.randn(1, 7, 32)
    noise, cache = sparse.record(latents, 9, text)
    assert torch.equal(to_rows(noise), cache.rows["noise"].data)
