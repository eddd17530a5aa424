"""The editor for programs: /open, /generate, /edit and /commit, callable with gradio_client.

One client is one session. Pictures are named by ids and fetched as exact PNG from the address beside the id; pixels
outside the blend mask are the parent's, bit for bit, here as on the page.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import gradio as gr

from diffusion_engine import Cancelled, EngineError, Progress, UserError
from editor.images import open_picture
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions
from editor.web.routes import picture_url

Answer = tuple[str, dict[str, Any]]


def add_api(sessions: Sessions) -> None:
    """Adds the endpoints to the current gr.Blocks, without anything to see."""

    def open(key, picture, steps, guidance) -> Answer:
        session = sessions.enter(key)
        with plain_errors():
            opened = open_picture(picture or b"")
            session.open(opened, steps=steps, guidance=guidance)
        return session.key, describe(session) | {"notices": opened.notices}

    def generate(key, prompt, negative_prompt, width, height, steps, guidance, seed) -> Generator[Answer]:
        session = sessions.enter(key)
        request = GenerateRequest(prompt, negative_prompt, (width, height), steps, seed, guidance)
        yield from follow(session, session.generate(request))

    def edit(
        key, mask, prompt, picture_id, negative_prompt, variations, strength, guidance, seed, grow, feather, mode
    ) -> Generator[Answer]:
        session = sessions.enter(key)
        with plain_errors():
            request = EditRequest(
                prompt, negative_prompt or None, seed, variations, strength, guidance, mode, grow, feather
            )
            if picture_id:
                session.visit(picture_id)
        yield from follow(session, session.edit(mask, request))

    def commit(key, picture_id) -> Answer:
        session = sessions.enter(key)
        with plain_errors():
            session.choose(picture_id)
            session.keep()
        return session.key, describe(session)

    with gr.Column(visible=False):
        key, result = gr.State(None), gr.JSON()
        defaults = sessions.engine.defaults
        prompt, negative_prompt, picture_id = gr.Textbox(), gr.Textbox(""), gr.Textbox("")  # "": may be left out
        picture, mask = gr.File(type="binary"), gr.File(type="binary")
        width, height = (gr.Number(side, precision=0) for side in defaults.size)
        steps, guidance = gr.Number(defaults.steps, precision=0), gr.Number(defaults.guidance)
        seed, variations = gr.Number(0, precision=0), gr.Number(1, precision=0)
        edges = [gr.Number(0, precision=0), gr.Number(4, precision=0)]
        strength, mode = gr.Number(1), gr.Textbox("auto")
        for function, inputs in [
            (open, [picture, steps, guidance]),
            (generate, [prompt, negative_prompt, width, height, steps, guidance, seed]),
            (edit, [mask, prompt, picture_id, negative_prompt, variations, strength, guidance, seed, *edges, mode]),
            (commit, [picture_id]),
        ]:
            name = function.__name__
            button: Any = gr.Button()  # Gradio adds event methods to its classes when it is imported
            button.click(function, [key, *inputs], [key, result], api_name=name, concurrency_limit=None)


def follow(session: EditSession, job: Generator[Progress]) -> Generator[Answer]:
    """Yields the steps, and what came out as the last one, which is all that `predict` returns."""
    with plain_errors():
        for progress in job:
            yield session.key, {"stage": progress.stage, "step": progress.step, "steps": progress.steps}
        yield session.key, describe(session)


def describe(session: EditSession) -> dict[str, Any]:
    """The current version, and the candidates if any wait."""
    current, proposal = session.current, session.proposal
    assert current is not None
    answer: dict[str, Any] = {
        "picture_id": current.id,
        "parent_id": current.parent_id,
        "url": picture_url(session, current.id),
        "report": current.report.as_dict(),
    }
    if proposal:
        answer["changed_outside"] = session.changed_outside()
        answer["candidates"] = [
            {"picture_id": name, "url": picture_url(session, name), "seed": each.seed, "report": each.report.as_dict()}
            for name, each in zip(proposal.picture_ids, proposal.candidates, strict=True)
        ]
    return answer


@contextmanager
def plain_errors() -> Generator[None]:
    """Passes on the sentences meant for people; of anything else the caller learns only that it failed."""
    try:
        yield
    except (UserError, EngineError) as error:
        raise gr.Error(str(error)) from error
    except Cancelled as error:
        raise gr.Error("Stopped. The picture is as it was.") from error
