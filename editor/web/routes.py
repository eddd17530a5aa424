"""Pictures in and out of a session, past Gradio: exact PNG out, untouched bytes in.

A session's key is a secret of 128 bits that only its own page holds, so an address works for nobody else.
"""

from __future__ import annotations

import io
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image

from diffusion_engine import UserError
from editor.images import save_picture
from editor.outputs import new_output
from editor.session import EditSession
from editor.sessions import Sessions

CANVAS = Path(__file__).parent / "canvas"
UPLOAD_LIMIT_BYTES = 32 * 2**20
THUMBNAIL_PX = 192
# a version never changes, and a candidate's name holds the number of its edit
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


def picture_url(session: EditSession, picture_id: str) -> str:
    """The address of the exact pixels, as PNG."""
    return f"/sessions/{session.key}/pictures/{picture_id}.png"


def thumbnail_url(session: EditSession, picture_id: str) -> str:
    return f"/sessions/{session.key}/thumbnails/{picture_id}.jpg"


def export_url(session: EditSession, picture_id: str) -> str:
    """The address that saves the picture in the output folder, as a file to keep, and sends it."""
    return f"/sessions/{session.key}/exports/{picture_id}.png"


def add_routes(app: FastAPI, sessions: Sessions, output_dir: Path) -> None:
    router = APIRouter(prefix="/sessions/{key}")

    @router.get("/pictures/{picture_id}.png")
    def picture(key: str, picture_id: str) -> Response:
        image = sessions.get(key).picture(picture_id)
        return Response(_encode(image, "PNG", compress_level=1), headers=FOREVER, media_type="image/png")

    @router.get("/thumbnails/{picture_id}.jpg")
    def thumbnail(key: str, picture_id: str) -> Response:
        small = sessions.get(key).picture(picture_id).copy()
        small.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
        return Response(_encode(small, "JPEG", quality=85), headers=FOREVER, media_type="image/jpeg")

    @router.get("/exports/{picture_id}.png")
    def export(key: str, picture_id: str) -> FileResponse:
        session = sessions.get(key)
        image, parameters = session.picture(picture_id), session.parameters(picture_id)
        path = new_output(output_dir, parameters["seed"])
        save_picture(image, path, session.alpha(picture_id), parameters)
        return FileResponse(path, filename=path.name, headers={"Cache-Control": "no-store"})

    @router.post("/upload")
    async def upload(key: str, request: Request) -> Response:
        """Takes a picture file as the body; the page then asks the session to open it."""
        session = sessions.get(key)
        session.upload, data = None, bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > UPLOAD_LIMIT_BYTES:
                return PlainTextResponse("The file is too large.", 413)
        session.upload = bytes(data)
        return Response(status_code=204)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse(str(error), 404)

    app.include_router(router)
    app.mount("/canvas", StaticFiles(directory=CANVAS))


def _encode(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
