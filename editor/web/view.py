"""How a session is shown: the value of every component."""

from __future__ import annotations

import base64
from typing import Any

import gradio as gr
import numpy as np

from editor.session import EditSession
from editor.web.addresses import export_url, mask_url, picture_url, thumbnail_url
from editor.web.layout import Parts
from editor.web.status import describe_entry, describe_take
from editor.web.words import word
from editor.workspace import Tiles

Shown = dict[Any, Any]


def show(parts: Parts, session: EditSession) -> Shown:
    """The whole page as the session stands."""
    proposal, current, history = session.proposal, session.current, session.history
    places = history.places()
    takes = [
        {
            "id": take.id,
            "url": thumbnail_url(session, take.id),
            "name": take.request.prompt,
            "dense": take.report.mode == "dense",
        }
        for take in (proposal.takes if proposal else ())
    ]
    entries = [
        {
            "id": entry.id,
            "parent": entry.parent_id,
            "name": entry.name,
            "url": thumbnail_url(session, entry.id),
            "picture": picture_url(session, entry.id),
            **vars(places[entry.id]),
        }
        for entry in history
    ]
    status = describe_entry(current) if current else []
    if proposal:
        status = describe_take(proposal.shown, session.changed_outside())
    return {
        parts.topbar: topbar_value(session),
        parts.canvas: canvas_value(session),
        parts.go: gr.update(value=word("go.paint" if current else "go.generate"), interactive=True),
        parts.takes: {"items": takes, "selected": session.shown_id},
        parts.history: {"items": entries, "selected": current.id if current else None},
        parts.status: status,
    }


def show_running(parts: Parts, session: EditSession) -> Shown:
    """The picture while a job changes it; the canvas follows that by itself."""
    width, height = session.job_size or (None, None)
    return {parts.canvas: canvas_value(session) | {"running": True, "width": width, "height": height}}


def topbar_value(session: EditSession) -> dict[str, Any]:
    """What topbar.js shows; see topbar.py."""
    current, shown = session.current, session.shown_id
    return {
        "session": session.key,
        "id": current.id if current else None,
        "name": current.name if current else "",
        "export": export_url(session, shown) if shown else None,
        "can": {
            "new": current is not None,
            "save": len(session.history) > 0,
            "undo": session.before is not None,
            "redo": session.proposal is None and session.history.next is not None,
        },
    }


def canvas_value(session: EditSession) -> dict[str, Any]:
    """What canvas/start.js shows; see there."""
    shown, before, draft = session.shown_id, session.before, session.draft
    width, height = session.current.image.size if session.current else (None, None)
    return {
        "session": session.key,
        "document": session.document,
        "used_masks": session.used_masks,
        "picture": picture_url(session, shown) if shown else None,
        "before": picture_url(session, before.id) if before else None,
        "width": width,
        "height": height,
        "mask": {"left": draft.left, "top": draft.top, "url": mask_url(session)} if draft else None,
        "running": False,
        "resting": session.proposal is not None,
        "tiles": tiles_value(session.proposal.tiles) if session.proposal else None,
    }


def tiles_value(tiles: Tiles) -> dict[str, Any]:
    """What is recomputed, ready for JSON: `rows` of `columns` tiles as bits, row by row, from `left`, `top` on."""
    prediction = tiles.prediction
    rows, columns = prediction.tiles.shape
    return {
        "left": tiles.box.left,
        "top": tiles.box.top,
        "side": prediction.tile_px,
        "rows": rows,
        "columns": columns,
        "bits": base64.b64encode(np.packbits(prediction.tiles).tobytes()).decode(),
        "fraction": prediction.active_fraction,
        "seconds": prediction.seconds,
        "dense_seconds": prediction.dense_seconds,
        "mode": prediction.mode,
        "measured": prediction.measured,
    }
