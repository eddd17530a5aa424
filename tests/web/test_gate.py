"""Who may talk to the server: exact Host, own Origin, no requests on behalf of another site."""

from __future__ import annotations

import pytest
from painting_engine import PaintingEngine
from starlette.testclient import TestClient

from editor.sessions import Sessions
from editor.web.gate import allowed_hosts
from editor.web.serve import build_app

HOST = "127.0.0.1:7860"
OWN = "http://127.0.0.1:7860"
FOLLOWED_LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory):
    app, _ = build_app(Sessions(PaintingEngine()), "127.0.0.1", 7860, tmp_path_factory.mktemp("outputs"))
    with TestClient(app, base_url=OWN) as client:
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="own-host"),
        pytest.param({"host": "localhost:7860"}, 200, id="own-host-by-name"),
        pytest.param({"host": "LOCALHOST:7860"}, 200, id="host-in-capitals"),
        pytest.param({"host": "[::1]:7860"}, 200, id="own-host-ipv6"),
        pytest.param({"host": "evil.test"}, 403, id="foreign-host"),
        pytest.param({"host": "evil.test:7860"}, 403, id="foreign-host-right-port"),
        pytest.param({"host": "127.0.0.1"}, 403, id="missing-port"),
        pytest.param({"host": "127.0.0.1:7861"}, 403, id="other-port"),
        pytest.param({"host": "127.0.0.1:7860.evil.test"}, 403, id="look-alike-host"),
        pytest.param({"host": ""}, 403, id="empty-host"),
        pytest.param({"x-forwarded-host": "evil.test"}, 200, id="forwarded-host-is-not-believed"),
        pytest.param({"origin": OWN}, 200, id="own-origin"),
        pytest.param({"origin": "https://evil.test"}, 403, id="foreign-origin"),
        pytest.param({"origin": "null"}, 403, id="null-origin"),
        pytest.param({"origin": "http://127.0.0.1:7861"}, 403, id="origin-on-other-port"),
        pytest.param({"origin": "http://127.0.0.1:7860.evil.test"}, 403, id="look-alike-origin"),
        pytest.param({"origin": "http://localhost:7860"}, 403, id="origin-under-another-name"),
        pytest.param({"host": "evil.test:7860", "origin": "http://evil.test:7860"}, 403, id="rebinding"),
        pytest.param({"sec-fetch-site": "same-origin"}, 200, id="same-origin-fetch"),
        pytest.param({"sec-fetch-site": "none"}, 200, id="typed-address"),
        pytest.param({"sec-fetch-site": "cross-site"}, 403, id="cross-site-fetch"),
        pytest.param({"sec-fetch-site": "same-site"}, 403, id="another-port-of-this-machine"),
        pytest.param(FOLLOWED_LINK, 200, id="followed-link"),
        pytest.param({**FOLLOWED_LINK, "sec-fetch-dest": "iframe"}, 403, id="framed-by-another-site"),
    ],
)
def test_reading(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/", headers=headers).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": "https://evil.test"}, id="foreign"),
        pytest.param({"origin": "null"}, id="null"),
        pytest.param(FOLLOWED_LINK, id="form"),
        pytest.param({"host": "evil.test"}, id="rebinding"),
    ],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/gradio_api/upload", {"files": {"files": ("a.png", b"data")}}, id="upload"),
        pytest.param("/gradio_api/call/generate", {"json": {"data": []}}, id="call"),
        pytest.param("/gradio_api/queue/join", {"json": {"data": [], "fn_index": 0, "session_hash": "a"}}, id="queue"),
        pytest.param("/sessions/any/upload", {"content": b"data"}, id="picture"),
    ],
)
def test_writing_from_another_site(client: TestClient, path: str, body: dict, headers: dict[str, str]) -> None:
    answer = client.post(path, headers=headers, **body)
    assert answer.status_code == 403
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/", "/config", "/theme.css", "/no-such-page", "/sessions/any/pictures/v1.png"])
def test_every_answer_carries_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


def test_two_host_headers_are_refused(client: TestClient) -> None:
    assert client.get("/", headers=[("host", HOST), ("host", "evil.test")]).status_code == 403


def test_hosts_of_a_server_open_to_the_network() -> None:
    hosts = allowed_hosts("0.0.0.0", 7860)
    assert {"127.0.0.1:7860", "localhost:7860", "[::1]:7860"} < hosts
    assert not {"0.0.0.0:7860", "evil.test:7860"} & hosts


def test_port_80_is_left_out_by_browsers() -> None:
    assert {"localhost", "localhost:80"} < allowed_hosts("127.0.0.1", 80)


def test_a_password_guards_the_page_and_its_calls(tmp_path_factory: pytest.TempPathFactory) -> None:
    outputs = tmp_path_factory.mktemp("outputs")
    app, _ = build_app(Sessions(PaintingEngine()), "127.0.0.1", 7860, outputs, auth="ann:open:sesame")
    with TestClient(app, base_url=OWN) as client:
        call = {"json": {"data": ["a field"]}}
        assert client.get("/config").status_code == client.post("/gradio_api/call/generate", **call).status_code == 401
        assert client.post("/login", data={"username": "ann", "password": "open"}).status_code == 400
        assert client.post("/login", data={"username": "ann", "password": "open:sesame"}).status_code == 200
        assert client.get("/config").status_code == 200
