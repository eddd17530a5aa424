"""The editor's page: which action of the session each control calls, and how the session is shown."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import gradio as gr
from gradio.components import Component

from diffusion_engine import Cancelled, EngineError, UserError
from editor.examples import Example, load_examples
from editor.images import open_picture
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions
from editor.snapshot import Draft
from editor.web.api import add_api
from editor.web.failures import logged
from editor.web.layout import Controls, Parts, lay_out
from editor.web.mask_canvas import decode_mask
from editor.web.remembered import arrival_of, restored
from editor.web.routes import UPLOAD_LIMIT_BYTES
from editor.web.status import Sentences
from editor.web.view import Shown, show, show_running
from editor.web.words import say

# the mask is read at the click: what is seen is what is used
SUBMIT_MASK = "(...inputs) => { inputs[1] = document.querySelector('#canvas canvas').submitMask(); return inputs; }"
ARRIVE = "() => import('/scripts/session.js').then((it) => it.arrive())"
REMEMBER = f"""(...values) => import("/scripts/session.js").then((it) => {{
    it.remember({json.dumps(Controls.names())}, values);
}})"""
# what the edits of examples were made with; other settings of the person's could spoil them
AS_AN_EXAMPLE = {"strength": 1, "edge": "soft", "feather_px": 4, "grow_px": 0, "variations": 1, "mode": "auto"}
ROLL_DICE = "() => Math.floor(Math.random() * 2 ** 31)"


def build_page(sessions: Sessions) -> gr.Blocks:
    examples = load_examples()
    with gr.Blocks(title="Deltabrush", analytics_enabled=False, fill_width=True, delete_cache=(600, 3600)) as page:
        parts = lay_out(sessions.engine, examples)
        _wire(page, parts, sessions, {example.name: example for example in examples})
        add_api(sessions)
    return page


def _wire(page: gr.Blocks, parts: Parts, sessions: Sessions, examples: dict[str, Example]) -> None:
    def action(change: Callable[..., Sentences | None]) -> Callable[..., Shown]:
        """A handler that changes the session and shows it; `change` returns what to say, if anything."""

        def handle(key: str, *inputs: Any) -> Shown:
            try:
                session = sessions.get(key)
            except UserError as error:
                return {parts.message: [str(error)]}
            try:
                message = change(session, *inputs) or []
            except Exception as error:
                message = explain(error)
            return show(parts, session) | {parts.message: message}

        return handle

    def event(change: Callable[[EditSession, Any], None]) -> Callable[..., Shown]:
        """A handler of one of our components' events; `change` gets what the event carries."""

        def handle(key: str, event: gr.EventData) -> Shown:
            return action(lambda session: change(session, event))(key)

        return handle

    def enter(arrival: str) -> Iterator[Shown]:
        came = arrival_of(arrival)
        session = sessions.enter(came.key)
        settings, message = restored(parts.settings, came.remembered), list[Any]()
        if came.first_visit and not len(session.history) and examples:
            settings |= begin(session, next(iter(examples)))
        elif session.job and session.job.error:
            message, session.job = explain(session.job.error), None  # it ended while nobody was looking
        elif session.other_model:
            loaded = sessions.engine.model_name
            message, session.other_model = [say("message.model", made=session.other_model, loaded=loaded)], None
        yield show(parts, session) | {parts.key: session.key, parts.message: message} | settings
        if session.running:
            yield from follow(parts, session)

    def begin(session: EditSession, name: str) -> Shown:
        """Opens an example with its mask and its prompt ready."""
        example = examples[name]
        session.open(open_picture(example.picture), name=example.title)
        session.draft = Draft(0, 0, example.mask.read_bytes())
        session.offered_seed = example.edit_seed
        chosen = AS_AN_EXAMPLE | {"prompt": example.edit_prompt, "seed": example.edit_seed}
        return {getattr(parts.settings, name): value for name, value in chosen.items()}

    def example(key: str, event: gr.EventData) -> Shown:
        return filling(lambda session: (begin(session, str(getattr(event, "name", ""))), []))(key)

    def filling(change: Callable[..., tuple[Shown, Sentences]]) -> Callable[..., Shown]:
        """An action that also fills in controls; `change` returns their values and what to say."""

        def handle(key: str, *inputs: Any) -> Shown:
            filled: Shown = {}

            def change_and_fill(session: EditSession, *inputs: Any) -> Sentences:
                values, message = change(session, *inputs)
                filled.update(values)
                return message

            return action(change_and_fill)(key, *inputs) | filled

        return handle

    def go(key: str, mask: Any, *values: Any) -> Iterator[Shown]:
        try:
            session = sessions.get(key)
        except UserError as error:
            yield {parts.message: [str(error)]}
            return
        settings = dict(zip(Controls.names(), values, strict=True))
        offered, session.offered_seed = session.offered_seed, None
        if not settings["seed_locked"] and settings["seed"] != offered:
            settings["seed"] = secrets.randbelow(2**31)
        try:
            start(session, mask, settings)
        except Exception as error:
            yield show(parts, session) | {parts.message: explain(error)}
            return
        yield {parts.settings.seed: settings["seed"]}
        yield from follow(parts, session)

    def check(key: str) -> Iterator[Shown]:
        try:
            session = sessions.get(key)
            session.check()
        except UserError as error:
            yield {parts.message: [str(error)]}
            return
        yield from follow(parts, session)

    def stop(key: str) -> None:
        with suppress(UserError):  # a session that is gone runs nothing
            sessions.get(key).cancel()

    def open_upload(session: EditSession, steps: int, guidance: float, sampler: str) -> tuple[Shown, Sentences]:
        """Opens what was uploaded; a picture that says how it was made fills in prompt and seed."""
        arrived, session.upload = session.upload, None
        if arrived is None:
            raise UserError(f"The file did not arrive: open a picture of up to {UPLOAD_LIMIT_BYTES // 2**20} MB.")
        picture = open_picture(arrived[1])
        session.open(picture, name=PurePath(arrived[0]).stem, steps=steps, guidance=guidance, sampler=sampler)
        known = [name for name in ("prompt", "negative_prompt", "seed") if name in picture.made]
        return {getattr(parts.settings, name): picture.made[name] for name in known}, list(picture.notices)

    controls = parts.settings
    everything = [part for part in vars(parts).values() if isinstance(part, Component)] + controls.components()
    for source, name, handler, inputs, script in [
        (parts.go, "click", go, [parts.canvas, *controls.components()], SUBMIT_MASK),
        (parts.topbar, "opened", filling(open_upload), [controls.steps, controls.guidance, controls.sampler], None),
        (parts.topbar, "new", action(EditSession.leave), [], None),
        (parts.topbar, "undo", action(EditSession.undo), [], None),
        (parts.topbar, "redo", action(EditSession.redo), [], None),
        (parts.topbar, "rename", event(lambda session, it: session.rename(str(it.id), str(it.name))), [], None),
        (parts.canvas, "example", example, [], None),
        (parts.takes, "pick", event(lambda session, it: session.choose(str(it.id))), [], None),
        (parts.keep, "click", action(EditSession.keep), [], None),
        (parts.check, "click", check, [], None),
        (parts.drop, "click", action(EditSession.drop), [], None),
        (parts.history, "pick", event(lambda session, it: session.visit(str(it.id))), [], None),
        (parts.history, "rename", event(lambda session, it: session.rename(str(it.id), str(it.name))), [], None),
    ]:
        listen(source, name, handler, [parts.key, *inputs], everything, js=script)
    listen(page, "load", enter, [parts.key], everything, js=ARRIVE)
    listen(parts.stop, "click", stop, [parts.key], None, queue=False)
    dice: Any = parts.dice  # Gradio adds event methods to its classes when it is imported
    dice.click(None, None, controls.seed, js=ROLL_DICE, api_visibility="private")
    for control in controls.components():
        changed: Any = control
        changed.change(None, controls.components(), None, js=REMEMBER, api_visibility="private")


