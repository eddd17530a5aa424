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


def make_scheduler(config: dict[str, Any], sampler: str) -> Any:
    """A new scheduler, of its own state, on the model's noise schedule.

    config: the model's scheduler config; sampler: a name of SAMPLERS or of a diffusers scheduler class.
    Raises UserError for a name that is neither, or a class that cannot be used here.
    """
    class_name, extra = SAMPLERS.get(sampler, (sampler, {}))
    scheduler_class = getattr(diffusers, class_name, None) if class_name.endswith("Scheduler") else None
    if scheduler_class is None or any(mark in class_name for mark in _UNUSABLE):
        raise UserError(f"There is no sampler {sampler!r}; choose one of: {', '.join(SAMPLERS)}.")
    if not hasattr(scheduler_class, "add_noise"):
        raise UserError(f"The sampler {sampler!r} cannot start from a picture; choose one of: {', '.join(SAMPLERS)}.")
    try:
        return scheduler_class.from_config({**config, **extra})
    except ImportError as missing:
        package = getattr(missing, "name", None) or "another package"
        raise UserError(f"The sampler {sampler!r} needs {package}, which is missing; choose another.") from missing


def takes_generator(scheduler: Any) -> bool:
    """Whether the scheduler draws noise while stepping."""
    return "generator" in inspect.signature(scheduler.step).parameters
