"""Versions, candidates and reports: what the engine hands out, and what it keeps of each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image

from diffusion_engine.fingerprint import WeightKeys
from diffusion_engine.pictures import Pixels
from diffusion_engine.recording import Recording, SlotDelta
from diffusion_engine.recording_store import RecordingStore
from diffusion_engine.regional import PromptMap
from diffusion_engine.text_context import TextContext
from diffusion_engine.trajectory import Trajectory

if TYPE_CHECKING:
    from diffusion_engine.requests import ResolvedEdit


@dataclass(frozen=True)
class Report:
    """What one request cost.

    active_fraction: share of a dense pass's multiply-adds that the plan asks for; per level it is the share of rows
    seconds: stage -> seconds, and "total"
    dense_seconds_estimate: of the same request by dense passes, from calls measured so far
    cache_bytes: held for all recordings when the request ended, and by the request's candidates
    """

    mode: Literal["sparse", "dense", "mixed"]
    active_fraction: float
    active_fraction_per_level: list[float]
    seconds: dict[str, float]
    dense_seconds_estimate: float
    cache_bytes: int
    dense_steps: int
    sparse_steps: int

    @property
    def speedup(self) -> float:
        return self.dense_seconds_estimate / max(self.seconds["total"], 1e-9)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "speedup": self.speedup}


@dataclass(frozen=True)
class SamplingSettings:
    """Everything but text and pixels that shapes a version's activations; a child shares its parent's."""

    size: tuple[int, int]  # width, height of the picture
    padded: tuple[int, int]  # of the area the model works on
    steps: int
    sampler: str
    guidance: float

    @property
    def branches(self) -> int:
        return 2 if self.guidance > 1 else 1


@dataclass(frozen=True)
class Version:
    """A committed picture. `image` has exactly the size asked for, or that of the picture opened."""

    id: str
    parent_id: str | None
    image: Image.Image
    prompt: str
    negative_prompt: str
    seed: int
    settings: SamplingSettings
    model_name: str
    report: Report
    state: VersionState = field(repr=False, compare=False)

    @property
    def steps(self) -> int:
        return self.settings.steps

    @property
    def guidance(self) -> float:
        return self.settings.guidance

    @property
    def sampler(self) -> str:
        return self.settings.sampler


@dataclass(frozen=True)
class VersionState:
    """What a version can be recorded again from: latents at every step, and which prompt each row was made with.

    condition: the text whose pooled embedding conditions the whole picture (SDXL); children inherit it
    start, before: an edit of strength below 1 began at step `start`; at earlier steps the version is still `before`
    """

    trajectory: Trajectory
    prompts: PromptMap
    pixels: Pixels
    condition: TextContext
    start: int = 0
    before: VersionState | None = None

    def prompts_at(self, step: int) -> PromptMap:
        """The prompt map at one step."""
        return self.prompts if self.before is None or step >= self.start else self.before.prompts_at(step)


@dataclass(frozen=True)
class Candidate:
    """One variation of an edit, not yet committed. Outside the blend mask its pixels are the parent's, bit for bit."""

    image: Image.Image
    seed: int
    parent_id: str
    prompt: str
    negative_prompt: str
    report: Report
    edit: ResolvedEdit = field(repr=False, compare=False)
    state: VersionState = field(repr=False, compare=False)
    deltas: CandidateDeltas = field(repr=False, compare=False)


@dataclass(frozen=True)
class Check:
    """An edit beside the same one computed densely. psnr_db: inside the mask, infinite where they are equal."""

    dense: Candidate
    psnr_db: float


@dataclass
class CandidateDeltas:
    """What an edit computed, shared by its candidates; a candidate's own part is cut out when it is committed.

    recording: the one whose rows the deltas stand on
    slots: per step and for the decoder; rows hold all segments, `whole` caches are per picture
    """

    recording: Recording | None
    weights: WeightKeys  # that the edit was computed with
    slots: list[list[SlotDelta]]  # [slot][picture]; rows are shared between pictures
    pictures: int
    index: int

    def own(self, branches: int, store: RecordingStore) -> list[SlotDelta]:
        """This candidate's deltas, one per slot, in memory of their own where there is room for it."""
        assert self.recording is not None, "the deltas stand on a recording"
        picked = [branch * self.pictures + self.index for branch in range(branches)]
        own: list[SlotDelta] = []
        for number, slot in enumerate(self.slots):
            delta = slot[self.index]
            if delta.rows is not None:
                segments = picked if number < len(self.slots) - 1 else [self.index]
                own.append(store.own(delta, segments, self.recording))
            else:
                own.append(replace(delta))
        return own