def listen(source: Any, event: str, handler: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> None:
    """Jobs take turns in `editor.jobs`, not in Gradio's queue: who waits there could not be told so, nor stop."""
    options |= {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    getattr(source, event)(handler, inputs, outputs, **options)


def start(session: EditSession, mask: Any, settings: dict[str, Any]) -> None:
    """Generates or edits, whichever the button said. mask: as the canvas sent it."""
    chosen = {name: settings[name] for name in ("prompt", "negative_prompt", "seed", "guidance")}
    if session.current is None:
        size = (settings["width"] or 0, settings["height"] or 0)
        session.generate(GenerateRequest(size=size, steps=settings["steps"], sampler=settings["sampler"], **chosen))
        return
    request = EditRequest(
        variations=settings["variations"],
        strength=settings["strength"],
        mode=settings["mode"],
        grow_px=settings["grow_px"] or 0,
        feather_px=(settings["feather_px"] or 0) if settings["edge"] == "soft" else 0,
        **chosen,
    )
    session.edit(decode_mask(mask, session.current.image.size), request)


def follow(parts: Parts, session: EditSession) -> Iterator[Shown]:
    """Shows that a job runs, and then what came of it. To stop looking does not stop the job."""
    job, message = session.job, list[Any]()
    assert job is not None
    yield show_running(parts, session) | {
        parts.message: [],
        parts.status: [say("status.starting")],
    }
    try:
        job.result()
    except Exception as error:
        message = explain(error)
    if session.job is job:
        session.job = None
    yield show(parts, session) | {parts.message: message}


def explain(error: BaseException) -> Sentences:
    """One sentence for the person; what is our own mistake goes to the log under a number."""
    if isinstance(error, Cancelled):
        return [say("message.stopped")]
    if isinstance(error, UserError | EngineError):
        return [str(error)]
    return [say("message.bug", number=logged(error))]
