"""What the editor's server refuses to be started with."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from diffusion_engine import UserError
from editor.settings import Settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_this_machine_needs_no_password(host: str) -> None:
    assert Settings(host=host).auth is None


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "", "example.org", "localhost.example.org", "127.0.0.1.x"]
)
def test_other_machines_need_one(host: str) -> None:
    with pytest.raises(UserError, match="add --auth USER:PASSWORD, or leave --host out"):
        Settings(host=host)
    assert Settings(host=host, auth="anna:secret").host == host


@pytest.mark.parametrize("auth", ["", "anna", ":", "anna:", ":secret"])
def test_half_a_password_is_none(auth: str) -> None:
    with pytest.raises(UserError, match="--auth must be a user and a password"):
        Settings(auth=auth)


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"port": 0}, "--port"),
        ({"port": 65536}, "--port"),
        ({"port": -1}, "--port"),
        ({"cache_memory_bytes": -1}, "--cache-memory"),
        ({"cache_host_bytes": -1}, "--cache-host"),
        ({"cache_disk_bytes": -1}, "--cache-disk"),
        ({"output_dir": Path(__file__)}, "--output-dir"),
        ({"cache_dir": Path(__file__)}, "--cache-dir"),
    ],
    ids=str,
)
def test_the_flag_to_change_is_named(given: dict[str, Any], flag: str) -> None:
    with pytest.raises(UserError, match=flag):
        Settings(**given)


def test_the_password_is_not_printed() -> None:
    assert "secret" not in repr(Settings(auth="anna:secret"))


def test_a_password_may_hold_colons() -> None:
    assert Settings(host="0.0.0.0", auth="anna:a:b").auth == "anna:a:b"


def test_serving_assistants_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(mcp=True).mcp and not Settings().mcp
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with pytest.raises(UserError, match=re.escape("pip install 'deltabrush[mcp]'")):
        Settings(mcp=True)
    assert not Settings().mcp
