"""Checking a take, and what caches hold, as a person finds them on the page."""

from __future__ import annotations

import pytest
from editing import Editor, picture_file
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def editor(address: str, visit) -> Editor:
    editor = Editor(visit(address))
    editor.open(picture_file((128, 96)))
    return editor


def paint(editor: Editor) -> None:
    editor.stroke((20, 30), (60, 30), size=16)
    editor.paint("a cactus")


def test_a_take_is_checked_and_the_dense_one_taken(editor: Editor) -> None:
    paint(editor)
    expect(editor.takes()).to_have_count(1)
    editor.page.get_by_role("button", name="Check").click()
    expect(editor.takes()).to_have_count(2)
    expect(editor.takes().nth(1)).to_have_attribute("data-mark", "dense")
    expect(editor.takes().nth(0)).to_have_attribute("aria-pressed", "true")
    expect(editor.page.locator("#status")).to_contain_text("30.1 dB to the dense result")
    editor.takes().nth(1).click()
    expect(editor.page.locator("#status")).to_contain_text("dense")
    editor.keep()


def test_what_caches_hold_is_told_dropped_and_recorded_anew(engine, editor: Editor) -> None:
    paint(editor)
    editor.keep()
    editor.page.locator("#top .memory").click()
    dialog = editor.page.locator("#top dialog.caches")
    rows = dialog.locator("tr", has=editor.page.locator("button"))
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("a cactus")
    expect(rows.nth(1)).to_contain_text("25 MB")
    expect(dialog).to_contain_text("of 1000 MB")
    rows.nth(1).get_by_role("button", name="Record anew").click()
    expect(rows.nth(1)).to_contain_text("26 MB")
    rows.nth(0).get_by_role("button", name="Drop").click()
    expect(rows).to_have_count(1)
    assert engine.calls.count("refresh") == engine.calls.count("drop_cache") == 1
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(editor.versions()).to_have_count(2)


def test_only_pictures_of_the_own_session_can_be_dropped(engine, editor: Editor) -> None:
    key = editor.page.evaluate("sessionStorage.getItem('deltabrush-session')")
    answer = editor.page.request.delete(f"{editor.page.url.rstrip('/')}/sessions/{key}/memory/nothing")
    assert answer.status == 404 and answer.text() == "Nothing is kept of that picture."
    assert "drop_cache" not in engine.calls
