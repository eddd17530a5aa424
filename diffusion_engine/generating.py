"""Making first versions: generated from a prompt, or opened from a picture. Generating records as it samples."""

from __future__ import annotations

import time

import torch
from PIL import Image
from torch import Tensor

from diffusion_engine.errors import EngineError
from diffusion_engine.pictures import picture_tensor, tensor_pixels
from diffusion_engine.preview import PreviewMap, clean_estimate
from diffusion_engine.progress import CancelToken, OnProgress, Progress
from diffusion_engine.recorder import map_shape, to_rows
from diffusion_engine.recording import Recording
from diffusion_engine.regional import PromptMap
from diffusion_engine.samplers import make_scheduler
from diffusion_engine.sparse_unet import AddedCondition
from diffusion_engine.step_cache import StepCache
from diffusion_engine.text_context import TextContext
from diffusion_engine.trajectory import Trajectory, guided, renoised, sample
from diffusion_engine.versions import Report, SamplingSettings, Version, VersionState
from diffusion_engine.workbench import Stopwatch, Workbench


def generate(
    bench: Workbench,
    version_id: str,
    prompt: str,
    negative_prompt: str,
    settings: SamplingSettings,
    seed: int,
    on_progress: OnProgress | None,
    cancel: CancelToken,
) -> Version:
    """A picture from a prompt, recorded step by step."""
    watch, model, branches = Stopwatch(), bench.model, settings.branches
    shape = bench.latent_shape(settings)
    weights = bench.weights()
    text = bench.texts.encoded(prompt, negative_prompt, branches, weights)
    added = model.added_condition(text, settings.size, branches)
    watch.lap("text")
    scheduler = make_scheduler(model.scheduler_config, settings.sampler)
    scheduler.set_timesteps(settings.steps, device=model.device)
    steps = len(scheduler.timesteps)
    recording = Recording(version_id, steps)
    bench.store.add(recording)
    begun = time.perf_counter()

    def predict(step: int, timestep: Tensor, model_input: Tensor) -> Tensor:
        cancel.raise_if_cancelled()
        inputs = torch.cat([model_input] * branches).to(model.dtype)
        out = dense_step(bench, recording, step, inputs, timestep, text, added)
        prediction = guided(out.float(), settings.guidance, branches)
        if on_progress is not None:
            estimate = clean_estimate(scheduler, timestep, model_input, prediction)
            left = (time.perf_counter() - begun) / (step + 1) * (steps - step - 1)
            preview = bench.preview(estimate, settings.size)
            on_progress(Progress("denoise", step + 1, steps, preview, (0, 0, *settings.size), left))
        return prediction

    start = bench.noise([seed], shape) * scheduler.init_noise_sigma
    try:
        path = sample(scheduler, start, predict, start=0, seeds=[seed])
        watch.lap("denoise")
        cancel.raise_if_cancelled()
        trajectory = Trajectory((start, *path))
        planes = record_decode(bench, recording, trajectory.final)
        pixels = tensor_pixels(planes, settings.size)[0]
        watch.lap("decode")
    except BaseException:
        bench.store.drop(recording)
        raise
    bench.preview_map = PreviewMap.fit(trajectory.final, planes)
    prompts = PromptMap.uniform(text, model.level_shapes(shape), model.device)
    state = VersionState(trajectory, prompts, pixels, condition=text)
    for cache, key in zip(recording.slots, bench.keys(weights, settings, state), strict=True):
        if cache is not None:
            cache.key = key
    seconds = watch.stop()
    return Version(
        id=version_id,
        parent_id=None,
        image=Image.fromarray(pixels),
        prompt=prompt,
        negative_prompt=negative_prompt,
        seed=seed,
        settings=settings,
        model_name=model.name,
        report=dense_report(bench, seconds, seconds["total"], steps, len(model.level_shapes(shape))),
        state=state,
    )


def open_picture(
    bench: Workbench,
    version_id: str,
    image: Image.Image,
    prompt: str,
    negative_prompt: str,
    settings: SamplingSettings,
    seed: int,
) -> Version:
    """A version of an existing picture: its latents with one fixed noise field. Nothing is recorded yet."""
    watch, model = Stopwatch(), bench.model
    shape = bench.latent_shape(settings)
    text = bench.texts.encoded(prompt, negative_prompt, settings.branches, bench.weights())
    planes = picture_tensor(image, settings.padded, model.device)
    latents = model.encode_picture(planes)
    watch.lap("encode")
    scheduler = make_scheduler(model.scheduler_config, settings.sampler)
    scheduler.set_timesteps(settings.steps, device=model.device)
    trajectory = renoised(scheduler, latents, bench.noise([seed], shape))
    bench.preview_map = PreviewMap.fit(latents, planes)
    pixels = tensor_pixels(planes, settings.size)[0]
    prompts = PromptMap.uniform(text, model.level_shapes(shape), model.device)
    bench.store.add(Recording(version_id, trajectory.steps))
    seconds = watch.stop()
    return Version(
        id=version_id,
        parent_id=None,
        image=Image.fromarray(pixels),
        prompt=prompt,
        negative_prompt=negative_prompt,
        seed=seed,
        settings=settings,
        model_name=model.name,
        report=dense_report(bench, seconds, seconds["total"], 0, len(model.level_shapes(shape))),
        state=VersionState(trajectory, prompts, pixels, condition=text),
    )


