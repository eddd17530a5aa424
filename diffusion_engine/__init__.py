"""The editable diffusion engine: sampling that recomputes only the rows a mask can reach.

>>> engine = EditableDiffusionEngine.from_pretrained("starter")
>>> base = engine.generate("desert dunes under a starry night sky", size=(512, 512), steps=20, seed=7)
>>> edits = engine.edit(base.id, mask, "a cactus", variations=4)
>>> tip = engine.commit(edits[0])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diffusion_engine.errors import Cancelled, EngineError, UnsupportedModel, UserError
from diffusion_engine.progress import CancelToken, Progress

if TYPE_CHECKING:
    from diffusion_engine.active_rows import PlanPolicy
    from diffusion_engine.engine import Defaults, EditableDiffusionEngine
    from diffusion_engine.plan import Plan
    from diffusion_engine.requests import StepPolicy
    from diffusion_engine.saved_versions import SavedVersion
    from diffusion_engine.sparse_unet import SparseUNet
    from diffusion_engine.sparse_vae import SparseDecoder, SparseEncoder
    from diffusion_engine.step_cache import RowsDelta, StepCache
    from diffusion_engine.text_context import TextContext
    from diffusion_engine.versions import Candidate, Check, Report, Version
    from diffusion_engine.workload import Prediction

# Loaded when first used: errors and tokens must not cost the seconds that PyTorch and diffusers take.
_HOMES = {
    "Defaults": "diffusion_engine.engine",
    "EditableDiffusionEngine": "diffusion_engine.engine",
    "Prediction": "diffusion_engine.workload",
    "Plan": "diffusion_engine.plan",
    "PlanPolicy": "diffusion_engine.active_rows",
    "StepPolicy": "diffusion_engine.requests",
    "SavedVersion": "diffusion_engine.saved_versions",
    "SparseUNet": "diffusion_engine.sparse_unet",
    "SparseDecoder": "diffusion_engine.sparse_vae",
    "SparseEncoder": "diffusion_engine.sparse_vae",
    "RowsDelta": "diffusion_engine.step_cache",
    "StepCache": "diffusion_engine.step_cache",
    "TextContext": "diffusion_engine.text_context",
    "Candidate": "diffusion_engine.versions",
    "Check": "diffusion_engine.versions",
    "Report": "diffusion_engine.versions",
    "Version": "diffusion_engine.versions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "CancelToken",
    "Cancelled",
    "Candidate",
    "Check",
    "Defaults",
    "EditableDiffusionEngine",
    "EngineError",
    "Plan",
    "PlanPolicy",
    "Prediction",
    "Progress",
    "Report",
    "RowsDelta",
    "SavedVersion",
    "SparseDecoder",
    "SparseEncoder",
    "SparseUNet",
    "StepCache",
    "StepPolicy",
    "TextContext",
    "UnsupportedModel",
    "UserError",
    "Version",
]
