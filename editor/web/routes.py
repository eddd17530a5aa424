"""Pictures and masks in and out of a session, past Gradio: exact PNG out, untouched bytes in."""

from __future__ import annotations

import io
import secrets
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image

from diffusion_engine import UserError
from editor import masks
from editor.examples import FOLDER as EXAMPLES
from editor.images import output_format, save_picture
from editor.outputs import new_output
from editor.project_files import SUFFIX, read_project, save_project
from editor.sessions import Sessions
from editor.snapshot import Draft
from editor.web.memory import memory_value, version_of
from editor.web.progress import progress_events
from editor.web.questions import Painted, prompt_report
from editor.web.view import tiles_value

SCRIPTS = Path(__file__).parent / "scripts"
UPLOAD_LIMIT_BYTES = 32 * 2**20
THUMBNAIL_PX = 192
# an entry never changes, and no two takes have the same name
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
FRESH = {"Cache-Control": "no-store"}


class Scripts(StaticFiles):
    """Files that a browser asks about each time, so that it never mixes those of two versions of the program."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def add_routes(app: FastAPI, sessions: Sessions, output_dir: Path) -> None:
    router = APIRouter(prefix="/sessions/{key}")

    @router.get("/pictures/{picture_id}.png")
    def picture(key: str, picture_id: str) -> Response:
        image = sessions.get(key).picture(picture_id)
        return Response(_encode(image, "PNG", compress_level=1), headers=FOREVER, media_type="image/png")

    @router.get("/thumbnails/{picture_id}.jpg")
    def thumbnail(key: str, picture_id: str) -> Response:
        small = small_jpeg(sessions.get(key).picture(picture_id), THUMBNAIL_PX)
        return Response(small, headers=FOREVER, media_type="image/jpeg")

    @router.get("/exports/{picture_id}.{suffix}")
    def export(key: str, picture_id: str, suffix: str, metadata: bool = True) -> FileResponse:
        """Saves the picture in the output folder and sends the same file."""
        output_format(f"{picture_id}.{suffix}")  # refuses one that is not offered
        session = sessions.get(key)
        image, source, made = session.picture(picture_id), session.source(picture_id), session.made(picture_id)
        path = new_output(output_dir, made.get("seed", 0), suffix)
        save_picture(image, path, source.alpha, made, source.exif, metadata=metadata)
        return FileResponse(path, filename=path.name, headers=FRESH)

    @router.post("/save")
    def save(key: str) -> dict[str, str]:
        """Saves the session as a project in the output folder; answers the file's name."""
        session = sessions.get(key)
        snapshot = session.snapshot()
        if not snapshot.entries:
            raise UserError("There is no picture yet: generate one or open one first.")
        seed = session.current.made.get("seed", 0) if session.current else 0
        path = new_output(output_dir, seed, SUFFIX.removeprefix("."))
        save_project(snapshot, path)
        session.project = path
        return {"name": path.name}

    @router.get(f"/saved{SUFFIX}")
    def saved(key: str) -> FileResponse:
        """The project that was saved last."""
        path = sessions.get(key).project
        if path is None or not path.is_file():
            raise UserError("That file is gone: save the project again.")
        return FileResponse(path, filename=path.name, headers=FRESH, media_type="application/octet-stream")

    @router.post("/project")
    async def open_project(key: str, request: Request, name: str = "") -> dict[str, str]:
        """Takes a project file as the body, and opens it as a session of its own, whose key is the answer."""
        sessions.get(key)
        file = request.scope["body_file"]
        snapshot = await run_in_threadpool(read_project, file, name[:200], secrets.token_urlsafe(16))
        return {"key": (await run_in_threadpool(sessions.begin, snapshot)).key}

    @router.post("/upload")
    async def upload(key: str, request: Request, name: str = "") -> Response:
        """Takes a picture file as the body; the page then asks the session to open it."""
        session = sessions.get(key)
        session.upload = name[:200], await request.body()
        return Response(status_code=204)

    @router.post("/mask-file")
    async def mask_file(key: str, request: Request) -> Response:
        """Takes a file to be used as the mask; answers with the mask as it is understood, the size of the picture."""
        session = sessions.get(key)
        if session.current is None:
            raise UserError("There is no picture yet: generate one or open one first.")
        mask = await run_in_threadpool(masks.read_mask, await request.body(), session.current.image.size)
        return Response(_encode(Image.fromarray(mask), "PNG", compress_level=1), headers=FRESH, media_type="image/png")

    @router.put("/mask")
    async def paint(key: str, request: Request, asked: Annotated[Painted, Query()]) -> dict[str, Any] | None:
        """Takes the painted part of the mask on the page, a PNG; answers what an edit with it would recompute."""
        session, data = sessions.get(key), await request.body()
        draft = Draft(asked.left, asked.top, data) if data else None
        tiles = await run_in_threadpool(session.paint, draft, asked.request(), settled=asked.settled)
        return tiles_value(tiles) if tiles else None

    @router.get("/memory")
    def memory(key: str) -> dict[str, Any]:
        """What caches hold, by picture and by kind of memory."""
        return memory_value(sessions.engine, sessions.get(key))

    @router.delete("/memory/{entry_id}")
    def drop_cache(key: str, entry_id: str) -> dict[str, Any]:
        """Lets go of what is kept of a picture; an edit of it records it again. Answers what is held then."""
        session = sessions.get(key)
        sessions.engine.drop_cache(version_of(session, entry_id))
        return memory_value(sessions.engine, session)

    @router.post("/memory/{entry_id}")
    def refresh(key: str, entry_id: str) -> dict[str, Any]:
        """Has a picture recorded anew in the background. Answers what is held now."""
        session = sessions.get(key)
        sessions.engine.refresh(version_of(session, entry_id))
        return memory_value(sessions.engine, session)

    @router.get("/progress")
    def progress(key: str) -> StreamingResponse:
        """What the running job is at, as server-sent events, until it ends."""
        session = sessions.get(key)
        return StreamingResponse(progress_events(session.job), headers=FRESH, media_type="text/event-stream")

    @router.get("/mask.png")
    def mask(key: str) -> Response:
        draft = sessions.get(key).draft
        if draft is None:
            raise UserError("Nothing is painted.")
        return Response(draft.png, headers=FRESH, media_type="image/png")

    @router.get("/words")
    def words(key: str, prompt: Annotated[str, Query(max_length=10_000)] = "") -> dict[str, Any]:
        """What the model makes of a prompt, and words it knows that begin like the last one."""
        sessions.get(key)
        return prompt_report(sessions.engine, prompt)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse(str(error), 404)

    app.include_router(router)
    app.mount("/scripts", Scripts(directory=SCRIPTS))
    app.mount("/examples", StaticFiles(directory=EXAMPLES, check_dir=False))


def small_jpeg(image: Image.Image, side: int) -> bytes:
    """A picture to look at, no side longer than `side`."""
    small = image.copy()
    small.thumbnail((side, side))
    return _encode(small, "JPEG", quality=85)


def _encode(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
