"""What programs and assistants can do, once for all of them: gradio_client calls these functions (api.py), and so does
MCP (mcp_server.py). Their names, arguments, defaults and docstrings are what both publish.

Pictures are named by ids and fetched as exact PNG from the address beside the id; pixels outside the blend mask are the
parent's, bit for bit, here as on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any, Literal

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

Answer = tuple[str, dict[str, Any]]  # the session's key, and what the caller is told
Endpoint = Callable[..., Any]  # of an Answer, or of a generator whose last Answer comes after the steps
EVERY_SECONDS = 0.25


def endpoints(sessions: Sessions) -> tuple[Endpoint, ...]:
    """The six functions. Each takes `key` first, the session that the caller is in, None if it is in none.

    Gradio reads their docstrings: under "Args:" stands one line for each argument.
    """
    defaults = sessions.engine.defaults

    def enter(key: str | None, named: str) -> EditSession:
        if not named:
            return sessions.enter(key)
        try:
            return sessions.get(named)
        except UserError as error:
            sentence = "There is no such session: name one from an answer, or begin one with open or generate."
            raise gr.Error(sentence) from error

    def open(
        key: str | None,
        picture: bytes,
        steps: int = defaults.steps,
        guidance: float = defaults.guidance,
        sampler: str = defaults.sampler,
        session: str = "",
    ) -> Answer:
        """Opens a picture of the person's own, to be edited, as the current version of a session.

        Args:
            picture: the file: PNG, JPEG, WebP, GIF or BMP, up to 32 MB and 16.8 megapixels
            steps: denoising steps of all edits of this picture, 1 to 200; more take longer
            guidance: how closely edits follow their prompts unless they say otherwise, 0 to 50
            sampler: its short name, such as ddim or euler
            session: the one to go on with, as an earlier answer named it; left out, a new one begins
        """
        entered = enter(key, session)
        with plain_errors():
            opened = open_picture(picture or b"")
            entered.open(opened, steps=steps, guidance=guidance, sampler=sampler)
        return answer(entered, version(entered) | {"notices": opened.notices})

    def generate(
        key: str | None,
        prompt: str,
        negative_prompt: str = "",
        width: int = defaults.size[0],
        height: int = defaults.size[1],
        steps: int = defaults.steps,
        guidance: float = defaults.guidance,
        seed: int = 0,
        sampler: str = defaults.sampler,
        session: str = "",
    ) -> Generator[Answer, None, None]:
        """Makes a new picture from a prompt; it is then the current version of the session.

        Args:
            prompt: what the picture shows, in a few words
            negative_prompt: what it should not show
            width: in pixels
            height: in pixels
            steps: denoising steps, 1 to 200; more take longer
            guidance: how closely to follow the prompt, 0 to 50
            seed: same seed, same picture
            sampler: its short name, such as ddim or euler
            session: the one to go on with, as an earlier answer named it; left out, a new one begins
        """
        entered = enter(key, session)
        with plain_errors():
            job = entered.generate(
                GenerateRequest(prompt, negative_prompt, (width, height), steps, seed, guidance, sampler)
            )
        yield from follow(entered, job)
        yield answer(entered, version(entered) | {"notices": unread_words(sessions.engine, prompt)})

    def edit(
        key: str | None,
        mask: bytes,
        prompt: str,
        picture_id: str = "",
        negative_prompt: str = "",
        variations: int = 1,
        strength: float = 1,
        guidance: float = defaults.guidance,
        seed: int = 0,
        grow: int = 0,
        feather: int = 4,
        mode: Literal["auto", "sparse", "dense"] = "auto",
        session: str = "",
    ) -> Generator[Answer, None, None]:
        """Paints one part of a picture anew. The answer lists candidates; commit keeps one of them.

        Pixels where the mask is black stay as they are, bit for bit: `changed_outside` counts those that did not, 0.

        Args:
            mask: a picture file of exactly the size of the picture: white may change, black may not, grey a little
            prompt: what is to be seen in the white part, in a few words
            picture_id: of the version to edit, which begins a branch; left out, the current one is edited
            negative_prompt: what should not be seen there
            variations: how many candidates to make, 1 to 16, with the seeds seed, seed + 1, ...
            strength: how much to change, above 0 to 1; 1 ignores what is there now
            guidance: how closely to follow the prompt, 0 to 50
            seed: same seed, same picture
            grow: pixels by which the mask is widened, or shrunk where negative, -256 to 256
            feather: width of the soft edge inside the mask in pixels, 0 for a hard one, to 256
            mode: sparse computes the painted part only, dense everything; auto takes what is faster
            session: in which the picture is, as an earlier answer named it
        """
        entered = enter(key, session)
        with plain_errors():
            request = EditRequest(
                prompt, negative_prompt or None, seed, variations, strength, guidance, mode, grow, feather
            )
            if picture_id:
                entered.visit(picture_id)
            job = entered.edit(mask, request)
        yield from follow(entered, job)
        made = version(entered) | candidates(entered)
        yield answer(entered, made | {"notices": unread_words(sessions.engine, prompt)})

    def commit(key: str | None, picture_id: str, session: str = "") -> Answer:
        """Keeps one candidate of the last edit as a version, which is then the current one; the others are let go.

        Args:
            picture_id: of the candidate
            session: in which the edit was made, as its answer named it
        """
        entered = enter(key, session)
        with plain_errors():
            entered.choose(picture_id)
            entered.keep()
        return answer(entered, version(entered))

    def history(key: str | None, session: str = "") -> Answer:
        """Lists all versions of a session, parents before children, and says which is the current one.

        Args:
            session: as an earlier answer named it
        """
        entered = enter(key, session)
        versions = [
            {
                "picture_id": entry.id,
                "parent_id": entry.parent_id,
                "name": entry.name,
                "made": entry.made,
                "url": picture_url(entered, entry.id),
            }
            for entry in entered.history
        ]
        current = entered.current
        return answer(entered, {"current": current.id if current else None, "versions": versions})

    def export(
        key: str | None, picture_id: str, format: str = "png", metadata: bool = True, session: str = ""
    ) -> Answer:
        """Answers with the address from which a picture is downloaded as a file, and saved in the output folder too.

        Args:
            picture_id: of a version or of a candidate
            format: png or webp, both exact, or jpg
            metadata: whether the file tells how the picture was made
            session: in which the picture is, as an earlier answer named it
        """
        entered = enter(key, session)
        with plain_errors():
            output_format(f"{picture_id}.{format}")  # refuses one that is not offered
            entered.picture(picture_id)  # refuses one that is gone
        url = f"{export_url(entered, picture_id)}.{format}?metadata={int(bool(metadata))}"
        return answer(entered, {"url": url})

    return open, generate, edit, commit, history, export


def arguments(endpoint: Endpoint) -> list[Parameter]:
    """What a caller can say: annotated with bytes for a file, int, float, bool, or else a kind of str."""
    return list(signature(endpoint, eval_str=True).parameters.values())[1:]


def answer(session: EditSession, told: dict[str, Any]) -> Answer:
    return session.key, {"session": session.key} | told


def follow(session: EditSession, job: Job[None]) -> Generator[Answer, None, None]:
    """Yields the steps. A caller that goes away stops the job: it does not want what it makes."""
    try:
        with plain_errors():
            for progress in job.steps(EVERY_SECONDS):
                yield session.key, _step(progress)
    finally:
        if not job.done:
            job.cancel()


def _step(progress: Progress) -> dict[str, Any]:
    return {"stage": progress.stage, "step": progress.step, "steps": progress.steps}


def version(session: EditSession) -> dict[str, Any]:
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
