"""Checking an edit by rows: the same edit by the regional dense pass. The first is the draft, this is the check."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from diffusion_engine.editing import Edit
from diffusion_engine.pictures import psnr
from diffusion_engine.progress import CancelToken, OnProgress
from diffusion_engine.requests import StepPolicy
from diffusion_engine.versions import Candidate, Check, Version
from diffusion_engine.workbench import Workbench


def verified(
    bench: Workbench, base: Version, candidate: Candidate, on_progress: OnProgress | None, cancel: CancelToken
) -> Check:
    """The check of one candidate of `base`; nothing of it is recorded."""
    inside = candidate.edit.mask > 0
    if not inside.any():
        return Check(candidate, math.inf)
    again = replace(candidate.edit, seeds=[candidate.seed], mode="dense", policy=StepPolicy())
    [dense] = Edit(bench, base, bench.store.find(base.id), again, on_progress, cancel).run()
    return Check(dense, psnr(np.asarray(candidate.image), np.asarray(dense.image), inside))
