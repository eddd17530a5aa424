"""An edit: sampling inside the mask by rows, the base's own latents outside, and only the pixels shown are decoded."""

from __future__ import annotations

import time
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from diffusion_engine.generating import recorded
from diffusion_engine.pictures import composite, tensor_pixels
from diffusion_engine.plan import Plan
from diffusion_engine.preview import BlendedPreview, clean_estimate
from diffusion_engine.progress import CancelToken, OnProgress, Progress
from diffusion_engine.recording import Recording, SlotDelta
from diffusion_engine.regional import PromptMap
from diffusion_engine.requests import ResolvedEdit
from diffusion_engine.samplers import make_scheduler
from diffusion_engine.staging import Staging
from diffusion_engine.step_cache import RowsDelta, StepCache
from diffusion_engine.trajectory import Trajectory, guided, sample
from diffusion_engine.versions import Candidate, CandidateDeltas, Report, Version, VersionState
from diffusion_engine.workbench import Stopwatch, Workbench
from diffusion_engine.workload import Workload


class Edit:
    """One edit of one version, computed when `run` is called.

    Segments of its UNet batch are ordered by guidance branch, then by variation. Steps of the base that are recorded
    run by rows; the others run densely and record themselves, so an edit never waits for a recording, and a step never
    costs more than a dense one. The base and its recording are as before when the edit ends, however it ends.
    """

    def __init__(
        self,
        bench: Workbench,
        base: Version,
        recording: Recording | None,
        edit: ResolvedEdit,
        on_progress: OnProgress | None,
        cancel: CancelToken,
    ) -> None:
        self._bench, self._base, self._edit, self._recording = bench, base, edit, recording
        self._on_progress, self._cancel = on_progress, cancel
        self._watch = Stopwatch()
        model, settings = bench.model, base.settings
        self._branches, self._count = settings.branches, len(edit.seeds)
        self._shape = bench.latent_shape(settings)
        self._weights = bench.weights()
        self._text = bench.texts.encoded(edit.prompt, edit.negative_prompt, self._branches, self._weights)
        # SDXL's pooled text is a condition of the whole picture, so an edit keeps the base's; its own prompt acts
        # through cross-attention, row by row.
        self._added = model.added_condition(base.state.condition, settings.size, self._branches * self._count)
        self._watch.lap("text")
        self._preview = (
            BlendedPreview(bench.preview_map, model.latent_scale, base.state.pixels, edit.blend)
            if on_progress is not None and edit.blend.any()
            else None
        )
        self._work = Workload(bench, base, edit)
        self._soft = torch.from_numpy(self._work.cells).to(model.device)
        self._plan = model.unet.plan_of(self._work.unet)
        self._decode_plan = model.decoder.plan_of(self._work.decoder)
        prompts = base.state.prompts
        self._prompts = (
            PromptMap.uniform(self._text, model.level_shapes(self._shape), model.device)
            if edit.everywhere
            else prompts.painted(self._text, self._work.cells > 0)
        )
        self._row_prompts = self._prompts.rows(self._plan)
        self._watch.lap("plan")
        self._scheduler = make_scheduler(model.scheduler_config, settings.sampler)
        self._scheduler.set_timesteps(settings.steps, device=model.device)
        self._steps, self._first_step = self._work.steps, self._work.start
        self._staging = Staging(model.device)
        self._slots: list[list[SlotDelta]] = []
        self._keys = bench.keys(self._weights, settings, base.state)
        self._sparse_steps = self._dense_steps = 0

    def run(self) -> list[Candidate]:
        """The candidates, one per seed. Raises Cancelled within one step of the token."""
        try:
            return self._candidates()
        except BaseException:
            for delta in (delta for slot in self._slots for delta in slot):
                delta.clear()  # a traceback may keep this object
            raise

    def _candidates(self) -> list[Candidate]:
        edit, watch = self._edit, self._watch
        if self._recording is not None:
            self._recording.checkout(self._base.id)
        watch.lap("checkout")
        start = self._first_step
        self._slots = [self._unchanged() for _ in range(start)]
        entering = self._compose(start, self._start(start))
        self._begun = time.perf_counter()
        path = sample(self._scheduler, entering, self._predict, start=start, seeds=edit.seeds, compose=self._compose)
        watch.lap("denoise")
        self._cancel.raise_if_cancelled()
        pictures = self._decode(path[-1])
        self._report_progress("decode", 1, 1)
        watch.lap("decode")
        base_path = [latents.expand_as(entering) for latents in self._base.state.trajectory.latents[:start]]
        whole = Trajectory((*base_path, entering, *path))
        finished = [composite(self._base.state.pixels, new, edit.blend) for new in pictures]
        watch.lap("blend")
        report = self._report()
        candidates: list[Candidate] = []
        for index, pixels in enumerate(finished):
            candidates.append(
                Candidate(
                    image=Image.fromarray(pixels),
                    seed=edit.seeds[index],
                    parent_id=self._base.id,
                    prompt=edit.prompt,
                    negative_prompt=edit.negative_prompt,
                    report=report,
                    edit=edit,
                    state=VersionState(
                        trajectory=whole.item(index),
                        prompts=self._prompts,
                        pixels=pixels,
                        condition=self._base.state.condition,
                        start=start,
                        before=self._base.state if start else None,
                    ),
                    deltas=CandidateDeltas(self._recording, self._weights, self._slots, self._count, index),
                )
            )
        return candidates

    def _start(self, start: int) -> Tensor:
        """Noise that enters the first step, [V, 4, h, w]: pure, or over the base picture where strength is below 1."""
        noise = self._bench.noise(self._edit.seeds, self._shape)
        if start == 0:
            return noise * self._scheduler.init_noise_sigma
        clean = self._base.state.trajectory.final.expand_as(noise)
        return self._scheduler.add_noise(clean, noise, self._scheduler.timesteps[start][None])

    def _compose(self, step: int, latents: Tensor) -> Tensor:
        """Outside the mask the latents that enter a step are the base's.

        A soft mask says when a row joins (Levin and Fried 2023): of value v at the first step of its last v-th part.
        """
        if self._edit.soft:
            joined = self._soft * self._steps >= self._steps - step
            inside = joined & (self._soft > 0)
        else:
            inside = self._soft > 0
        return torch.where(inside, latents, self._base.state.trajectory.latents[step])

    def _predict(self, step: int, timestep: Tensor, model_input: Tensor) -> Tensor:
        self._cancel.raise_if_cancelled()
        inputs = torch.cat([model_input] * self._branches).to(self._bench.model.dtype)
        cache = self._recorded(step)
        call = time.perf_counter()
        if cache is not None and self._work.by_rows(step):
            out = self._sparse_step(inputs, timestep, cache)
            self._bench.timer.observe("sparse", time.perf_counter() - call, self._work.sparse_macs)
            self._sparse_steps += 1
        else:
            out = self._dense_step(step, inputs, timestep)
            self._bench.timer.observe("dense", time.perf_counter() - call, self._work.dense_macs)
            self._dense_steps += 1
        prediction = guided(out.float(), self._edit.guidance, self._branches)
        if self._on_progress is not None:
            estimate = clean_estimate(self._scheduler, timestep, model_input[:1], prediction[:1])
            self._report_progress("denoise", step + 1, self._steps, estimate)
        return prediction

    def _recorded(self, slot: int) -> StepCache | None:
        """The base's cache of a step, or of its decode, as near as there is room for it."""
        if self._recording is None:
            return None
        cache = self._recording.take(slot, self._keys[slot])
        if cache is None:
            return None
        self._bench.store.bring_near(cache)
        return self._staging.near(cache, next(iter(self._recording.slots[slot + 1 :]), None))

    def _sparse_step(self, inputs: Tensor, timestep: Tensor, cache: StepCache) -> Tensor:
        unet, captured = self._bench.model.unet, self._capture(cache, inputs.shape[0], self._plan)
        out = unet(inputs, timestep, self._row_prompts, cache, self._plan, self._added, captured=captured)
        self._keep_rows(captured, self._plan, cache)
        return out

    def _capture(self, cache: StepCache, segments: int, plan: Plan) -> RowsDelta | None:
        """Room for the rows of one pass; None where there is none: then the new version is recorded again later."""
        assert self._recording is not None, "there is a cache"
        return self._bench.store.new_delta(cache, segments, plan.active.counts, self._recording)

    def _keep_rows(self, captured: RowsDelta | None, plan: Plan, cache: StepCache) -> None:
        if captured is None:
            self._slots.append(self._unrecorded())
            return
        captured.block.seal()
        delta = SlotDelta.of_rows(captured, plan, cache)
        self._bench.store.watch(delta)
        self._slots.append([delta] * self._count)

    def _dense_step(self, step: int, inputs: Tensor, timestep: Tensor) -> Tensor:
        """diffusers' forward with every row's own prompt; its activations are the new version's cache where there is
        room. The referee (mode "dense") keeps none, so that it costs what a dense pass costs."""
        bench, unet = self._bench, self._bench.model.unet
        recording = self._recording
        caches = None
        if recording is not None and self._edit.mode != "dense":
            caches = bench.new_step_caches(recording, self._shape, self._branches, self._count)
        if caches is None:
            self._slots.append(self._unrecorded())
            return unet.dense(inputs, timestep, self._prompts, self._added)
        begun = time.perf_counter()
        out = unet.record_into(caches, inputs, timestep, self._prompts, self._added)
        deltas = [SlotDelta(whole=recorded(cache, begun)) for cache in caches]
        for delta in deltas:
            bench.store.watch(delta)
        self._slots.append(deltas)
        return out

    def _decode(self, latents: Tensor) -> list[Any]:
        """New pixels of each variation, uint8 [H, W, 3]; right only where they are shown."""
        bench, decoder = self._bench, self._bench.model.decoder
        unscaled = bench.model.unscaled(latents)
        call = time.perf_counter()
        cache = self._recorded(self._steps)
        if cache is not None and self._work.decodes_by_rows:
            captured = self._capture(cache, self._count, self._decode_plan)
            planes = decoder(unscaled, cache, self._decode_plan, captured=captured)
            self._keep_rows(captured, self._decode_plan, cache)
            bench.decode_timer.observe("sparse", time.perf_counter() - call, self._work.decode_macs)
        else:  # recording it as well would take half as long again, and can wait until the candidate is chosen
            planes = torch.cat([decoder.dense(one[None]) for one in unscaled])
            self._slots.append(self._unrecorded())
        return tensor_pixels(planes, self._base.settings.size)

    def _unchanged(self) -> list[SlotDelta]:
        """A step before the edit's first: the new version's activations there are its parent's."""
        return [SlotDelta(unchanged=True)] * self._count

    def _unrecorded(self) -> list[SlotDelta]:
        return [SlotDelta() for _ in range(self._count)]

    def _report_progress(self, stage: str, step: int, steps: int, estimate: Tensor | None = None) -> None:
        if self._on_progress is None:
            return
        preview, left = None, None
        if estimate is not None:
            preview = None if self._preview is None else self._preview.picture(estimate)
            done = len(self._slots) - self._first_step
            left = (time.perf_counter() - self._begun) / max(done, 1) * (steps - step)
        place = None if preview is None or self._preview is None else self._preview.place
        self._on_progress(Progress(stage, step, steps, preview, place, left))

    def _report(self) -> Report:
        work = self._work
        mode = "mixed" if self._sparse_steps and self._dense_steps else "sparse" if self._sparse_steps else "dense"
        fraction, levels = work.active_fraction, work.unet.fractions
        if mode == "dense":
            fraction, levels = 1.0, [1.0] * len(levels)
        seconds = self._watch.stop()
        others = sum(spent for stage, spent in seconds.items() if stage not in ("denoise", "decode", "total"))
        return Report(
            mode=mode,
            active_fraction=fraction,
            active_fraction_per_level=levels,
            seconds=seconds,
            dense_seconds_estimate=seconds["total"] if mode == "dense" else work.dense_seconds() + others,
            cache_bytes=self._bench.store.nbytes,
            dense_steps=self._dense_steps,
            sparse_steps=self._sparse_steps,
        )


