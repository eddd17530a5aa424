"""How a session is shown: the value of every component."""

from __future__ import annotations

import base64
import io
from typing import Any

import gradio as gr
from PIL import Image

from diffusion_engine import Progress
from editor.session import EditSession
from editor.web.layout import Parts
from editor.web.routes import export_url, picture_url, thumbnail_url
from editor.web.status import describe_edit, describe_version

PREVIEW_PX = 768

Shown = dict[Any, Any]


def show(parts: Parts, session: EditSession) -> Shown:
    """The whole page as the session stands."""
    proposal = session.proposal
    candidates = [
        {"id": name, "url": thumbnail_url(session, name), "label": f"Variation {index}"}
        for index, name in enumerate(proposal.picture_ids if proposal else [], start=1)
    ]
    history = [
        {"id": version.id, "url": thumbnail_url(session, version.id), "label": version.prompt or "Opened picture"}
        for version in session.versions.values()
    ]
    if proposal:
        status = describe_edit(proposal.candidate.report, session.changed_outside(), proposal.candidate.seed)
    else:
        status = describe_version(session.current) if session.current else ""
    return {
        parts.canvas: canvas_value(session),
        parts.go: gr.update(value="Paint it" if session.current else "Generate", visible=True, interactive=True),
        parts.stop: gr.update(visible=False),
        parts.candidates: {"items": candidates, "selected": session.shown_id},
        parts.keep: gr.update(visible=bool(proposal)),
        parts.drop: gr.update(visible=bool(proposal)),
        parts.undo: gr.update(interactive=session.before is not None),
        parts.new: gr.update(interactive=session.current is not None),
        parts.history: {"items": history, "selected": session.current.id if session.current else None},
        parts.status: status,
    }


def show_running(parts: Parts, session: EditSession, size: tuple[int, int], **running: Any) -> Shown:
    """The picture of `size` while a job changes it; `running` are values of canvas/start.js."""
    return {parts.canvas: canvas_value(session) | {"running": True, "width": size[0], "height": size[1], **running}}


def canvas_value(session: EditSession) -> dict[str, Any]:
    """What canvas/start.js shows; see there."""
    shown, before = session.shown_id, session.before
    width, height = session.picture(shown).size if shown else (None, None)
    return {
        "session": session.key,
        "picture": picture_url(session, shown) if shown else None,
        "before": picture_url(session, before.id) if before else None,
        "export": export_url(session, shown) if shown else None,
        "width": width,
        "height": height,
        "mask_id": session.mask_id,
        "running": False,
        "resting": session.proposal is not None,
        "preview": None,
        "progress": 0.0,
    }


def preview_value(progress: Progress) -> dict[str, Any] | None:
    """What is changing, as canvas/start.js shows it: a small JPEG as a data address, for a PNG at full size would take
    longer than a step of the engine, and where it lies."""
    if progress.preview is None or progress.place is None:
        return None
    small = progress.preview.copy()
    small.thumbnail((PREVIEW_PX, PREVIEW_PX), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
    return {"url": address, **dict(zip(("left", "top", "width", "height"), progress.place, strict=True))}
