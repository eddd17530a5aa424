"""The door in front of every route: only our own page, under a name of our own, may read or write.

A page on another site can point a form or a script at a server on this machine, and can make its own name resolve to
this machine (DNS rebinding). So the Host must be one of ours with the port, and what a browser sends on behalf of
another origin is refused, except following a link to the editor.
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
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}


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
        elif refusal := self._refusal(scope):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await PlainTextResponse(refusal, 403, headers=HEADERS)(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "This address is not one that the editor listens on: open the address it printed when it started."
        origins = headers.getlist("origin")
        if any(origin.lower() != f"http://{hosts[0]}" for origin in origins):
            return "Another site may not use the editor."
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin") or _follows_link(scope, headers):
            return None
        return "Another site may not use the editor."

    @staticmethod
    def _with_headers(send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        return send_with_headers


def _follows_link(scope: Scope, headers: Headers) -> bool:
    is_page = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return scope["type"] == "http" and scope["method"] == "GET" and is_page
