"""The editor's page: which action of the session each control calls, and how the session is shown."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import gradio as gr
from gradio.components import Component

from diffusion_engine import Cancelled, EngineError, UserError
from editor.images import open_picture
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions
from editor.web.api import add_api
from editor.web.layout import Parts, Settings, lay_out
from editor.web.mask_canvas import decode_mask
from editor.web.routes import UPLOAD_LIMIT_BYTES
from editor.web.status import describe_progress
from editor.web.view import Shown, preview_value, show, show_running

log = logging.getLogger(__name__)
# the mask is read at the click: what is seen is what is used
READ_MASK = """(...inputs) => { inputs[1] = document.querySelector("#canvas canvas").readMask(); return inputs; }"""
REMEMBERED_SESSION = """() => [sessionStorage.getItem("deltabrush")]"""


def build_page(sessions: Sessions) -> gr.Blocks:
    with gr.Blocks(title="Deltabrush", analytics_enabled=False, fill_width=True, delete_cache=(600, 3600)) as page:
        parts = lay_out(sessions.engine)
        _wire(page, parts, sessions)
        add_api(sessions)
    return page


def _wire(page: gr.Blocks, parts: Parts, sessions: Sessions) -> None:
    def action(change: Callable[..., str | None]) -> Callable[..., Shown]:
        """A handler that changes the session and shows it; `change` returns what to say, if anything."""

        def handle(key: str, *inputs: Any) -> Shown:
            try:
                session = sessions.get(key)
            except UserError as error:
                return {parts.message: str(error)}
            try:
                message = change(session, *inputs) or ""
            except Exception as error:
                message = explain(error)
            return show(parts, session) | {parts.message: message}

        return handle

    def pick(change: Callable[[EditSession, str], None]) -> Callable[..., Shown]:
        def handle(key: str, event: gr.EventData) -> Shown:
            return action(lambda session: change(session, str(getattr(event, "id", None))))(key)

        return handle

    def enter(key: str | None) -> Shown:
        session = sessions.enter(key)
        return show(parts, session) | {parts.key: session.key}

    def go(key: str, mask: Any, *values: Any) -> Iterator[Shown]:
        try:
            yield from run(parts, sessions.get(key), mask, settings_of(values))
        except UserError as error:
            yield {parts.message: str(error)}

    def stop(key: str) -> None:
        with suppress(UserError):  # a session that is gone runs nothing
            sessions.get(key).cancel()

    def open_upload(session: EditSession, *values: Any) -> str:
        settings = settings_of(values)
        data, session.upload = session.upload, None
        if data is None:
            raise UserError(f"The file did not arrive: open a picture of up to {UPLOAD_LIMIT_BYTES // 2**20} MB.")
        picture = open_picture(data)
        session.open(picture, steps=settings["steps"], guidance=settings["guidance"], seed=settings["seed"])
        return " ".join(picture.notices)

    everything = [part for part in vars(parts).values() if isinstance(part, Component)]
    controls = parts.settings.components()
    for source, event, handler, inputs, script in [
        (page, "load", enter, [], REMEMBERED_SESSION),
        (parts.go, "click", go, [parts.canvas, *controls], READ_MASK),
        (parts.canvas, "opened", action(open_upload), controls, None),
        (parts.candidates, "pick", pick(EditSession.choose), [], None),
        (parts.history, "pick", pick(EditSession.visit), [], None),
        (parts.keep, "click", action(EditSession.keep), [], None),
        (parts.drop, "click", action(EditSession.undo), [], None),
        (parts.undo, "click", action(EditSession.undo), [], None),
        (parts.new, "click", action(EditSession.leave), [], None),
    ]:
        listen(source, event, handler, [parts.key, *inputs], everything, js=script)
    listen(parts.stop, "click", stop, [parts.key], None, queue=False)


def listen(source: Any, event: str, handler: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> None:
    """Jobs take turns in `editor.jobs`, not in Gradio's queue: who waits there could not be told so, nor stop."""
    options |= {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    getattr(source, event)(handler, inputs, outputs, **options)


def settings_of(values: tuple[Any, ...]) -> dict[str, Any]:
    """The controls' values by name; an empty seed draws one, so that it can be shown and used again."""
    settings = dict(zip(Settings.names(), values, strict=True))
    if settings["seed"] is None:
        settings["seed"] = secrets.randbelow(2**31)
    return settings


def run(parts: Parts, session: EditSession, mask: Any, settings: dict[str, Any]) -> Iterator[Shown]:
    """Generates or edits, whichever the button said, and shows it while it goes on. mask: as the canvas sent it."""
    prompt, common = settings["prompt"], ("prompt", "negative_prompt", "seed", "guidance")
    chosen = {name: settings[name] for name in common}
    hints = ""
    try:
        hints = " ".join(session.hints(prompt))
        if session.current is None:
            size = (settings["width"] or 0, settings["height"] or 0)
            job = session.generate(GenerateRequest(size=size, steps=settings["steps"], **chosen))
        else:
            size = session.current.image.size
            job = session.edit(
                decode_mask(mask, size),
                EditRequest(
                    variations=settings["variations"],
                    strength=settings["strength"],
                    mode=settings["mode"],
                    grow_px=settings["grow_px"] or 0,
                    feather_px=settings["feather_px"] or 0,
                    **chosen,
                ),
            )
        yield show_running(parts, session, size) | {
            parts.go: gr.update(visible=False),
            parts.stop: gr.update(visible=True),
            parts.message: hints,
            parts.status: "starting",
        }
        preview = None
        for progress in job:
            preview = preview_value(progress) or preview
            share = progress.step / max(progress.steps, 1)
            yield show_running(parts, session, size, preview=preview, progress=share) | {
                parts.status: describe_progress(progress)
            }
    except Exception as error:
        hints = explain(error)
    yield show(parts, session) | {parts.message: hints}


def explain(error: Exception) -> str:
    """One sentence for the person; what is our own mistake goes to the log under a number."""
    if isinstance(error, Cancelled):
        return "Stopped. The picture is as it was."
    if isinstance(error, UserError | EngineError):
        return str(error)
    number = secrets.token_hex(3)
    log.error("error %s", number, exc_info=error)
    return f"Something went wrong inside the editor (number {number} in its log); the picture is as it was."
