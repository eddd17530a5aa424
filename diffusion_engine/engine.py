"""The public engine: versions in, candidates out, recordings kept warm in between."""

from __future__ import annotations

import functools
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from diffusion_engine.active_rows import PlanPolicy
from diffusion_engine.background import BackgroundRecorder
from diffusion_engine.cache_settings import CacheSettings, MemoryReport
from diffusion_engine.compute_thread import ComputeThread, Result
from diffusion_engine.editing import Edit, keep_candidate, untouched
from diffusion_engine.errors import UserError
from diffusion_engine.generating import drift, generate, open_picture
from diffusion_engine.layers import NormPolicy
from diffusion_engine.limits import checked_size
from diffusion_engine.model import Model, load_model
from diffusion_engine.pictures import padded
from diffusion_engine.progress import CancelToken, OnProgress
from diffusion_engine.recording import Recording
from diffusion_engine.recording_store import RecordingStore
from diffusion_engine.requests import (
    EditRequest,
    Mode,
    PromptScope,
    StepPolicy,
    check_description,
    checked_settings,
)
from diffusion_engine.restoring import restored, sample_of, saved
from diffusion_engine.samplers import SAMPLERS, make_scheduler
from diffusion_engine.saved_versions import Array, SavedVersion
from diffusion_engine.second_try import with_second_try
from diffusion_engine.verifying import verified
from diffusion_engine.versions import Candidate, Check, SamplingSettings, Version
from diffusion_engine.workbench import Workbench
from diffusion_engine.workload import Prediction, Workload

REFRESH_AT = 0.3  # about twenty edits of 5 % at 512 px; a picture opened or generated has 0


@dataclass(frozen=True)
class Defaults:
    """What a request gets where it leaves a field open."""

    steps: int
    guidance: float
    size: tuple[int, int]
    sampler: str


