"""The editable diffusion engine: sampling that recomputes only the rows a mask can reach.

>>> engine = EditableDiffusionEngine.from_pretrained("starter")
>>> base = engine.generate("desert dunes under a starry night sky", size=(512, 512), steps=20, seed=7)
>>> edits = engine.edit(base.id, mask, "a cactus", variations=4)
>>> tip = engine.commit(edits[0])
"""

from diffusion_engine.engine import Defaults, EditableDiffusionEngine, Prediction
from diffusion_engine.errors import Cancelled, EngineError, UnsupportedModel, UserError
from diffusion_engine.plan import Plan, PlanPolicy
from diffusion_engine.progress import CancelToken, Progress
from diffusion_engine.requests import StepPolicy
from diffusion_engine.sparse_unet import SparseUNet
from diffusion_engine.sparse_vae import SparseDecoder, SparseEncoder
from diffusion_engine.step_cache import RowsDelta, StepCache
from diffusion_engine.text_context import TextContext
from diffusion_engine.versions import Candidate, Report, Version

__all__ = [
    "CancelToken",
    "Cancelled",
    "Candidate",
    "Defaults",
    "EditableDiffusionEngine",
    "EngineError",
    "Plan",
    "PlanPolicy",
    "Prediction",
    "Progress",
    "Report",
    "RowsDelta",
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