def keep_candidate(bench: Workbench, recording: Recording, candidate: Candidate, version: Version) -> None:
    """Adds a candidate that has become `version` to the recording of its parent: the rows its edit computed are its
    cache. What there is no room for is recorded again later."""
    branches, steps = version.settings.branches, version.state.trajectory.steps
    recording.checkout(candidate.parent_id)
    own = candidate.deltas.own(branches, bench.store)
    for slot, (delta, key) in enumerate(
        zip(own, bench.keys(candidate.deltas.weights, version.settings, version.state), strict=True)
    ):
        if delta.rows is not None and slot < steps:
            bench.store.widen(recording, slot, branches)
        delta.key = key
        if delta.whole is not None:
            delta.whole.key = key
    recording.commit(version.id, candidate.parent_id, own)


def untouched(bench: Workbench, base: Version, edit: ResolvedEdit) -> list[Candidate]:
    """The candidates of an edit with an empty mask: the base itself, whose recording serves it as it is."""
    report = Report("sparse", 0.0, [0.0] * bench.model.unet.level_count, {"total": 0.0}, 0.0, bench.store.nbytes, 0, 0)
    unchanged = [[SlotDelta(unchanged=True)] for _ in range(base.state.trajectory.steps + 1)]
    deltas = CandidateDeltas(bench.store.find(base.id), bench.weights(), unchanged, 1, 0)
    shared = base.id, base.prompt, base.negative_prompt, report, edit, base.state, deltas
    return [Candidate(base.image, seed, *shared) for seed in edit.seeds]
