"""What a person asks of the engine: one frozen object holds all that can change pixels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from diffusion_engine import UserError

MAX_SPREAD_PX = 256


@dataclass(frozen=True)
class GenerateRequest:
    """All that decides the pixels of a new picture. `None` means the model's own default."""

    prompt: str
    negative_prompt: str = ""
    size: tuple[int, int] = (512, 512)
    steps: int | None = None
    seed: int = 0
    guidance: float | None = None
    sampler: str | None = None


@dataclass(frozen=True)
class EditRequest:
    """All that decides the pixels of an edit, beside the picture and the painted mask."""

    prompt: str
    negative_prompt: str | None = None
    seed: int = 0
    variations: int = 1
    strength: float = 1.0
    guidance: float | None = None
    mode: Literal["auto", "sparse", "dense"] = "auto"
    grow_px: int = 0
    feather_px: int = 0

    def __post_init__(self) -> None:
        if not -MAX_SPREAD_PX <= self.grow_px <= MAX_SPREAD_PX:
            raise UserError(f"Growing the mask takes from -{MAX_SPREAD_PX} to {MAX_SPREAD_PX} pixels.")
        if not 0 <= self.feather_px <= MAX_SPREAD_PX:
            raise UserError(f"Feathering the edge takes from 0 to {MAX_SPREAD_PX} pixels.")

    def for_engine(self) -> dict[str, Any]:
        """Keywords of the engine's `edit`; what is done to the mask before it gets there is left out."""
        return {name: value for name, value in asdict(self).items() if name not in ("grow_px", "feather_px")}
