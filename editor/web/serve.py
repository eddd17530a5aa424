"""Starts the web server: engine, pictures' routes, page, and the gate in front of all of them."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request
from gradio import processing_utils
from gradio.routes import App as GradioApp
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from diffusion_engine import EditableDiffusionEngine, UserError
from editor.autosave import SessionStore
from editor.project_files import read_project
from editor.sessions import Sessions
from editor.snapshot import Snapshot
from editor.web.addresses import MCP
from editor.web.body_limits import BodyLimits, Limits, private_temporary_files
from editor.web.failures import apology
from editor.web.gate import Gate, allowed_hosts
from editor.web.page import build_page
from editor.web.routes import UPLOAD_LIMIT_BYTES, add_routes
from editor.web.words import I18N

if TYPE_CHECKING:
    from editor.settings import Settings

SYSTEM_FONT = ["system-ui", "sans-serif"]
THEME = gr.themes.Base(primary_hue="violet", neutral_hue="zinc", font=SYSTEM_FONT, font_mono=["monospace"]).set(
    button_primary_background_fill="*primary_600",  # white text needs 4.5:1
    button_primary_background_fill_hover="*primary_700",
    button_primary_background_fill_dark="*primary_600",
    button_primary_background_fill_hover_dark="*primary_700",
)
STYLE = Path(__file__).parent / "page.css"
ICON = Path(__file__).parents[2] / "assets" / "icon.svg"


@private_temporary_files()
def run(settings: Settings) -> None:
    """Serves the editor until it is interrupted. Raises UserError if the port is taken or the model cannot be had."""
    project = settings.project and read_project(settings.project, settings.project.name, secrets.token_urlsafe(16))
    listener = listen(settings.host, settings.port)
    engine = EditableDiffusionEngine.from_pretrained(
        settings.model,
        device=settings.device,
        dtype=settings.dtype,
        cache_memory_bytes=settings.cache_memory_bytes,
        cache_host_bytes=settings.cache_host_bytes,
        cache_disk_bytes=settings.cache_disk_bytes,
        cache_dir=settings.cache_dir,
        cache_dtype=settings.cache_dtype,
        offline=settings.offline,
    )
    server = Server(engine, listener, settings.output_dir, settings.sessions_dir, settings.auth, settings.mcp)
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    address = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    page = f"{address}/#session={server.begin(project)}" if project else address
    print(f"Deltabrush is open at {page} (Ctrl+C stops it).", flush=True)
    if settings.mcp:
        print(f"Assistants find it at {address}{MCP} (MCP, streamable HTTP).", flush=True)
    if settings.open_browser:
        webbrowser.open(page)
    try:
        server.run()
    finally:
        engine.close()


class Server(uvicorn.Server):
    """Stops at once: it ends the running jobs and the connections that open pages keep, instead of waiting for them."""

    def __init__(
        self,
        engine: EditableDiffusionEngine,
        listener: socket.socket,
        output_dir: Path,
        sessions_dir: Path,
        auth: str | None = None,
        mcp: bool = False,
    ) -> None:
        host, port = listener.getsockname()[:2]
        self._listener = listener
        self._store = SessionStore(sessions_dir)
        self._sessions = Sessions(engine, self._store)
        app, self._gradio = build_app(self._sessions, host, port, output_dir, auth, mcp=mcp)
        super().__init__(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))

    def begin(self, project: Snapshot) -> str:
        """Opens a project as a session; returns the key."""
        return self._sessions.begin(project).key

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._gradio.stop_event.set()
        self._sessions.cancel_all()
        await super().shutdown(sockets)
        self._store.close()


def build_app(
    sessions: Sessions,
    host: str,
    port: int,
    output_dir: Path,
    auth: str | None = None,
    limits: Limits | None = None,
    mcp: bool = False,
) -> tuple[ASGIApp, GradioApp]:
    """The whole application, and Gradio's part of it. `auth` is "user:password"; `mcp` serves assistants too."""
    user, _, password = (auth or "").partition(":")
    app = FastAPI(openapi_url=None)
    if mcp:
        from editor.web.mcp_server import McpServer  # needs a package that only assistants need

        assistants = McpServer(sessions, auth)
        app.router.lifespan_context = assistants.lifespan
        app.router.routes.append(Route(MCP, assistants))
    add_routes(app, sessions, output_dir)
    processing_utils.async_ssrf_protected_download = refuse_address
    page = build_page(sessions)
    page.queue(max_size=64)
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        server_name=host,
        server_port=port,
        auth=(user, password) if auth else None,
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=UPLOAD_LIMIT_BYTES,
        ssr_mode=False,
        mcp_server=False,
        i18n=I18N,
        favicon_path=str(ICON),
        pwa=True,
        theme=THEME,
        css_paths=[STYLE],
    )
    page.has_launched = True  # only then does Gradio check that the files a caller names are ones that it uploaded
    gradio_app = next(r.app for r in app.routes if isinstance(r, Mount) and isinstance(r.app, GradioApp))
    for part in (app, gradio_app):
        part.add_exception_handler(Exception, tell_failure)
    limited = BodyLimits(app, Path(gradio_app.uploaded_file_dir), limits or Limits())
    return Gate(limited, allowed_hosts(host, port)), gradio_app


async def refuse_address(url: str, cache_dir: str) -> str:
    """Instead of Gradio's download of files that a caller names by an address: the editor fetches nothing."""
    raise gr.Error("A picture is opened from a file, not from an address: download it first.", print_exception=False)


def tell_failure(request: Request, error: Exception) -> PlainTextResponse:
    """The answer to a mistake of our own: its traceback goes to the log, under a number that the caller is told."""
    return PlainTextResponse(apology(error), 500)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, taken before the model loads. Port 0 means any free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"Port {port} of {host} cannot be used ({reason}): choose another one with --port.") from error
