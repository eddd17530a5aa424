"""Samplers by name: any diffusers scheduler that predicts noise, v or the clean sample."""

from __future__ import annotations

import inspect
from typing import Any

import diffusers

from diffusion_engine.errors import UserError

# name -> (diffusers class, what differs from the model's own scheduler settings)
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "dpm++ 2m": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++"}),
    "dpm++ 2m karras": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "use_karras_sigmas": True}),
    "ddim": ("DDIMScheduler", {"clip_sample": False}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler a": ("EulerAncestralDiscreteScheduler", {}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "lcm": ("LCMScheduler", {}),
}
# Their noise comes from a process of their own that one seed cannot be given to per picture, or they predict velocity
# fields of another kind of model.
# Or they count their calls from the first step, and so cannot begin an edit at a later one (PNDM, LMS).
_UNUSABLE = ("PNDM", "LMS", "SDE", "FlowMatch", "VQ", "UnCLIP", "RePaint", "Cogvideo", "CogVideo", "EDM", "SCM")


def model_sampler(class_name: str) -> str:
    """The name here of a model's own scheduler; a plain good one where it is not in the table."""
    return next((name for name, (known, _) in SAMPLERS.items() if known == class_name), "ddim")


def scheduler_class(sampler: str) -> Any:
    """The diffusers class of a sampler: a name of SAMPLERS or of such a class.

    Raises UserError for a name that is neither, or a class that cannot be used here.
    """
    name, _ = SAMPLERS.get(sampler, (sampler, {}))
    found = getattr(diffusers, name, None) if name.endswith("Scheduler") else None
    if found is None or any(mark in name for mark in _UNUSABLE):
        raise UserError(f"There is no sampler {sampler!r}; choose one of: {', '.join(SAMPLERS)}.")
    if not hasattr(found, "add_noise"):
        raise UserError(f"The sampler {sampler!r} cannot start from a picture; choose one of: {', '.join(SAMPLERS)}.")
    return found


def make_scheduler(config: dict[str, Any], sampler: str) -> Any:
    """A new scheduler, of its own state, on the model's noise schedule.

    config: the model's scheduler config; sampler: as in `scheduler_class`, which says what is refused.
    """
    kind, (_, extra) = scheduler_class(sampler), SAMPLERS.get(sampler, (sampler, {}))
    try:
        return kind.from_config({**config, **extra})
    except ImportError as missing:
        package = getattr(missing, "name", None) or "another package"
        raise UserError(f"The sampler {sampler!r} needs {package}, which is missing; choose another.") from missing


def takes_generator(scheduler: Any) -> bool:
    """Whether the scheduler draws noise while stepping."""
    return "generator" in inspect.signature(scheduler.step).parameters
