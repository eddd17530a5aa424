"""The editor as an assistant uses it: the real client of MCP, in both generations of the protocol, over HTTP."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import numpy as np
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from conftest import serving
from editing import picture_file
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from painting_engine import PaintingEngine
from PIL import Image

SIZE = (130, 90)
TOOLS = {
    "open": {"picture"},
    "generate": {"prompt"},
    "edit": {"mask", "prompt", "session"},
    "commit": {"picture_id", "session"},
    "history": {"session"},
    "export": {"picture_id", "session"},
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "generate", "arguments": {"prompt": "a"}}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Assistant:
    """A client that is connected, called from a test that waits for each answer."""

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self.client = client
        self.portal = portal

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def ask(self, tool: str, progress: Callable | None = None, **arguments):
        """(what was said, the pictures shown), or the sentence of a refusal."""
        answer = self.portal.call(lambda: self.client.call_tool(tool, arguments, progress_callback=progress))
        text, *pictures = answer.content
        if answer.is_error:
            assert not pictures
            return text.text
        shown = [Image.open(io.BytesIO(base64.b64decode(picture.data))) for picture in pictures]
        return json.loads(text.text), shown


@contextmanager
def connected(address: str, mode: str = "auto", **options) -> Iterator[Assistant]:
    with start_blocking_portal() as portal:
        transport = streamable_http_client(f"{address}/mcp", http_client=httpx2.AsyncClient(timeout=60, **options))
        with portal.wrap_async_context_manager(Client(transport, mode=mode)) as client:
            yield Assistant(client, portal)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaintingEngine, str]]:
    engine = PaintingEngine()
    with serving(engine, tmp_path_factory.mktemp("outputs"), mcp=True) as address:
        yield engine, address


@pytest.fixture
def engine(server: tuple[PaintingEngine, str]) -> PaintingEngine:
    engine = server[0]
    engine.before_step = lambda step: time.sleep(0.02)
    engine.calls.clear()
    return engine


@pytest.fixture(scope="module", params=["legacy", "2026-07-28"])
def assistant(server: tuple[PaintingEngine, str], request: pytest.FixtureRequest) -> Iterator[Assistant]:
    with connected(server[1], request.param) as assistant:
        yield assistant


def sent(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def encoded(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def fetched(url: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(httpx.get(url).raise_for_status().content)))


PICTURE = sent(picture_file(SIZE))
MASK = np.zeros(SIZE[::-1], np.uint8)
MASK[20:50, 30:70] = 255


def test_the_tools_are_the_six_endpoints_and_say_what_they_take(assistant: Assistant) -> None:
    tools = assistant.tools()
    assert {name: set(tool.input_schema["required"]) for name, tool in tools.items()} == TOOLS
    for tool in tools.values():
        assert tool.description
        for name, told in tool.input_schema["properties"].items():
            assert told["description"], f"{tool.name} {name}"
    assert tools["edit"].input_schema["properties"]["mode"]["enum"] == ["auto", "sparse", "dense"]
    assert "data:image/png;base64" in tools["edit"].input_schema["properties"]["mask"]["description"]
    assert tools["generate"].input_schema["properties"]["width"]["default"] == 128


def test_A17_a_whole_session_leaves_the_pixels_outside_alone(assistant: Assistant, engine: PaintingEngine) -> None:
    original = np.random.default_rng(1).integers(0, 256, (*MASK.shape, 3), np.uint8)
    in_lines = base64.encodebytes(encoded(original)).decode()
    opened, [shown] = assistant.ask("open", picture=f"data:image/png;base64,{in_lines}")
    assert np.array_equal(fetched(opened["url"]), original) and shown.size == SIZE
    session = opened["session"]

    arguments = {"mask": sent(encoded(MASK)), "prompt": "a cactus", "variations": 2, "seed": 7, "session": session}
    tried, shown = assistant.ask("edit", **arguments)
    assert (tried["session"], tried["changed_outside"]) == (session, 0)
    assert [candidate["seed"] for candidate in tried["candidates"]] == [7, 8] and len(shown) == 2

    kept, [shown] = assistant.ask("commit", picture_id=tried["candidates"][1]["picture_id"], session=session)
    changed = (fetched(kept["url"]) != original).any(axis=2)
    assert changed[MASK > 0].any() and not changed[MASK == 0].any()
    assert np.abs(np.asarray(shown, int) - fetched(kept["url"]))[MASK > 0].mean() < 20

    told, shown = assistant.ask("history", session=session)
    assert [(v["picture_id"], v["parent_id"]) for v in told["versions"]] == [
        (opened["picture_id"], None),
        (kept["picture_id"], opened["picture_id"]),
    ]
    assert told["current"] == kept["picture_id"] and not shown
    assert np.array_equal(fetched(told["versions"][0]["url"]), original)

    exported, _ = assistant.ask("export", picture_id=kept["picture_id"], format="webp", session=session)
    assert np.array_equal(fetched(exported["url"]), fetched(kept["url"]))


def test_generate_reports_its_steps_and_shows_what_it_made(assistant, engine: PaintingEngine, monkeypatch) -> None:
    monkeypatch.setattr("editor.web.endpoints.EVERY_SECONDS", 0)
    steps, noted = [], threading.Semaphore()
    engine.before_step = lambda step: noted.acquire(timeout=10)  # so that none is skipped

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message))
        noted.release()

    made, [shown] = assistant.ask("generate", note, prompt="a field xyzzy", width=800, height=64)
    assert shown.size == (384, 31) and "xyzzy" in made["notices"][0]
    assert steps[:3] == [(number, f"denoise {number}/4") for number in (1, 2, 3)]  # the last one may come too late
    engine.before_step = lambda step: None
    elsewhere, _ = assistant.ask("generate", prompt="a field")
    assert elsewhere["session"] != made["session"] and elsewhere["parent_id"] is None


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        pytest.param("history", {"session": "guessed"}, "There is no such session", id="unknown-session"),
        pytest.param("open", {"picture": PICTURE, "session": "../x"}, "There is no such session", id="session-path"),
        pytest.param("history", {}, "session: Field required.", id="no-session"),
        pytest.param("generate", {}, "prompt: Field required.", id="no-prompt"),
        pytest.param("generate", {"prompt": "a", "size": 9}, "size: Extra inputs", id="unknown-argument"),
        pytest.param("generate", {"prompt": "a", "width": "wide"}, "width: Input should be", id="no-number"),
        pytest.param("generate", {"prompt": {"path": "/"}}, "prompt: Input should be", id="no-text"),
        pytest.param("open", {"picture": sent(b"GIF"), "steps": 4}, "The picture is not a PNG", id="no-picture"),
        pytest.param("arrive", {}, "There is no tool arrive.", id="what-is-the-page-s"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(assistant, engine, tool: str, arguments: dict, sentence: str) -> None:
    assert assistant.ask(tool, **arguments).startswith(sentence)
    assert not engine.calls


def test_a_mask_that_paints_nothing_is_refused(assistant: Assistant, engine: PaintingEngine) -> None:
    opened, _ = assistant.ask("open", picture=PICTURE)
    for mask, sentence in ((MASK * 0, "Paint over"), (MASK[:80], "The mask is 130x80 but the picture is 130x90")):
        told = assistant.ask("edit", mask=sent(encoded(mask)), prompt="a cactus", session=opened["session"])
        assert told.startswith(sentence)
    assert "edit" not in engine.calls


@pytest.mark.parametrize(
    "named",
    [
        pytest.param("{path}", id="path"),
        pytest.param("file://{path}", id="file-address"),
        pytest.param("{address}/pwa_icon", id="own-address"),
        pytest.param("https://away.example.test/a.png", id="address"),
        pytest.param({"path": "{path}", "meta": {"_type": "gradio.FileData"}}, id="as-an-upload-of-gradio-s"),
        pytest.param("data:image/png,{path}", id="data-that-is-not-base64"),
        pytest.param("data:image/png;base64,{path}!", id="damaged-base64"),
        pytest.param(PICTURE.partition(",")[2], id="bare-base64"),
        pytest.param(None, id="nothing"),
    ],
)
@pytest.mark.parametrize("tool", ["open", "edit"])
def test_row22_nothing_but_the_file_itself_is_opened(assistant, server, tmp_path: Path, tool: str, named) -> None:
    (tmp_path / "a.png").write_bytes(picture_file(SIZE))
    text = json.dumps(named).replace("{path}", str(tmp_path / "a.png")).replace("{address}", server[1])
    opened, _ = assistant.ask("open", picture=PICTURE)
    file = {"open": "picture", "edit": "mask"}[tool]
    arguments = {"prompt": "a"} if tool == "edit" else {}
    told = assistant.ask(tool, **{file: json.loads(text)}, **arguments, session=opened["session"])
    assert told == f"{file}: send the file itself, as data:image/png;base64,... (nothing else is opened)."


def test_row27_a_mistake_of_ours_is_told_by_a_number(assistant: Assistant, engine: PaintingEngine) -> None:
    def fail(step: int) -> None:
        raise RuntimeError("secret /path")

    engine.before_step = fail
    told = assistant.ask("generate", prompt="a field")
    assert told.startswith("Something went wrong inside the editor (number ") and "secret" not in told


def test_a_call_that_is_given_up_stops_the_work(assistant: Assistant, engine: PaintingEngine, monkeypatch) -> None:
    monkeypatch.setattr(engine.defaults, "steps", 1000)
    steps: list[int] = []
    engine.before_step = lambda step: steps.append(step) or time.sleep(0.01)
    opened, _ = assistant.ask("open", picture=PICTURE, steps=4)
    call = assistant.portal.start_task_soon(
        assistant.client.call_tool, "generate", {"prompt": "a field", "session": opened["session"]}
    )
    while not steps:
        time.sleep(0.01)
    call.cancel()
    while engine.busy.locked():
        time.sleep(0.01)
    assert steps[-1] < 1000
    assert assistant.ask("history", session=opened["session"])[0]["current"] == opened["picture_id"]


@pytest.mark.parametrize("body", [LIST, CALL], ids=["list", "call"])
@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.test"}, {"origin": "https://evil.test"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}],
    ids=lambda headers: next(iter(headers)),
)
def test_row19_row20_strangers_are_refused(server, engine, headers: dict[str, str], body: dict) -> None:
    assert httpx.post(f"{server[1]}/mcp", json=body, headers=ACCEPT | headers).status_code == 403
    assert not engine.calls


def test_it_opens_no_stream_that_would_outlive_the_server(server: tuple[PaintingEngine, str]) -> None:
    assert httpx.get(f"{server[1]}/mcp", headers=ACCEPT).status_code == 405


def test_it_is_there_only_when_it_is_asked_for(address: str) -> None:
    for method, path in (
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("POST", "/gradio_api/mcp/"),
        ("GET", "/gradio_api/mcp/sse"),
    ):
        assert httpx.request(method, address + path, headers=ACCEPT).status_code == 404


def test_row21_a_password_guards_it(tmp_path: Path) -> None:
    engine = PaintingEngine()
    with serving(engine, tmp_path, auth="ann:open:sesame", mcp=True) as address:
        for auth in (None, ("ann", "open"), ("ann", ""), ("", "open:sesame"), ("bob", "open:sesame"), ("änn", "☃")):
            for body in (LIST, CALL):
                refused = httpx.post(f"{address}/mcp", json=body, headers=ACCEPT, auth=auth)
                assert refused.status_code == 401 and "tools" not in refused.text
        for version in ("2025-11-25", "2026-07-28"):
            headers = ACCEPT | {"mcp-protocol-version": version, "authorization": "Bearer open:sesame"}
            assert httpx.post(f"{address}/mcp", json=CALL, headers=headers).status_code == 401
        assert not engine.calls
        with connected(address, auth=("ann", "open:sesame")) as assistant:
            assert assistant.tools().keys() == TOOLS.keys()
            assert assistant.ask("generate", prompt="a field")[0]["picture_id"]
