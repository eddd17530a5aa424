"""Who may talk to the server, what it opens to whom, and what no answer of it ever lets a browser do."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from editing import Editor
from painting_engine import PaintingEngine
from PIL import Image
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from editor.requests import GenerateRequest
from editor.sessions import Sessions
from editor.web.gate import allowed_hosts
from editor.web.serve import build_app

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1:7860"
OWN = f"http://{HOST}"
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
SECRET = "nobody may read this"
JOIN = {"data": [None, "a field", "", 96, 64, 4, 4.0, 3], "fn_index": 0, "session_hash": "a"}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The whole application, one session with a picture, and the folders it writes to."""
    uploads, outputs = tmp_path_factory.mktemp("uploads"), tmp_path_factory.mktemp("outputs")
    engine = PaintingEngine()
    sessions = Sessions(engine)
    session = sessions.enter(None)
    list(session.generate(GenerateRequest("a field", size=(96, 64))))
    engine.calls.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(uploads))
        app, gradio = build_app(sessions, "127.0.0.1", 7860, outputs, mcp=True)

    async def with_raw_target(scope, receive, send) -> None:
        target = Headers(scope=scope).get("x-target") if scope["type"] == "http" else None
        raw = {"path": unquote(target), "raw_path": target.encode()} if target else {}
        await app({**scope, **raw}, receive, send)

    with TestClient(with_raw_target, base_url=OWN, raise_server_exceptions=False) as client:
        yield SimpleNamespace(
            client=client,
            engine=engine,
            sessions=sessions,
            session=session,
            picture=f"/sessions/{session.key}/pictures/{session.current.id}.png",
            gradio=gradio,
            uploads=uploads,
            outputs=outputs,
        )


def requests(editor: SimpleNamespace) -> dict[str, tuple[str, str, dict]]:
    """What a stranger would ask for, by name: method, path, body."""
    form = {"files": {"files": ("a.png", b"data")}}
    return {
        "index": ("GET", "/", {}),
        "config": ("GET", "/config", {}),
        "picture": ("GET", editor.picture, {}),
        "our-upload": ("POST", f"/sessions/{editor.session.key}/upload", {"content": b"data"}),
        "gradio-upload": ("POST", "/gradio_api/upload", form),
        "queue": ("POST", "/gradio_api/queue/join", {"json": JOIN}),
        "call": ("POST", "/gradio_api/call/generate", {"json": {"data": JOIN["data"][1:]}}),
        "mcp": ("POST", "/mcp", {"json": {"jsonrpc": "2.0", "id": 1, "method": "ping"}}),
    }


