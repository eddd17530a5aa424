"""The page with the keyboard alone: painting, choosing, finding out how; and text fields keep their keys."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from editing import Editor, differing
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def editor(address: str, visit) -> Editor:
    editor = Editor(visit(address))
    editor.generate("a field")
    return editor


def tab_to(editor: Editor, selector: str, limit: int = 80) -> None:
    """Presses Tab until the element has the focus."""
    for _ in range(limit):
        if editor.page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return
        editor.page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached with Tab")


def test_a_whole_edit_without_the_mouse(address: str, visit) -> None:
    editor = Editor(visit(address))
    keys = editor.page.keyboard
    tab_to(editor, "#prompt textarea")
    keys.type("a field")
    keys.press("Control+Enter")
    expect(editor.page.locator("#go")).to_have_text("Paint it")
    base = editor.picture()
    tab_to(editor, "#canvas canvas")
    keys.press("v")
    for key in ["ArrowRight", "ArrowRight", "ArrowDown"]:
        keys.press(key)
    keys.press("v")
    mask = editor.mask()
    assert mask[40:56, 60:90].any()
    tab_to(editor, "#prompt textarea")
    keys.press("Control+a")
    keys.type("a cactus")
    keys.press("Control+Enter")
    editor.page.locator("#keep").wait_for()
    editor.finish()
    tab_to(editor, "#canvas canvas")
    keys.press("Enter")
    expect(editor.versions()).to_have_count(2)
    changed = differing(editor.picture(), base)
    assert changed.any() and not changed[mask == 0].any()


@pytest.mark.parametrize("tool", ["rectangle", "ellipse", "lasso", "eraser"])
def test_every_tool_works_with_the_arrow_keys(editor: Editor, tool: str) -> None:
    if tool == "eraser":
        editor.press("i")  # everything is painted
    before = editor.mask()
    editor.press({"rectangle": "r", "ellipse": "o", "lasso": "l", "eraser": "e"}[tool])
    for key in ["v", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "v"]:
        editor.press(key)
    if tool in ("rectangle", "ellipse"):  # ends left of where it began, one step lower
        assert editor.mask().any()
    else:
        assert (editor.mask() != before).any()
    editor.press("Control+z")
    assert np.array_equal(editor.mask(), before)


def test_a_polygon_with_the_keys_and_enter(editor: Editor) -> None:
    editor.press("p")
    for key in ["v", "ArrowRight", "ArrowRight", "v", "ArrowDown", "ArrowDown", "v", "Enter"]:
        editor.press(key)
    assert editor.mask().any()
    expect(editor.versions()).to_have_count(1)  # Enter closed the polygon and kept nothing


@pytest.mark.parametrize(("key", "kept"), [("Enter", True), ("Backspace", False)])
def test_enter_keeps_and_backspace_drops(editor: Editor, key: str, kept: bool) -> None:
    editor.stroke((64, 48), (64, 48), size=20)
    mask = editor.mask()
    editor.paint("a cactus")
    editor.press(key)
    expect(editor.page.locator("#keep")).to_be_hidden()
    expect(editor.versions()).to_have_count(2 if kept else 1)
    assert np.array_equal(editor.mask(), mask if not kept else np.zeros_like(mask))


def test_numbers_show_the_takes(editor: Editor) -> None:
    editor.stroke((64, 48), (64, 48), size=20)
    editor.page.locator("#variations label").nth(2).click()
    editor.paint("a cactus")
    for key in ("3", "1", "2"):
        editor.press(key)
        expect(editor.takes().nth(int(key) - 1)).to_have_attribute("aria-pressed", "true")


def test_brush_size_follows_the_brackets(editor: Editor) -> None:
    size = editor.page.locator("#canvas .size")
    before = int(size.input_value())
    editor.press("]")
    larger = int(size.input_value())
    editor.press("[")
    assert before < larger and abs(int(size.input_value()) - before) <= 1
    for _ in range(40):
        editor.press("[")
    assert int(size.input_value()) == 1


def test_keys_are_never_stolen_from_text_fields(editor: Editor) -> None:
    everything = "bBeElLpProOfFiIgGcCvV[]?,.1234 "
    for selector in ["#prompt textarea", "#top .name"]:
        field = editor.page.locator(selector)
        field.fill("")
        field.press_sequentially(everything)
        expect(field).to_have_value(everything)
        editor.page.keyboard.press("Backspace")
        expect(field).to_have_value(everything[:-1])
    field = editor.page.locator("#prompt textarea")
    field.fill("")
    field.press_sequentially("abc")
    field.press("Control+z")
    expect(field).not_to_have_value("abc")  # the field's own undo
    expect(editor.page.locator('[data-tool="brush"]')).to_have_attribute("aria-pressed", "true")
    expect(editor.page.locator("#top dialog.shortcuts")).not_to_be_visible()
    assert not editor.mask().any()


def test_the_list_of_shortcuts_opens_with_a_question_mark_and_names_each_key_once(editor: Editor) -> None:
    editor.press("?")
    dialog = editor.page.locator("#top dialog.shortcuts")
    expect(dialog).to_be_visible()
    keys = dialog.locator("kbd").all_inner_texts()
    asked = "Ctrl+Enter Esc B E L [ ] Ctrl+Z Ctrl+Shift+Z Space Ctrl+0 Ctrl+1 Tab ?"
    assert set(asked.split()) <= set(keys)
    assert len(keys) == len(set(keys))
    assert all(re.search(r"\w", text) for text in dialog.locator("dd").all_inner_texts())
    editor.page.keyboard.press("b")  # the dialog has the keys now
    editor.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_everything_that_acts_has_a_name_for_screen_readers(editor: Editor) -> None:
    editor.page.locator("#more > button").click()
    editor.stroke((64, 48), (64, 48), size=20)
    editor.paint("a cactus")
    nameless = editor.page.evaluate("""() => {
        const visible = (element) => element.checkVisibility();
        const name = (element) => element.getAttribute("aria-label") || element.title || element.textContent.trim()
            || element.labels?.[0]?.textContent.trim() || element.closest("label")?.textContent.trim()
            || element.getAttribute("aria-labelledby") || element.placeholder || element.querySelector("img")?.alt;
        const all = document.querySelectorAll("button, input, textarea, select, canvas, a[href], summary");
        return [...all].filter((each) => visible(each) && !name(each)).map((each) => each.outerHTML.slice(0, 200));
    }""")
    assert nameless == []


def test_the_focus_is_seen(editor: Editor) -> None:
    tab_to(editor, "#canvas [data-tool]")
    style = editor.page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert style != "none"


def test_control_enter_runs_and_escape_stops_also_while_typing(engine, editor: Editor) -> None:
    editor.stroke((64, 48), (64, 48), size=20)
    engine.before_step = lambda step: time.sleep(0.3)
    field = editor.page.locator("#prompt textarea")
    field.fill("a cactus")
    field.press("Control+Enter")
    editor.page.locator("#stop").wait_for()
    field.press("Escape")
    expect(editor.message()).to_contain_text("Stopped")
