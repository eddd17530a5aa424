"""How much a caller may send, how slowly, and how much of it may pile up on disk: one rule in front of every route.

A body is read whole before the application sees it. So what is too large, too slow, broken off or nested too deeply
leaves no half-written file behind, and Gradio's own routes, which read JSON of any size, obey the same limits.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from editor.project_files import MAX_BYTES
from editor.web.addresses import MCP

STORED = re.compile("/gradio_api/upload/?")  # what arrives here becomes files
PROJECT = re.compile("/sessions/[^/]*/project")  # what arrives here is handed on as a file, in scope["body_file"]
LARGE = re.compile(f"{STORED.pattern}|/sessions/.*")
JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # matches in one pass, closed or not
ALL_SQUARE, NOT_BRACKETS = bytes.maketrans(b"{}", b"[]"), bytes(set(range(256)) - set(b"[]{}"))
ENTRY_BYTES = 2 * 4096  # each file has a folder of its own, and a last block that is not full


@dataclass(frozen=True)
class Limits:
    """In bytes, seconds and bytes per second. `held`: all bodies in memory at once; `stored`: the files that Gradio
    keeps, and projects while they are read. A body may take `seconds`, and longer only while it comes faster than
    `slowest`."""

    large: int = 32 * 2**20 + 2**16  # a picture file of 32 MB and the form around it
    other: int = 8 * 2**20  # words and numbers, at most a mask of the page as a PNG in JSON
    project: int = MAX_BYTES
    nesting: int = 64
    held: int = 256 * 2**20
    stored: int = 2 * 2**30
    seconds: float = 60
    slowest: int = 16 * 2**10


class Refused(Exception):
    """Why the application does not get to see a body."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.response = PlainTextResponse(sentence, status)


class BodyLimits:
    """ASGI middleware that hands on the bodies within the limits. folder: where Gradio keeps what was uploaded."""

    def __init__(self, app: ASGIApp, folder: Path, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._disk = Disk(folder, limits.stored)
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        try:
            if PROJECT.fullmatch(path):
                await self._hand_on_a_file(scope, receive, send)
                return
            body = bytearray()
            if not await self._read(scope, receive, body.extend, in_memory=True):
                return
            body = bytes(body)
            if not LARGE.fullmatch(path) and nested_deeper(body, self._limits.nesting):
                raise Refused(400, "That is nested too deeply.")
            if STORED.fullmatch(path):
                async with self._disk.room_for(body):
                    await self._app(scope, _replay(body, receive), send)
            else:
                await self._app(scope, _replay(body, receive), send)
        except Refused as refused:
            await refused.response(scope, receive, send)

    async def _hand_on_a_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The file has no name, so that nobody else finds it and nothing is left of it."""
        size = int(Headers(scope=scope).get("content-length", self._limits.project))
        async with self._disk.room(min(size, self._limits.project)):
            with self._disk.nameless_file() as file:
                if await self._read(scope, receive, file.write, in_memory=False):
                    file.seek(0)
                    await self._app({**scope, "body_file": file}, _replay(b"", receive), send)

    def _limit(self, path: str) -> int:
        if PROJECT.fullmatch(path):
            return self._limits.project
        if LARGE.fullmatch(path):
            return self._limits.large
        return self._limits.large * 4 // 3 if path == MCP else self._limits.other  # files in base64

    async def _read(self, scope: Scope, receive: Receive, keep: Callable[[bytes], object], *, in_memory: bool) -> bool:
        """Hands the whole body to `keep`, piece by piece; False if the caller went away."""
        limit = self._limit(scope["path"])
        too_large = Refused(413, f"That is too large: {limit // 2**20} MB at most can be sent here.")
        if int(Headers(scope=scope).get("content-length", 0)) > limit:
            raise too_large
        size, more = 0, True
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    size += len(chunk)
                    self._held += len(chunk) * in_memory
                    if size > limit:
                        raise too_large
                    keep(chunk)
                    if self._held > self._limits.held:
                        raise Refused(503, "Too much is being sent at once: try again in a minute.")
                    timeout.reschedule(deadline + size / self._limits.slowest)
        except TimeoutError:
            raise Refused(408, "That came too slowly: try again over a faster connection.") from None
        finally:
            self._held -= size * in_memory
        return True


class Disk:
    """The room that is left for uploads in a folder."""

    def __init__(self, folder: Path, quota: int) -> None:
        self._folder = folder
        self._quota = quota
        self._stored = quota  # as if full, so that the first upload measures
        self._arriving = 0

    @asynccontextmanager
    async def room_for(self, body: bytes) -> AsyncGenerator[None]:
        """Keeps room while a form is taken apart and stored. Raises Refused if there is none."""
        parts = 1 + body.count(b"\r\n--")  # each may become a file
        size = len(body) + parts * ENTRY_BYTES
        async with self.room(size):
            yield
        self._stored += size  # an upper bound, until the next measurement

    def nameless_file(self) -> IO[bytes]:
        """A new file in the folder, which is gone when it is closed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder)

    @asynccontextmanager
    async def room(self, size: int) -> AsyncGenerator[None]:
        """Keeps room for so many bytes. Raises Refused if there is none."""
        if self._stored + self._arriving + size > self._quota:
            self._stored = await asyncio.to_thread(bytes_on_disk, self._folder)
        if self._stored + self._arriving + size > self._quota:
            raise Refused(507, "The editor's folder for uploads is full: try again later, or restart the editor.")
        self._arriving += size
        try:
            yield
        finally:
            self._arriving -= size


@contextmanager
def private_temporary_files() -> Generator[None]:
    """Everything temporary of this process goes to a folder of its own, which is gone at the end. Gradio's is shared by
    all its programs on a machine, and they would use up each other's quota."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="deltabrush-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = os.environ["GRADIO_TEMP_DIR"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = before
            del os.environ["GRADIO_TEMP_DIR"]


def nested_deeper(json: bytes, limit: int) -> bool:
    """True if arrays and objects are nested deeper than `limit`, which programs that recurse over them cannot take."""
    if json.count(b"[") + json.count(b"{") <= limit:
        return False
    brackets = JSON_STRING.sub(b"", json).translate(ALL_SQUARE, delete=NOT_BRACKETS)
    for _ in range(limit):
        brackets = brackets.replace(b"[]", b"")  # the innermost ones
    return bool(brackets)


def bytes_on_disk(folder: Path) -> int:
    """What the files and folders in `folder` take, in whole blocks."""
    total = 0
    for parent, _, files in os.walk(folder):
        for path in (parent, *(os.path.join(parent, file) for file in files)):
            with suppress(FileNotFoundError):  # others delete meanwhile
                total += os.lstat(path).st_blocks * 512
    return total


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
