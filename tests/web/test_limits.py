"""What arrives at the server: how large, how slowly, how deeply nested, and how much of it stays on the disk."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from painting_engine import PaintingEngine
from starlette.testclient import TestClient

from editor.sessions import Sessions
from editor.web.body_limits import BodyLimits, Limits, bytes_on_disk, private_temporary_files
from editor.web.serve import build_app

OWN = "http://127.0.0.1:7860"
UPLOAD = "/gradio_api/upload"
JSON_ROUTES = [
    "/gradio_api/queue/join",
    "/gradio_api/call/generate",
    "/gradio_api/call/v2/generate",
    "/gradio_api/run/generate",
    "/gradio_api/cancel",
    "/gradio_api/reset",
    "/login",
]
Result = TypeVar("Result")
GONE, SILENCE = "gone", "silence"


class Behind:
    """What stands behind the limits: remembers the bodies that reached it, and answers when `go_on` is set."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, scope, receive, send) -> None:
        message = await receive()
        assert not message["more_body"]
        await self.go_on.wait()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def send_to(app, path: str, chunks: list, declared: int | None = None, pause: float = 0) -> int | None:
    """Sends chunks as a server would hand them on; the status of the answer, None if there is none."""
    messages = iter(range(len(chunks)))
    statuses: list[int] = []

    async def receive() -> dict:
        await asyncio.sleep(pause)
        number = next(messages)
        if chunks[number] == SILENCE:
            await asyncio.Event().wait()
        if chunks[number] == GONE:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks[number], "more_body": number < len(chunks) - 1}

    async def send(message: dict) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    await app({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
    return statuses[0] if statuses else None


def run(task: Coroutine[Any, Any, Result]) -> Result:
    """Runs it in a thread of its own: after tests with a browser this one has an event loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asyncio.wait_for(task, 30)).result()


def ask(folder: Path, path: str, chunks: list, limits: Limits, **options) -> tuple[int | None, list[bytes]]:
    """The answer, and what reached the application."""

    async def scenario() -> tuple[int | None, list[bytes]]:
        behind = Behind()
        return await send_to(BodyLimits(behind, folder, limits), path, chunks, **options), behind.bodies

    return run(scenario())


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        (UPLOAD, 1000),
        ("/sessions/key/upload", 1000),
        ("/mcp", 1333),
        *((path, 100) for path in JSON_ROUTES),
        ("/gradio_api/uploads-of-another-kind", 100),
        ("/", 100),
    ],
)
@pytest.mark.parametrize("split", [1, 3, 1001], ids=["whole", "in-three", "by-the-byte"])
@pytest.mark.parametrize("declared", ["truly", "too-little", "not-at-all"])
def test_row23_too_large(tmp_path: Path, path: str, limit: int, split: int, declared: str) -> None:
    for size in (limit, limit + 1):
        body, step = bytes(size), -(-size // split)
        chunks = [body[start : start + step] for start in range(0, size, step)]
        length = {"truly": size, "too-little": 1, "not-at-all": None}[declared]
        asked = ask(tmp_path, path, chunks, Limits(large=1000, other=100), declared=length)
        assert asked == ((204, [body]) if size <= limit else (413, []))


def test_row23_what_is_declared_too_large_is_not_even_read(tmp_path: Path) -> None:
    assert ask(tmp_path, UPLOAD, [SILENCE], Limits(large=1000), declared=1001) == (413, [])


@pytest.mark.parametrize(
    ("chunks", "options", "seconds", "status"),
    [
        pytest.param([SILENCE], {}, 0.05, 408, id="nothing-comes"),
        pytest.param([b"a" * 50, SILENCE], {"declared": 100}, 0.05, 408, id="stalls-half-way"),
        pytest.param([b"a"] * 1000, {"pause": 0.01}, 0.05, 408, id="trickles"),
        pytest.param([b"a" * 5000] * 11, {"pause": 0.1}, 1, 204, id="long-but-fast-enough"),
        pytest.param([b"a" * 50, GONE], {"declared": 100}, 60, None, id="breaks-off"),
    ],
)
@pytest.mark.parametrize("path", [UPLOAD, "/gradio_api/queue/join"])
def test_row23_too_slow(
    tmp_path: Path, path: str, chunks: list, options: dict, seconds: float, status: int | None
) -> None:
    answer = ask(tmp_path, path, chunks, Limits(seconds=seconds, slowest=1000), **options)
    assert answer == (status, [b"".join(chunks)] if status == 204 else [])


def test_row23_bodies_that_arrive_together(tmp_path: Path) -> None:
    async def scenario() -> list[int | None]:
        app = BodyLimits(Behind(), tmp_path, Limits(held=100))
        stalled = asyncio.create_task(send_to(app, UPLOAD, [b"a" * 80, SILENCE]))
        await asyncio.sleep(0.01)
        during = await send_to(app, UPLOAD, [b"a" * 21]), await send_to(app, UPLOAD, [b"a" * 20])
        stalled.cancel()
        await asyncio.wait([stalled])
        return [*during, await send_to(app, UPLOAD, [b"a" * 100])]

    assert run(scenario()) == [503, 204, 204]


def test_row23_uploads_at_once_share_what_is_left_of_the_disk(tmp_path: Path) -> None:
    async def scenario() -> tuple[list[int | None], list[int | None]]:
        behind = Behind()
        behind.go_on.clear()
        app = BodyLimits(behind, tmp_path, Limits(stored=100_000))
        sent = [asyncio.create_task(send_to(app, UPLOAD, [bytes(20_000)])) for _ in range(10)]
        while sum(task.done() for task in sent) < 7:  # measuring is a thread's work
            await asyncio.sleep(0.01)
        behind.go_on.set()
        answers = [await task for task in sent]
        return sorted(answers), [await send_to(app, UPLOAD, [bytes(20_000)])]  # nothing was written, so there is room

    assert run(scenario()) == ([204] * 3 + [507] * 7, [204])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The whole application, with 1 MB for uploads."""
    with private_temporary_files():
        limits = Limits(stored=2**20)
        app, _ = build_app(Sessions(PaintingEngine()), "127.0.0.1", 7860, tmp_path / "outputs", limits=limits)
        with TestClient(app, base_url=OWN) as client:
            yield client


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([("files", ("a.png", None))], id="one-small-file"),
        pytest.param([("files", (f"{n}.png", None)) for n in range(40)], id="many-in-one-form"),
        pytest.param([("other", ("a.png", None))], id="under-another-name-where-gradio-leaves-it-behind"),
    ],
)
def test_row23_small_uploads_fill_the_quota_and_no_more(client: TestClient, files: list) -> None:
    folder, size, count = Path(os.environ["GRADIO_TEMP_DIR"]), 0, 0
    while (answer := upload(client, files, count)).status_code == 200:
        count += len(files)
        assert size <= (size := bytes_on_disk(folder)) <= 2**20 and count < 10_000
    assert answer.status_code == 507 and answer.text.startswith("The editor's folder for uploads is full")
    assert bytes_on_disk(folder) == size > 2**19  # the quota is of use, too

    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert upload(client, files, count).status_code == 200