def record_slot(bench: Workbench, version: Version, recording: Recording, slot: int) -> bool:
    """Records one missing step of a version, or its decode (the last slot), by a dense pass with its prompt map.

    Returns False where the budget has no room for it.
    """
    trajectory = version.state.trajectory
    key = bench.key(bench.weights(), version.settings, version.state, slot)
    if slot == trajectory.steps:
        record_decode(bench, recording, trajectory.final)
    else:
        inputs, timestep, prompts, added = _dense_inputs(bench, version, slot)
        dense_step(bench, recording, slot, inputs, timestep, prompts, added)
    cache = recording.slots[slot]
    if cache is not None:
        cache.key = key
    return cache is not None


def drift(bench: Workbench, version: Version) -> float:
    """Relative RMS between a version's recorded predictions and fresh dense ones, mean over the recorded steps."""
    recording = bench.store.find(version.id)
    if recording is None:
        raise EngineError("This version has no recording to compare.")
    recording.checkout(version.id)
    errors: list[float] = []
    for slot, cache in enumerate(recording.steps):
        if cache is None:
            continue
        inputs, timestep, prompts, added = _dense_inputs(bench, version, slot, cache.branches)
        fresh = to_rows(bench.model.unet.dense(inputs, timestep, prompts, added)).float()
        error = cache.rows["noise"].data.to(fresh.device).float() - fresh
        errors.append((error.square().mean() / fresh.square().mean()).sqrt().item())
    return sum(errors) / max(len(errors), 1)


def _dense_inputs(
    bench: Workbench, version: Version, slot: int, branches: int | None = None
) -> tuple[Tensor, Tensor, PromptMap, AddedCondition | None]:
    """What the UNet gets at one step of a version: inputs, timestep, prompts and added condition.

    branches: as a recording has them; by default one where both guidance branches agree
    """
    model, state = bench.model, version.state
    prompts, guided_branches = state.prompts_at(slot), version.settings.branches
    if branches is None:
        branches = 1 if prompts.branches_agree else guided_branches
    if branches < guided_branches:
        prompts = prompts.first_branch()
    scheduler = make_scheduler(model.scheduler_config, version.sampler)
    scheduler.set_timesteps(version.steps, device=model.device)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(slot)
    timestep = scheduler.timesteps[slot]
    entering = scheduler.scale_model_input(state.trajectory.latents[slot], timestep)
    inputs = torch.cat([entering] * branches).to(model.dtype)
    return inputs, timestep, prompts, model.added_condition(state.condition, version.settings.size, branches)


def dense_step(
    bench: Workbench,
    recording: Recording,
    slot: int,
    inputs: Tensor,
    timestep: Tensor,
    text: TextContext | PromptMap,
    added: AddedCondition | None,
) -> Tensor:
    """One dense UNet call on [B, 4, h, w], recorded into the slot where the budget has room."""
    unet = bench.model.unet
    call = time.perf_counter()
    caches = bench.new_step_caches(recording, map_shape(inputs), inputs.shape[0])
    if caches is None:
        out = unet.dense(inputs, timestep, text, added)
    else:
        out = unet.record_into(caches, inputs, timestep, text, added)
        recording.slots[slot] = recorded(caches[0], call)
    bench.timer.observe("dense", time.perf_counter() - call, bench.full_macs(map_shape(inputs), inputs.shape[0]))
    if not bench.calibrated and recording.slots[slot] is not None:
        bench.calibrate(inputs, timestep, text, recording.slots[slot], added)
    return out


def record_decode(bench: Workbench, recording: Recording, latents: Tensor) -> Tensor:
    """Decodes latents [1, 4, h, w] to [1, 3, H, W], recorded where the budget has room."""
    unscaled, slot = bench.model.unscaled(latents), len(recording.slots) - 1
    call = time.perf_counter()
    cache = bench.new_decode_cache(recording, map_shape(latents))
    if cache is None:
        planes = bench.model.decoder.dense(unscaled)
    else:
        planes = bench.model.decoder.record_into(cache, unscaled)
        recording.slots[slot] = recorded(cache, call)
    bench.decode_timer.observe("dense", time.perf_counter() - call, bench.decode_macs(map_shape(latents)))
    return planes


def recorded(cache: StepCache, begun: float) -> StepCache:
    """A cache that a recorder has filled since `begun`."""
    cache.seconds = time.perf_counter() - begun
    cache.block.seal()
    return cache


def dense_report(bench: Workbench, seconds: dict[str, float], dense: float, steps: int, levels: int) -> Report:
    """Report of a request that computed everything."""
    return Report(
        mode="dense",
        active_fraction=1.0,
        active_fraction_per_level=[1.0] * levels,
        seconds=seconds,
        dense_seconds_estimate=dense,
        cache_bytes=bench.store.nbytes,
        dense_steps=steps,
        sparse_steps=0,
    )
