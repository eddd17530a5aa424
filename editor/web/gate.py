"""The door in front of every route: only our own page, under a name of our own, may read or write.

A page on another site can point a form or a script at a server on this machine, and can make its own name resolve to
this machine (DNS rebinding). So the Host must be one of ours with the port, and what a browser sends on behalf of
another origin is refused, except following a link to the page. Of Gradio's routes those stay shut that the editor has
no use for, among them all that serve files or fetch from addresses that a caller names.
"""

from __future__ import annotations

import socket

import psutil
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
PAGE = "/"
# Gradio's page has scripts in its markup and makes functions of text; but nothing may come from or go to elsewhere
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
# all else is data: opened as a page of its own it may do nothing
DATA_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
GRADIO_ROUTES = (
    *("app_id", "heartbeat", "info", "login_check", "startup-events", "theme.css", "upload"),
    *("call", "cancel", "queue", "reset", "run"),
)


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Every value of the Host header that names a server listening on `host`:`port`, in lower case."""
    names = {"localhost", "127.0.0.1", "::1"}
    if host not in ("0.0.0.0", "::"):
        names.add(host.strip("[]"))
    else:
        names.add(socket.gethostname())
        families = (socket.AF_INET, socket.AF_INET6)
        addresses = (address for interface in psutil.net_if_addrs().values() for address in interface)
        names.update(address.address.split("%")[0] for address in addresses if address.family in families)
    bracketed = {f"[{name}]" if ":" in name else name for name in names}
    with_port = {f"{name}:{port}".lower() for name in bracketed}
    return frozenset(with_port | {name.lower() for name in bracketed} if port == 80 else with_port)


class Gate:
    """ASGI middleware that answers 403 to strangers and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # nothing here speaks it
        else:
            refusal = self._refusal(scope)
            app = PlainTextResponse(*refusal) if refusal else self._app
            await app(scope, receive, _with_headers(scope, send))

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "This address is not one that the editor listens on: open the address it printed at its start.", 403
        if any(origin.lower() != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return "Another site may not use the editor.", 403
        sites = set(headers.getlist("sec-fetch-site"))
        if not sites <= {"none", "same-origin"} and not _follows_link(scope, headers):
            return "Another site may not use the editor.", 403
        return None if _in_use(scope["path"]) else ("Not Found", 404)


def _follows_link(scope: Scope, headers: Headers) -> bool:
    is_document = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return scope["method"] == "GET" and scope["path"] == PAGE and is_document


def _in_use(path: str) -> bool:
    _, gradio, route = path.partition("/gradio_api/")
    return not gradio or route.partition("/")[0] in GRADIO_ROUTES


def _with_headers(scope: Scope, send: Send) -> Send:
    policy = PAGE_POLICY if scope["path"] == PAGE else DATA_POLICY

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update({**HEADERS, "Content-Security-Policy": policy})
        await send(message)

    return send_with_headers