class EditableDiffusionEngine:
    """Generates, opens and edits pictures with one model on one device. Methods may be called from any thread.

    A request that cannot be met raises UserError before any work starts; EngineError means that one request failed;
    Cancelled that it was cancelled. In each case all versions and caches are as they were.
    """

    def __init__(self, bench: Workbench, compute: ComputeThread) -> None:
        self._bench, self._compute = bench, compute
        self._lock = threading.RLock()
        self._versions: dict[str, Version] = {}
        self._background = BackgroundRecorder(bench, compute)
        self.refresh_at: float | None = REFRESH_AT  # estimated drift of a commit; None: never by itself
        weakref.finalize(self, compute.close)
        model = bench.model
        is_starter = model.name == "starter"
        side = 512 if is_starter else model.pipeline.unet.config["sample_size"] * model.latent_scale
        self.defaults = Defaults(20, 4.0 if is_starter else 7.0, (side, side), model.sampler)

    @classmethod
    def from_pretrained(
        cls,
        model: str = "starter",
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache_memory_bytes: int | None = None,
        cache_host_bytes: int | None = None,
        cache_disk_bytes: int | None = None,
        cache_dir: Path | None = None,
        cache_dtype: str = "auto",
        offline: bool = False,
    ) -> EditableDiffusionEngine:
        """Loads a model: "starter", a diffusers folder, one .safetensors file or a Hugging Face id.

        device: auto, cpu, cuda ...; dtype: auto, fp32, fp16, bf16; cache_*: as in `CacheSettings`.
        offline: never look for files on the network.
        """
        caches = CacheSettings(cache_memory_bytes, cache_host_bytes, cache_disk_bytes, cache_dir, cache_dtype)
        compute = ComputeThread()
        loaded = compute.run(lambda: load_model(model, device=device, dtype=dtype, offline=offline))
        return cls.of_model(loaded, caches, compute)

    @classmethod
    def of_model(
        cls,
        model: Model,
        caches: CacheSettings | None = None,
        compute: ComputeThread | None = None,
    ) -> EditableDiffusionEngine:
        """An engine over a model that is loaded already; compute: the thread that it was loaded on, if on one."""
        caches, compute = caches or CacheSettings(), compute or ComputeThread()
        store = RecordingStore(caches.tiers(model.device))
        return cls(compute.run(lambda: Workbench(model, store, caches.formats(model.dtype))), compute)

    @property
    def plan_policy(self) -> PlanPolicy:
        """How far the plans of further edits reach beyond their masks."""
        return self._bench.model.unet.policy

    @plan_policy.setter
    def plan_policy(self, policy: PlanPolicy) -> None:
        self._bench.model.unet.policy = policy

    @property
    def norm_policy(self) -> NormPolicy:
        """Group statistics of further edits: "delta" (updated by the active rows) or "cached" (the recorded ones)."""
        return self._bench.model.unet.norm

    @norm_policy.setter
    def norm_policy(self, policy: NormPolicy) -> None:
        self._bench.model.unet.norm = policy

    def drift(self, version_id: str) -> float:
        """How far a version's cached predictions are from a fresh dense pass: relative RMS, the mean over its steps.

        0 for a version that was recorded densely; each edit by rows adds what rows outside its plan did not notice.
        """
        version = self.version(version_id)
        return self._computed(lambda: drift(self._bench, version))

    @property
    def model_name(self) -> str:
        return self._bench.model.name

    @property
    def samplers(self) -> tuple[str, ...]:
        return tuple(SAMPLERS)

    @property
    def cache_bytes(self) -> int:
        """Bytes held by all recordings and by candidates, in all tiers."""
        return self._bench.store.nbytes

    @property
    def cache_faults(self) -> int:
        """Cache entries found broken, or made with something else than what is loaded now; they are recorded again."""
        return self._bench.store.faults

    def checkout(self, version_id: str) -> None:
        """Brings the caches to a version ahead of an edit of it, as going back and forth does: only rows that differ
        between the two move."""
        self.version(version_id)

        def move() -> None:
            recording = self._bench.store.find(version_id)
            if recording is not None:
                recording.checkout(version_id)

        self._computed(move)

    def memory(self) -> MemoryReport:
        """What caches hold: by version and tier, with each tier's budget."""
        store = self._bench.store
        by_version = self._computed(store.by_version)
        budgets = {name: tier.budget for name, tier in store.tiers.items()}
        return MemoryReport(
            by_version=by_version,
            held={name: budget.held for name, budget in budgets.items()},
            budget={name: budget.capacity for name, budget in budgets.items()},
        )

    def drop_cache(self, version_id: str) -> None:
        """Lets go of the activations of a version, not of the version: an edit of it records them again."""
        self.version(version_id)
        self._computed(lambda: self._bench.store.drop_version(version_id))

    def refresh(self, version_id: str) -> None:
        """Records a version anew by dense passes, in the background: what rows outside earlier edits did not notice is
        in its caches then. Until that is complete it keeps the caches it has; other versions keep theirs anyway."""
        version = self.version(version_id)
        recording = self._computed(lambda: self._bench.store.begin_again(version.id, version.state.trajectory.steps))
        self._background.record(version, recording)

    @property
    def dense_passes(self) -> int:
        """Dense UNet calls made so far, by whatever asked for them."""
        return self._bench.model.unet.dense_calls

    def generate(
        self,
        prompt: str,
        *,
        negative_prompt: str = "",
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        seed: int = 0,
        guidance: float | None = None,
        sampler: str | None = None,
        on_progress: OnProgress | None = None,
        cancel: CancelToken | None = None,
    ) -> Version:
        """A new picture of size (width, height), recorded as it is sampled."""
        settings = self._settings(size or self.defaults.size, steps, sampler, guidance)
        check_description(prompt, negative_prompt, seed)
        token = cancel or CancelToken()
        version = self._computed(
            lambda: generate(self._bench, _new_id(), prompt, negative_prompt, settings, seed, on_progress, token), token
        )
        return self._keep(version)

    def open(
        self,
        image: Image.Image,
        *,
        prompt: str = "",
        negative_prompt: str = "",
        seed: int = 0,
        steps: int | None = None,
        guidance: float | None = None,
        sampler: str | None = None,
    ) -> Version:
        """A version of an existing picture (any PIL mode, taken as RGB). Returns at once; recording goes on behind it.

        prompt describes the picture as it is, where that is known; it guides nothing but the recording.
        """
        settings = self._settings(image.size, steps, sampler, guidance)
        check_description(prompt, negative_prompt, seed)
        rgb = image.convert("RGB")
        version = self._computed(
            lambda: open_picture(self._bench, _new_id(), rgb, prompt, negative_prompt, settings, seed)
        )
        self._keep(version)
        self._record_missing(version)
        return version

    def edit(
        self,
        version_id: str,
        mask: Any,
        prompt: str,
        *,
        negative_prompt: str | None = None,
        seed: int = 0,
        variations: int = 1,
        strength: float = 1.0,
        guidance: float | None = None,
        mode: Mode = "auto",
        blend_mask: Any = None,
        soft: bool = False,
        prompt_scope: PromptScope = "region",
        policy: StepPolicy | None = None,
        on_progress: OnProgress | None = None,
        cancel: CancelToken | None = None,
    ) -> list[Candidate]:
        """Variations of a version with new content inside the mask; variation k has the seed `seed + k`.

        mask, blend_mask: PIL "L" or array [H, W] at picture size. mask above 0 = may change; blend_mask is the alpha
        with which the new picture shows, by default the mask, and never wider than it.
        strength: 1 ignores what is there, less keeps that much of it. soft: a grey mask value says how strongly a row
        changes (it joins at a later step). prompt_scope "everywhere": the ordinary inpainting meaning of a prompt.
        mode: "dense" is the referee (same noise and blending, diffusers' own forward); "auto" picks what costs less.
        An empty mask returns the base's picture untouched, and computes nothing.
        """
        base = self.version(version_id)
        edit = EditRequest(
            mask=mask,
            prompt=prompt,
            negative_prompt=negative_prompt,
            seed=seed,
            variations=variations,
            strength=strength,
            guidance=guidance,
            mode=mode,
            blend_mask=blend_mask,
            soft=soft,
            prompt_scope=prompt_scope,
            policy=policy or StepPolicy(),
        ).resolve(base)
        if not edit.mask.any():
            return untouched(self._bench, base, edit)
        token = cancel or CancelToken()

        def work() -> list[Candidate]:
            recording = self._bench.store.find(base.id) or self._new_recording(base)
            return Edit(self._bench, base, recording, edit, on_progress, token).run()

        return self._computed(work, token)

    def verify(
        self, candidate: Candidate, *, on_progress: OnProgress | None = None, cancel: CancelToken | None = None
    ) -> Check:
        """Computes an edit once more densely, with the same noise and blending: how near by rows came to it, and a
        candidate that may be committed in its place."""
        base, token = self.version(candidate.parent_id), cancel or CancelToken()
        return self._computed(lambda: verified(self._bench, base, candidate, on_progress, token), token)

    def commit(self, candidate: Candidate) -> Version:
        """Makes a candidate a version. The rows its edit computed become its cache: no dense pass is needed."""
        parent = self.version(candidate.parent_id)
        version = Version(
            id=_new_id(),
            parent_id=parent.id,
            image=candidate.image,
            prompt=candidate.prompt,
            negative_prompt=candidate.negative_prompt,
            seed=candidate.seed,
            settings=parent.settings,
            model_name=parent.model_name,
            report=candidate.report,
            state=candidate.state,
        )

        def keep_rows() -> None:
            recording = candidate.deltas.recording
            if recording is not None and self._bench.store.find(parent.id) is recording:
                keep_candidate(self._bench, recording, candidate, version)

        self._computed(keep_rows)
        self._keep(version)
        self._record_missing(version)
        return version

    def version(self, version_id: str) -> Version:
        """The version with this id; UserError if there is none."""
        with self._lock:
            if version_id not in self._versions:
                raise UserError(f"There is no version {version_id!r}; it may have been dropped.")
            return self._versions[version_id]

    def forget(self, version_id: str) -> None:
        """Drops a version, all versions made from it, and their caches."""
        self.version(version_id)

        def drop() -> None:
            with self._lock:
                doomed = [version_id]
                for version in self._versions.values():  # parents come before children
                    if version.parent_id in doomed:
                        doomed.append(version.id)
                for one in doomed:
                    self._versions.pop(one, None)
            self._bench.store.forget(doomed)

        self._computed(drop)

    def export_version(self, version_id: str) -> SavedVersion:
        """A version as plain data, told against its parent; with the pixels it can be restored, here or elsewhere."""
        version = self.version(version_id)
        return saved(version, self.version(version.parent_id) if version.parent_id else None, self._weights)

    def is_ours(self, version: SavedVersion) -> bool:
        """Whether it was made with the weights that are loaded, in whatever precision."""
        return version.has_weights_of(self._weights)

    def restore_version(self, lineage: Sequence[SavedVersion], image: Image.Image) -> Version:
        """The last of `lineage` as it was, under a new id and without a parent; it is recorded again in the background.

        lineage: it and what it was made from, a version that is told whole first; image: its pixels.
        Raises UserError where they do not fit one another or were made with another model.
        """
        facts = lineage[-1].facts
        if not all(self.is_ours(one) for one in lineage):
            raise UserError(f"This version was made with another model: load {facts['model']}, or open its picture.")
        settings = self._settings(tuple(facts["size"]), facts["steps"], facts["sampler"], facts["guidance"])
        version = self._computed(lambda: restored(self._bench, _new_id(), lineage, image.convert("RGB"), settings))
        self._keep(version)
        self._record_missing(version)
        return version

    def wait_until_recorded(self, version_id: str, timeout: float | None = None) -> bool:
        """Waits for the background recording of a version; False if it is not complete (in time, or in the budget)."""
        self.version(version_id)
        return self._background.wait(version_id, timeout)

    def predict(
        self, version_id: str, mask: Any, *, variations: int = 1, strength: float = 1.0, mode: Mode = "auto"
    ) -> Prediction:
        """What an edit with these options is expected to cost, from its active rows and from calls measured so far.

        It answers at once, on the caller's thread, whatever is being computed. Options: as in `edit`.
        """
        base = self.version(version_id)
        request = EditRequest(mask=mask, prompt="", variations=variations, strength=strength, mode=mode)
        return Workload(self._bench, base, request.resolve(base)).prediction()

    def unknown_words(self, prompt: str) -> list[str]:
        """Words of a prompt that the starter model was never taught; of other models nothing is known."""
        return self._bench.model.words.unknown(prompt)

    def truncated_words(self, prompt: str) -> str:
        """The end of a prompt that the text encoder will not see; "" if it sees all."""
        return self._bench.model.words.truncated(prompt)

    def token_count(self, prompt: str) -> tuple[int, int]:
        """How many tokens a prompt takes, without start and end marks, and how many the text encoder sees."""
        words = self._bench.model.words
        return words.count(prompt), words.limit

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Words that the starter model was taught, sorted, for suggestions; () for other models."""
        return self._bench.model.words.vocabulary

    def close(self) -> None:
        """Stops computing; the engine can still be asked for versions."""
        self._compute.close()
        self._background.close()

    @functools.cached_property
    def _weights(self) -> Array:
        return sample_of(self._bench.model)

    def _computed(self, work: Callable[[], Result], cancel: CancelToken | None = None) -> Result:
        """What `work` returns, on the thread that computes. An interrupted caller cancels what it waits for."""

        try:
            return self._compute.run(lambda: with_second_try(work, self._bench.store.evict_half))
        except KeyboardInterrupt:
            if cancel is not None:
                cancel.cancel()
            raise

    def _settings(
        self, size: tuple[int, int], steps: int | None, sampler: str | None, guidance: float | None
    ) -> SamplingSettings:
        model, chosen = self._bench.model, sampler or self.defaults.sampler
        make_scheduler(model.scheduler_config, chosen)  # refuses an unknown name
        exact = checked_size(size)
        return checked_settings(
            exact,
            padded(exact, model.pixel_multiple),
            self.defaults.steps if steps is None else steps,
            chosen,
            self.defaults.guidance if guidance is None else guidance,
        )

    def _keep(self, version: Version) -> Version:
        with self._lock:
            self._versions[version.id] = version
        return version

    def _new_recording(self, version: Version) -> Recording:
        recording = Recording(version.id, version.state.trajectory.steps)
        self._bench.store.add(recording)
        return recording

    def _is_stale(self, version: Version, recording: Recording) -> bool:
        """Whether a version should be refreshed, and can be without anything else having to go."""
        if self.refresh_at is None:
            return False
        needed = sum(slot.nbytes for slot in recording.slots if slot is not None)
        return recording.drift_estimate(version.id) > self.refresh_at and self._bench.store.free >= needed

    def _record_missing(self, version: Version) -> None:
        """Has what is missing of a version recorded in the background, or all of it where it has drifted too far."""

        def look() -> tuple[Recording, bool, bool]:
            recording = self._bench.store.find(version.id) or self._new_recording(version)
            recording.checkout(version.id)
            complete = all(slot is not None for slot in recording.slots)
            return recording, complete, self._is_stale(version, recording)

        recording, complete, stale = self._computed(look)
        if stale:
            self.refresh(version.id)
        elif not complete:
            self._background.record(version, recording)


def _new_id() -> str:
    return uuid.uuid4().hex[:12]
