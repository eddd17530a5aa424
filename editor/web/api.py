"""The editor for programs, callable with gradio_client: /open, /generate, /edit, /commit, /history and /export.

One client is one session. Pictures are named by ids and fetched as exact PNG from the address beside the id; pixels
outside the blend mask are the parent's, bit for bit, here as on the page. docs/api.md has an example.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import gradio as gr

from diffusion_engine import Cancelled, EngineError, Progress, UserError
from editor.images import open_picture, output_format
from editor.jobs import Job
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions
from editor.unread_words import unread_words
from editor.web.addresses import export_url, picture_url
from editor.web.failures import apology

Answer = tuple[str, dict[str, Any]]
EVERY_SECONDS = 0.25


def add_api(sessions: Sessions) -> None:
    """Adds the endpoints to the current gr.Blocks, without anything to see."""

    def open(key, picture, steps, guidance, sampler) -> Answer:
        """Opens a picture file (PNG, JPEG, WebP, GIF, BMP) as the current one."""
        session = sessions.enter(key)
        with plain_errors():
            opened = open_picture(picture or b"")
            session.open(opened, steps=steps, guidance=guidance, sampler=sampler)
        return session.key, describe(session) | {"notices": opened.notices}

    def generate(
        key, prompt, negative_prompt, width, height, steps, guidance, seed, sampler
    ) -> Generator[Answer, None, None]:
        """Makes a new picture from a prompt; sends the steps as they are done."""
        session = sessions.enter(key)
        with plain_errors():
            job = session.generate(
                GenerateRequest(prompt, negative_prompt, (width, height), steps, seed, guidance, sampler)
            )
        yield from follow(session, job)
        yield session.key, describe(session) | {"notices": unread_words(sessions.engine, prompt)}

    def edit(
        key, mask, prompt, picture_id, negative_prompt, variations, strength, guidance, seed, grow, feather, mode
    ) -> Generator[Answer, None, None]:
        """Paints the part of a picture, by default the current one, that is white in the mask file of its size."""
        session = sessions.enter(key)
        with plain_errors():
            request = EditRequest(
                prompt, negative_prompt or None, seed, variations, strength, guidance, mode, grow, feather
            )
            if picture_id:
                session.visit(picture_id)
            job = session.edit(mask, request)
        yield from follow(session, job)
        yield session.key, describe(session) | candidates(session) | {"notices": unread_words(sessions.engine, prompt)}

    def commit(key, picture_id) -> Answer:
        """Keeps one candidate of an edit as a version."""
        session = sessions.enter(key)
        with plain_errors():
            session.choose(picture_id)
            session.keep()
        return session.key, describe(session)

    def history(key) -> Answer:
        """All versions of this session, parents before children."""
        session = sessions.enter(key)
        versions = [
            {
                "picture_id": entry.id,
                "parent_id": entry.parent_id,
                "name": entry.name,
                "made": entry.made,
                "url": picture_url(session, entry.id),
            }
            for entry in session.history
        ]
        current = session.current
        return session.key, {"current": current.id if current else None, "versions": versions}

    def export(key, picture_id, format, metadata) -> Answer:
        """The address that saves a picture in the output folder and sends that file: png, webp or jpg."""
        session = sessions.enter(key)
        with plain_errors():
            output_format(f"{picture_id}.{format}")  # refuses one that is not offered
            session.picture(picture_id)  # refuses one that is gone
        return session.key, {"url": f"{export_url(session, picture_id)}.{format}?metadata={int(bool(metadata))}"}

    with gr.Column(visible=False):
        key, result = gr.State(None), gr.JSON()
        defaults = sessions.engine.defaults
        prompt, negative, picture_id = gr.Textbox(), gr.Textbox(""), gr.Textbox("")  # "": may be left out
        picture, mask = gr.File(type="binary"), gr.File(type="binary")
        width, height = (gr.Number(side, precision=0) for side in defaults.size)
        steps, guidance = gr.Number(defaults.steps, precision=0), gr.Number(defaults.guidance)
        sampler, mode, suffix = gr.Textbox(defaults.sampler), gr.Textbox("auto"), gr.Textbox("png")
        seed, variations = gr.Number(0, precision=0), gr.Number(1, precision=0)
        edges = [gr.Number(0, precision=0), gr.Number(4, precision=0)]
        strength, metadata = gr.Number(1), gr.Checkbox(True)
        for function, inputs in [
            (open, [picture, steps, guidance, sampler]),
            (generate, [prompt, negative, width, height, steps, guidance, seed, sampler]),
            (edit, [mask, prompt, picture_id, negative, variations, strength, guidance, seed, *edges, mode]),
            (commit, [picture_id]),
            (history, []),
            (export, [picture_id, suffix, metadata]),
        ]:
            name = function.__name__
            button: Any = gr.Button()  # Gradio adds event methods to its classes when it is imported
            button.click(function, [key, *inputs], [key, result], api_name=name, concurrency_limit=None)


def follow(session: EditSession, job: Job[None]) -> Generator[Answer, None, None]:
    """Yields the steps. A caller that goes away stops the job: nobody else could fetch what it makes."""
    try:
        with plain_errors():
            for progress in job.steps(EVERY_SECONDS):
                yield session.key, _step(progress)
    finally:
        if not job.done:
            job.cancel()


def _step(progress: Progress) -> dict[str, Any]:
    return {"stage": progress.stage, "step": progress.step, "steps": progress.steps}


def describe(session: EditSession) -> dict[str, Any]:
    """The current version."""
    current = session.current
    assert current is not None
    return {
        "picture_id": current.id,
        "parent_id": current.parent_id,
        "url": picture_url(session, current.id),
        "report": current.report,
    }


def candidates(session: EditSession) -> dict[str, Any]:
    """What the last edit made."""
    proposal = session.proposal
    assert proposal is not None
    newest = [take for take in proposal.takes if take.request is proposal.takes[-1].request]
    listed = [
        {
            "picture_id": take.id,
            "url": picture_url(session, take.id),
            "seed": take.candidate.seed,
            "report": take.report.as_dict(),
        }
        for take in newest
    ]
    return {"changed_outside": session.changed_outside(), "candidates": listed}


@contextmanager
def plain_errors() -> Generator[None, None, None]:
    """Passes on the sentences meant for people; of anything else the caller learns only a number, which the log has."""
    try:
        yield
    except (UserError, EngineError) as error:
        raise gr.Error(str(error)) from error
    except Cancelled as error:
        raise gr.Error("Stopped. The picture is as it was.") from error
    except Exception as error:
        raise gr.Error(apology(error)) from error
