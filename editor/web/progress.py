"""A running job as the page follows it: server-sent events, past Gradio's queue.

Why not through the queue: on a machine without a GPU the page, the server and the engine share a few cores, and an
event of the queue costs about as much as a step of a small edit.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Generator
from typing import Any

from PIL import Image

from diffusion_engine import Progress
from editor.jobs import Job
from editor.web.status import describe_progress

log = logging.getLogger(__name__)
EVERY_SECONDS = 0.1
PREVIEW_PX = 768


def progress_events(job: Job[None] | None) -> Generator[str]:
    """One message for each step that is shown, and at the end one that is empty: the page then stops listening."""
    try:
        for progress in job.steps(EVERY_SECONDS) if job else ():
            yield _message(
                {
                    "share": progress.step / max(progress.steps, 1),
                    "status": describe_progress(progress),
                    "preview": _preview(progress),
                }
            )
    except Exception as error:
        log.debug("followed a job that failed: %s", error)  # whoever started it says so
    yield _message(None)


def _message(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _preview(progress: Progress) -> dict[str, Any] | None:
    """What is changing: a small JPEG as a data address, for a PNG at full size would take longer than a step of the
    engine, and where it lies."""
    if progress.preview is None or progress.place is None:
        return None
    small = progress.preview.copy()
    small.thumbnail((PREVIEW_PX, PREVIEW_PX), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
    return {"url": address, **dict(zip(("left", "top", "width", "height"), progress.place, strict=True))}