def upload(client: TestClient, files: list, number: int):
    """Sends files of which no two are the same: Gradio keeps equal ones once."""
    distinct = [(field, (name, f"{number + n}".encode())) for n, (field, (name, _)) in enumerate(files)]
    return client.post(UPLOAD, files=distinct)


@pytest.mark.parametrize("path", JSON_ROUTES)
def test_row23_no_route_of_gradio_reads_more_than_our_own_limit(client: TestClient, path: str) -> None:
    body = b'{"data": ["' + b"a" * 2**23 + b'"]}'
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413 and answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "nested",
    [
        pytest.param("[" * 66 + "]" * 66, id="arrays"),
        pytest.param('{"a":' * 66 + "0" + "}" * 66, id="objects"),
        pytest.param('[{"a":' * 500 + "0" + "}]" * 500, id="both"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="very-deep"),
        pytest.param("[" * 5_000_000, id="endless"),
        pytest.param('"\\"[", ' + "[" * 66 + "]" * 66, id="after-an-escaped-quote"),
    ],
)
@pytest.mark.parametrize("path", [*JSON_ROUTES, "/mcp"])
def test_row18_deeply_nested_json(client: TestClient, capfd, path: str, nested: str) -> None:
    body = f'{{"data": [{nested}], "prompt": [{nested}], "fn_index": 0, "session_hash": "a", "event_id": "a"}}'
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 413) and answer.text.startswith("That is")
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("[" * 64 + "]" * 64, id="as-deep-as-may-be"),
        pytest.param("[" + "[]," * 1000 + "[]]", id="wide"),
        pytest.param('{"prompt": "' + "[{" * 100 + '"}', id="brackets-in-text"),
        pytest.param("[]" * 100 + '"' + '\\"' * 2_000_000, id="text-without-an-end"),
        pytest.param('{"prompt": "\\"' + "[" * 100 + '\\\\"}', id="brackets-in-quoted-text"),
    ],
)
def test_row18_json_that_only_looks_deep_is_let_in(tmp_path: Path, body: str) -> None:
    assert ask(tmp_path, "/gradio_api/queue/join", [body.encode()], Limits()) == (204, [body.encode()])


def test_temporary_files_are_private_and_do_not_stay() -> None:
    before = tempfile.gettempdir()
    with private_temporary_files():
        folder = Path(tempfile.gettempdir())
        assert os.environ["GRADIO_TEMP_DIR"] == str(folder) and folder.stat().st_mode & 0o077 == 0
        (folder / "upload").write_bytes(b"data")
    assert not folder.exists() and tempfile.gettempdir() == before