HOSTS = [
    pytest.param("evil.test", id="foreign"),
    pytest.param("evil.test:7860", id="rebinding"),
    pytest.param("127.0.0.1.evil.test:7860", id="rebinding-look-alike"),
    pytest.param("127.0.0.1:7860.evil.test", id="own-as-a-subdomain"),
    pytest.param("localhost.:7860", id="trailing-dot"),
    pytest.param("evil.test@127.0.0.1:7860", id="with-a-user"),
    pytest.param("127.0.0.1:7860, evil.test", id="list"),
    pytest.param("127.0.0.1", id="missing-port"),
    pytest.param("localhost", id="missing-port-by-name"),
    pytest.param("127.0.0.1:", id="empty-port"),
    pytest.param("127.0.0.1:7861", id="other-port"),
    pytest.param("127.0.0.1:07860", id="port-in-another-spelling"),
    pytest.param("127.1:7860", id="address-in-another-spelling"),
    pytest.param("0.0.0.0:7860", id="any-address"),
    pytest.param("", id="empty"),
]
ORIGINS = [
    pytest.param("https://evil.test", id="foreign"),
    pytest.param("null", id="null"),
    pytest.param("", id="empty"),
    pytest.param("http://localhost.evil.test", id="look-alike"),
    pytest.param("http://127.0.0.1:7860.evil.test", id="own-as-a-subdomain"),
    pytest.param("http://evil.test:7860", id="own-port"),
    pytest.param("http://127.0.0.1:7861", id="other-port"),
    pytest.param("http://127.0.0.1", id="missing-port"),
    pytest.param("https://127.0.0.1:7860", id="https"),
    pytest.param("http://localhost:7860", id="another-name-of-ours"),
    pytest.param("http://127.0.0.1.:7860", id="trailing-dot"),
    pytest.param("http://127.0.0.1:7860/", id="trailing-slash"),
    pytest.param("http://127.0.0.1:7860@evil.test", id="own-as-a-user"),
    pytest.param("http://evil.test@127.0.0.1:7860", id="with-a-user"),
    pytest.param("http://127.0.0.1:7860 https://evil.test", id="list"),
    pytest.param("file://", id="file"),
    pytest.param("chrome-extension://abcdefghijklmnop", id="extension"),
]
SITES = [
    pytest.param({"sec-fetch-site": "cross-site"}, id="cross-site"),
    pytest.param({"sec-fetch-site": "same-site"}, id="another-port-of-this-machine"),
    pytest.param({"sec-fetch-site": "Same-Origin"}, id="not-a-browsers-spelling"),
    pytest.param({**LINK, "sec-fetch-dest": "iframe"}, id="framed"),
    pytest.param({**LINK, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, id="image"),
    pytest.param({**LINK, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, id="script"),
]
TARGETS = ["index", "config", "picture", "our-upload", "gradio-upload", "queue", "call", "mcp"]


def assert_refused(editor: SimpleNamespace, target: str, headers) -> None:
    method, path, body = requests(editor)[target]
    answer = editor.client.request(method, path, headers=headers, **body)
    assert answer.status_code == 403 and answer.headers["content-type"].startswith("text/plain")
    assert not any(editor.uploads.iterdir()) and editor.session.upload is None
    assert not editor.engine.calls and not editor.gradio.get_blocks()._queue.event_ids_to_events


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("host", HOSTS)
def test_row19_a_host_that_is_not_ours_is_refused(editor, target: str, host: str) -> None:
    assert_refused(editor, target, {"host": host})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hosts", [(HOST, "evil.test"), ("evil.test", HOST), (HOST, HOST)])
def test_row19_two_hosts_are_refused(editor, target: str, hosts: tuple[str, str]) -> None:
    assert_refused(editor, target, [("host", host) for host in hosts])


@pytest.mark.parametrize("host", [HOST, "localhost:7860", "LOCALHOST:7860", "[::1]:7860"])
def test_row19_every_name_of_ours_is_let_in(editor, host: str) -> None:
    headers = {"host": host, "origin": f"http://{host.lower()}", "x-forwarded-host": "evil.test"}
    assert editor.client.get("/config", headers=headers).status_code == 200


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("origin", ORIGINS)
def test_row20_another_origin_is_refused(editor, target: str, origin: str) -> None:
    assert_refused(editor, target, {"origin": origin})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("origins", [(OWN, "https://evil.test"), ("https://evil.test", OWN)])
def test_row20_two_origins_are_refused(editor, target: str, origins: tuple[str, str]) -> None:
    assert_refused(editor, target, [("origin", origin) for origin in origins])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("headers", SITES)
def test_row20_what_a_browser_sends_for_another_site_is_refused(editor, target: str, headers: dict[str, str]) -> None:
    assert_refused(editor, target, headers)


@pytest.mark.parametrize("target", TARGETS)
def test_row20_a_link_from_another_site_leads_to_the_page_only(editor, target: str) -> None:
    if target != "index":
        assert_refused(editor, target, LINK)
    else:
        assert editor.client.get("/?__theme=dark", headers=LINK).status_code == 200


@pytest.mark.parametrize("headers", [{"origin": OWN, "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {}])
def test_row20_our_own_page_and_programs_are_let_in(editor, headers: dict[str, str]) -> None:
    form = {"files": ("a.png", b"data")}
    answer = editor.client.post("/gradio_api/upload", files=form, headers=headers)
    stored = Path(answer.json()[0])
    assert answer.status_code == 200 and stored.parent.parent == editor.uploads
    stored.unlink()
    stored.parent.rmdir()


@pytest.mark.parametrize("headers", [{"host": "evil.test"}, {"origin": "https://evil.test"}, {"origin": OWN}])
def test_row20_websockets_are_refused(editor, headers: dict[str, str]) -> None:
    refused = pytest.raises(WebSocketDisconnect)
    with refused as closed, editor.client.websocket_connect("/gradio_api/queue/join", headers=headers):
        pass
    assert closed.value.code == 1008


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "evil.test", "127.0.0.1.evil.test", "localhost."])
def test_row21_only_loopback_is_opened_without_a_password(host: str) -> None:
    script = """if True:
        import sys
        sockets = []
        sys.addaudithook(lambda event, args: event.startswith("socket.") and sockets.append(event))
        from editor.cli import main
        code = main(sys.argv[1:])
        print(sockets)
        sys.exit(code)
    """
    command = [sys.executable, "-c", script, "--host", host, "--no-browser"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "[]\n")
    assert "--auth" in done.stderr and "Traceback" not in done.stderr


FILES = [
    "/gradio_api/file={file}",
    "/gradio_api/file=//{file}",
    "/gradio_api/file={outputs}/link.png",
    "/gradio_api/file={uploads}/link.png",
    "/gradio_api/file={uploads}/../../../../../../../../..{file}",
    "/gradio_api/file=file://{file}",
    "/gradio_api/file=http://127.0.0.1:7860/config",
    "/gradio_api/file/{file}",
    "/gradio_api/proxy=http://127.0.0.1:7860/config",
    "/gradio_api/custom_component/{file}",
    "/gradio_api/stream/../{file}",
    "/assets/../../../../../../../../../..{file}",
    "/assets/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e{file}",
    "/assets/{file}",
    "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e{file}",
    "/static/{file}",
    "/svelte/../../../../../../../../../..{file}",
    "/{scripts}/..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2f..{file}",
    "/{scripts}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e{file}",
    "/{scripts}/%252e%252e/serve.py",
    "/{scripts}/../serve.py",
    "/{scripts}/..%5cserve.py",
    "/{scripts}//{file}",
    "/{scripts}/%00",
    "/outputs/link.png",
    "/sessions/{key}/exports/link.png",
    "/sessions/{key}/exports/..%2flink.png",
    "/sessions/{key}/pictures/..%2f..%2flink.png",
    "/sessions/{key}/pictures/%2e%2e%2f{file}.png",
    "/sessions/{key}/thumbnails/{file}.jpg",
    "/sessions/..%2f{key}/pictures/link.png",
    "/sessions//pictures/link.png",
]


@pytest.mark.parametrize("address", FILES)
def test_row22_no_address_leads_to_a_file_of_the_machine(editor, tmp_path: Path, address: str) -> None:
    secret = tmp_path / "secret.png"
    secret.write_text(SECRET)
    for folder in (editor.outputs, editor.uploads):
        (folder / "link.png").unlink(missing_ok=True)
        (folder / "link.png").symlink_to(secret)
    target = address.format(
        file=secret, outputs=editor.outputs, uploads=editor.uploads, key=editor.session.key, scripts="scripts"
    )
    answer = editor.client.get("/", headers={"x-target": target})  # as it is: a client would tidy up the dots
    (editor.uploads / "link.png").unlink()
    assert answer.status_code in (403, 404)
    assert SECRET not in answer.text and "def " not in answer.text and "components" not in answer.text


def test_row22_scripts_and_pictures_are_served(editor) -> None:
    """Or else the addresses above would prove nothing."""
    assert editor.client.get("/scripts/canvas/start.js").status_code == 200
    assert Image.open(io.BytesIO(editor.client.get(editor.picture).content)).size == (96, 64)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        ("a.html", b"<script>alert(1)</script>"),
        ("a.xhtml", b'<html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>'),
        ("a.png", b"<script>alert(1)</script>"),
    ],
)
def test_row22_what_was_uploaded_is_never_shown_by_a_browser(editor, name: str, data: bytes) -> None:
    [stored] = editor.client.post("/gradio_api/upload", files={"files": (name, data)}).json()
    try:
        answer = editor.client.get(f"/gradio_api/file={stored}")
        assert answer.status_code == 404 and data not in answer.content
    finally:
        Path(stored).unlink()
        Path(stored).parent.rmdir()


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/a.png", "https://away.example.test/a.png"])
def test_row22_the_editor_fetches_nothing_for_a_caller(editor, address: str) -> None:
    calls, picture = "/gradio_api/call", {"path": address, "meta": {"_type": "gradio.FileData"}}
    editor.client.get("/gradio_api/info").raise_for_status()  # from then on arguments may be named
    event = editor.client.post(f"{calls}/v2/open", json={"picture": picture}).json()["event_id"]
    answer = editor.client.get(f"{calls}/open/{event}").text
    assert answer.startswith("event: error") and "not from an address" in answer
    assert not any(path.name != "link.png" for path in editor.uploads.iterdir())


@pytest.mark.parametrize("route", ["component_server", "process_recording", "deep_link", "vibe-edit", "dev/reload"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_row22_routes_that_the_editor_does_not_use_are_shut(editor, route: str, method: str) -> None:
    assert editor.client.request(method, f"/gradio_api/{route}?session_hash=a").status_code == 404


ANSWERS = [
    ("GET", "/", 200),
    ("GET", "/config", 200),
    ("GET", "/theme.css", 200),
    ("GET", "/scripts/canvas/start.js", 200),
    ("GET", "/no-such-page", 404),
    ("GET", "/gradio_api/no-such-route", 404),
    ("GET", "/sessions/any/pictures/v1.png", 404),
    ("POST", "/config", 405),
    ("POST", "/gradio_api/queue/join", 422),
    ("OPTIONS", "/config", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_every_answer_carries_the_security_headers(editor, method: str, path: str, status: int) -> None:
    assert_security_headers(editor.client.request(method, path), status, path)


@pytest.mark.parametrize("path", ["/", "/config"])
def test_refusals_carry_the_security_headers(editor, path: str) -> None:
    assert_security_headers(editor.client.get(path, headers={"host": "evil.test"}), 403, path)


def assert_security_headers(answer, status: int, path: str) -> None:
    headers = answer.headers
    assert answer.status_code == status
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    policy = {name: values for name, *values in map(str.split, headers["content-security-policy"].split(";"))}
    assert policy["frame-ancestors"] == ["'none'"]
    if path == "/":
        assert policy["object-src"] == ["'none'"] and policy["base-uri"] == policy["form-action"] == ["'self'"]
        assert not {"*", "http:", "https:"} & {value for values in policy.values() for value in values}
    else:
        assert policy["default-src"] == ["'none'"] and policy["sandbox"] == []


@pytest.mark.browser
def test_the_page_works_within_its_content_security_policy(address: str, contexts, visit) -> None:
    watched, said = contexts(locale="en-GB"), []
    watched.on("console", lambda message: said.append(message.text))
    watched.add_init_script(
        "window.blocked = []; addEventListener('securitypolicyviolation', event => blocked.push(event.blockedURI))"
    )
    page = visit(address, locale="en-GB")
    Editor(page).generate("a field")
    assert page.evaluate("blocked") == [] and not [text for text in said if "Content Security Policy" in text]

    page.evaluate("fetch('http://127.0.0.1:9/away').catch(() => null)")  # or else the list would prove nothing
    page.wait_for_function("blocked.includes('http://127.0.0.1:9/away')")


def test_row27_a_mistake_of_ours_is_told_by_a_number(editor, monkeypatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*args, **kwargs):
        raise RuntimeError(f"{SECRET} {ROOT}")

    monkeypatch.setattr(editor.sessions, "get", fail)
    monkeypatch.setattr(editor.gradio.get_blocks()._queue, "push", fail)
    calls = requests(editor)
    for method, path, body in (calls["picture"], calls["our-upload"], calls["queue"], calls["call"]):
        with caplog.at_level(logging.ERROR):
            answer = editor.client.request(method, path, **body)
        number = re.search(r"number ([0-9a-f]{6}) in its log", answer.text)
        assert answer.status_code == 500 and number and len(answer.text) < 200
        assert SECRET not in answer.text and "Traceback" not in answer.text and str(ROOT) not in answer.text
        [record] = [record for record in caplog.records if number[1] in record.getMessage()]
        assert record.exc_info and SECRET in str(record.exc_info[1])


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_row27_no_answer_names_a_path_of_the_server(editor, method: str, path: str, status: int) -> None:
    text = editor.client.request(method, path).text
    for folder in (ROOT, Path.home(), Path(sys.prefix), editor.outputs, editor.uploads):
        assert str(folder) not in text


def test_hosts_of_a_server_open_to_the_network() -> None:
    hosts = allowed_hosts("0.0.0.0", 7860)
    assert {"127.0.0.1:7860", "localhost:7860", "[::1]:7860"} < hosts
    assert not {"0.0.0.0:7860", "evil.test:7860"} & hosts


def test_port_80_is_left_out_by_browsers() -> None:
    assert {"localhost", "localhost:80"} < allowed_hosts("127.0.0.1", 80)


def test_a_password_guards_the_page_and_its_calls(tmp_path: Path) -> None:
    app, _ = build_app(Sessions(PaintingEngine()), "127.0.0.1", 7860, tmp_path, auth="ann:open:sesame")
    with TestClient(app, base_url=OWN) as client:
        call = {"json": {"data": ["a field"]}}
        assert client.get("/config").status_code == client.post("/gradio_api/call/generate", **call).status_code == 401
        assert client.post("/login", data={"username": "ann", "password": "open"}).status_code == 400
        assert client.post("/login", data={"username": "ann", "password": "open:sesame"}).status_code == 200
        assert client.get("/config").status_code == 200
