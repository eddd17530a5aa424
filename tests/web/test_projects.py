"""Projects on the page and through its routes: saved, opened as a session of their own, and worked on."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from editing import TIMEOUT_MS, Editor
from painting_engine import PaintingEngine
from playwright.sync_api import expect
from starlette.testclient import TestClient
from test_limits import GONE, OWN, SILENCE, ask, run, send_to
from test_session import finish, mask_file

from editor.autosave import SessionStore
from editor.project_files import MAX_BYTES
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.sessions import Sessions
from editor.snapshot import Draft
from editor.web.body_limits import BodyLimits, Limits
from editor.web.serve import build_app

SIZE = (128, 96)
PROJECT = "/sessions/key/project"


@pytest.fixture
def engine() -> PaintingEngine:
    return PaintingEngine()


@pytest.fixture
def sessions(engine: PaintingEngine, tmp_path: Path) -> Iterator[Sessions]:
    store = SessionStore(tmp_path / "sessions")
    yield Sessions(engine, store)
    store.close()


@pytest.fixture
def client(sessions: Sessions, tmp_path: Path) -> TestClient:
    app, _ = build_app(sessions, "127.0.0.1", 7860, tmp_path / "outputs")
    return TestClient(app, OWN)


def worked_on(sessions: Sessions) -> str:
    """The key of a session with two versions, a mask, and a take that waits."""
    session = sessions.enter(None)
    finish(session.generate(GenerateRequest("a field", size=SIZE)))
    finish(session.edit(mask_file(), EditRequest("a cactus")))
    session.keep()
    session.paint(Draft(3, 4, mask_file(size=(100, 80))), EditRequest("a cactus"), settled=True)
    finish(session.edit(mask_file((50, 50, 80, 80)), EditRequest("a palm")))
    return session.key


def told(session: EditSession) -> list[Any]:
    """All that JSON can hold of the history."""
    entries = [(e.id, e.parent_id, e.name, e.made, e.report, e.settings) for e in session.history]
    return json.loads(json.dumps(entries))


def save(client: TestClient, key: str) -> bytes:
    answer = client.post(f"/sessions/{key}/save")
    assert answer.status_code == 200, answer.text
    sent = client.get(f"/sessions/{key}/saved.deltabrush")
    assert f'filename="{answer.json()["name"]}"' in sent.headers["content-disposition"]
    return sent.content


def test_a_project_opens_as_a_session_of_its_own_and_is_edited_as_it_was(client, sessions, engine, tmp_path) -> None:
    key = worked_on(sessions)
    data = save(client, key)
    [saved] = (tmp_path / "outputs").rglob("*.deltabrush")
    assert saved.read_bytes() == data and re.fullmatch(r"\d{4}-\d+\.deltabrush", saved.name)
    before = sessions.get(key)
    engine.calls.clear()
    answer = client.post(f"/sessions/{key}/project?name=work.deltabrush", content=data)
    assert answer.status_code == 200 and engine.calls == []  # nothing is computed before it is needed
    after = sessions.get(answer.json()["key"])
    assert after is not before and sessions.get(key) is before and before.proposal is not None
    assert told(after) == told(before)
    assert all(a.image.tobytes() == b.image.tobytes() for a, b in zip(after.history, before.history, strict=True))
    assert after.current.id == before.current.id and after.draft == before.draft and after.other_model is None
    finish(after.edit(mask_file(), EditRequest("a castle")))
    assert engine.calls == ["restore", "edit"]
    after.keep()
    assert np.asarray(after.current.image).shape == (SIZE[1], SIZE[0], 3)
    with zipfile.ZipFile(io.BytesIO(save(client, after.key))) as archive:  # restored versions are told as before
        assert {*zipfile.ZipFile(saved).namelist()} < {*archive.namelist()}


def test_what_was_opened_outlives_the_program(client, sessions, engine, tmp_path) -> None:
    data = save(client, worked_on(sessions))
    key = client.post(f"/sessions/{worked_on(sessions)}/project", content=data).json()["key"]
    store = SessionStore(tmp_path / "sessions")
    sessions._store.flush()
    again = Sessions(engine, store).get(key)
    assert [e.id for e in again.history] == [e.id for e in sessions.get(key).history]
    finish(again.edit(mask_file(), EditRequest("a castle")))
    assert engine.calls[-2:] == ["restore", "edit"]
    store.close()


def test_of_another_model_the_pictures_open_and_its_versions_are_kept(client, sessions, engine, tmp_path) -> None:
    data = save(client, worked_on(sessions))
    engine.model_name = "another"
    key = client.post(f"/sessions/{worked_on(sessions)}/project", content=data).json()["key"]
    session = sessions.get(key)
    assert session.other_model == "painted" and len(session.history) == 2
    finish(session.edit(mask_file(), EditRequest("a castle")))
    assert engine.calls[-2:] == ["open", "edit"]
    engine.model_name = "painted"
    again = client.post(f"/sessions/{key}/project", content=save(client, key)).json()["key"]
    finish(sessions.get(again).edit(mask_file(), EditRequest("a castle")))
    assert engine.calls[-2:] == ["restore", "edit"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"", "is not a Deltabrush project"), (b"hello", "is not a Deltabrush project"), (b"PK\3\4", "is damaged")],
)
def test_a_file_that_is_no_project_changes_nothing(client, sessions, data: bytes, sentence: str) -> None:
    key = worked_on(sessions)
    answer = client.post(f"/sessions/{key}/project?name=../x.deltabrush", content=data)
    assert answer.status_code == 404 and answer.text.startswith(f"x.deltabrush {sentence}")
    assert list(sessions._sessions) == [key]


def test_strangers_and_empty_sessions(client, sessions, tmp_path) -> None:
    for answer in [
        client.post("/sessions/nobody/save"),
        client.get("/sessions/nobody/saved.deltabrush"),
        client.post("/sessions/nobody/project", content=b"PK\3\4"),
        client.post(f"/sessions/{sessions.enter(None).key}/save"),
        client.get(f"/sessions/{sessions.enter(None).key}/saved.deltabrush"),
    ]:
        assert answer.status_code == 404 and answer.text.endswith(".")
    assert not list(tmp_path.rglob("*.deltabrush"))


def test_a_full_disk_is_said_and_leaves_nothing(client, sessions, tmp_path, monkeypatch) -> None:
    key = worked_on(sessions)
    sessions._store.flush()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr("os.fsync", full)
        answer = client.post(f"/sessions/{key}/save")
    assert answer.status_code == 404 and "could not be written (No space left on device)" in answer.text
    assert not [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]
    assert save(client, key)


# ---- limits

LIMITS = Limits(project=1000, other=100, held=100)


@pytest.mark.parametrize("split", [1000, 7])
def test_a_project_goes_to_a_file_without_a_name(tmp_path: Path, split: int) -> None:
    files = []

    class Reading:
        async def __call__(self, scope, receive, send) -> None:
            assert (await receive())["body"] == b"" and not list(tmp_path.rglob("*.*"))
            files.append(scope["body_file"].read())
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    data = bytes(range(250)) * 4
    chunks = [data[start : start + split] for start in range(0, len(data), split)]
    assert run(send_to(BodyLimits(Reading(), tmp_path / "new", LIMITS), PROJECT, chunks)) == 204
    assert files == [data]  # more than may be held in memory
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("chunks", "options", "status"),
    [
        ([bytes(1001)], {}, 413),
        ([bytes(10)] * 101, {"declared": 5}, 413),
        ([SILENCE], {"declared": 1001}, 413),
        ([bytes(10), GONE], {}, None),
    ],
    ids=["too-large", "too-large-by-and-by", "declared-too-large", "gone"],
)
def test_row23_projects_have_limits_of_their_own(tmp_path: Path, chunks, options, status) -> None:
    assert ask(tmp_path, PROJECT, chunks, LIMITS, **options) == (status, [])
    assert not list(tmp_path.iterdir())


def test_row23_projects_count_for_the_room_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "stored").write_bytes(bytes(10_000))
    full = Limits(project=MAX_BYTES, stored=20_000)
    assert ask(tmp_path, PROJECT, [b"PK"], full, declared=9_000)[0] == 507
    assert ask(tmp_path, PROJECT, [b"PK"], full, declared=2)[0] == 204
    assert ask(tmp_path, PROJECT, [b"PK"], full)[0] == 507  # it may become as large as is allowed


def test_row23_a_slow_project_is_given_up(tmp_path: Path) -> None:
    slow = Limits(seconds=0.2, slowest=10**6)
    assert ask(tmp_path, PROJECT, [bytes(10), SILENCE], slow) == (408, [])
    assert not list(tmp_path.iterdir())


# ---- the page


@pytest.mark.browser
def test_save_on_the_page_open_in_a_fresh_session_and_go_on(painting_server, visit, tmp_path: Path) -> None:
    _, address, _ = painting_server
    first = Editor(visit(address))
    assert first.page.locator("#top .save").is_disabled()
    first.generate("a field")
    first.stroke((40, 40), (60, 50))
    first.paint("a cactus")
    first.keep()
    picture = first.version().tobytes()
    with first.page.expect_download() as saving:
        first.press("Control+s")
    file = tmp_path / "work.zip"  # whatever it is called
    saving.value.save_as(file)
    assert saving.value.suggested_filename.endswith(".deltabrush")

    fresh = Editor(visit(address))
    fresh.generate("a town")
    left = fresh.page.evaluate("sessionStorage.getItem('deltabrush-session')")
    fresh.page.locator('#top input[type="file"]').set_input_files(file)
    expect(fresh.versions()).to_have_count(2, timeout=TIMEOUT_MS)
    now = fresh.page.evaluate("sessionStorage.getItem('deltabrush-session')")
    assert now != left and fresh.version().tobytes() == picture
    expect(fresh.page.locator("#go")).to_have_text("Paint it")
    fresh.stroke((90, 60), (100, 70))
    fresh.paint("a palm")
    fresh.keep()
    expect(fresh.versions()).to_have_count(3)

    as_the_command_line_asks = "key => { location.hash = `session=${key}`; location.reload(); }"
    fresh.page.evaluate(as_the_command_line_asks, left)
    expect(fresh.versions()).to_have_count(1, timeout=TIMEOUT_MS)  # nothing was replaced
    assert "#" not in fresh.page.url


@pytest.mark.browser
def test_a_damaged_project_is_said_and_text_fields_keep_their_keys(painting_server, visit) -> None:
    editor = Editor(visit(painting_server[1]))
    editor.generate("a field")
    editor.page.locator('#top input[type="file"]').set_input_files(
        {"name": "mine.deltabrush", "mimeType": "application/octet-stream", "buffer": b"PK\3\4 and no more"}
    )
    expect(editor.page.get_by_text("mine.deltabrush is damaged")).to_be_visible(timeout=TIMEOUT_MS)
    expect(editor.versions()).to_have_count(1)
    taken = """keys => new Promise(done => {
        const field = document.querySelector("#prompt textarea");
        const event = new KeyboardEvent("keydown", { key: "s", ctrlKey: true, bubbles: true, cancelable: true });
        field.dispatchEvent(event);
        done(event.defaultPrevented);
    })"""
    assert editor.page.evaluate(taken) is False
