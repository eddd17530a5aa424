"""What will be recomputed, and what it is going to cost: shown while painting, real after the edit."""

from __future__ import annotations

import io
import re
import threading

import numpy as np
import pytest
from editing import Editor, picture_file
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
COST = "#cost p"


@pytest.fixture
def editor(address: str, visit) -> Editor:
    editor = Editor(visit(address))
    editor.generate("a field")
    return editor


def percent(editor: Editor) -> float:
    text = editor.page.locator(COST).inner_text()
    return float(re.search(r"(\d+) %", text)[1])


def test_the_cost_is_known_before_anything_is_pressed_and_goes_with_the_mask(editor: Editor) -> None:
    cost = editor.page.locator(COST)
    expect(cost).to_be_empty()
    editor.stroke((30, 30), (30, 30), size=16)
    expect(cost).to_contain_text("faster")
    small = percent(editor)
    editor.stroke((20, 20), (110, 80), size=40)
    editor.page.wait_for_function(
        "before => !document.querySelector('#cost p').textContent.includes(before)", arg=f" {small:.0f} %"
    )
    assert percent(editor) > small
    editor.press("Delete")
    expect(cost).to_be_empty()
    editor.press("Control+z")
    expect(cost).to_contain_text("faster")


def test_it_is_live_while_the_stroke_goes_on(editor: Editor) -> None:
    x, y = editor.on_screen((30, 30))
    editor.page.mouse.move(x, y)
    editor.page.mouse.down()
    editor.page.mouse.move(x + 40, y + 20, steps=5)
    expect(editor.page.locator(COST)).to_contain_text("faster")  # the button is still down
    editor.page.mouse.up()


@pytest.mark.parametrize(("setting", "change"), [("variations", "more"), ("mode", "all"), ("grow", "more")])
def test_it_follows_the_settings(editor: Editor, setting: str, change: str) -> None:
    editor.stroke((30, 30), (50, 40), size=16)
    cost = editor.page.locator(COST)
    expect(cost).to_contain_text("faster")
    before = cost.inner_text()
    if setting == "variations":
        editor.page.locator("#variations label").nth(3).click()
    elif setting == "mode":
        editor.page.locator("#more > button").click()
        editor.page.locator("#mode label").nth(2).click()
    else:
        editor.set(grow=20)
        editor.page.keyboard.press("Tab")
    expect(cost).not_to_have_text(before)
    if change == "all":
        expect(cost).to_contain_text("whole picture")


def test_the_tiles_are_drawn_over_what_is_recomputed_and_can_be_switched_off(editor: Editor) -> None:
    editor.page.locator("#canvas .veil").fill("0")
    editor.stroke((60, 44), (68, 52), size=16)
    expect(editor.page.locator(COST)).to_contain_text("faster")
    editor.page.mouse.move(5, 5)
    editor.canvas.focus()
    with_tiles = window(editor)
    editor.press("g")
    without = window(editor)
    rows, columns = np.nonzero((with_tiles != without).any(axis=2))
    (left, top), (right, bottom) = editor.on_screen((44, 28)), editor.on_screen((88, 72))
    assert left < columns.min() and columns.max() < right and top < rows.min() and rows.max() < bottom


def window(editor: Editor) -> np.ndarray:
    """The screen, black but for the canvas within its focus ring."""
    editor.page.wait_for_timeout(400)  # faded in
    screen = np.array(Image.open(io.BytesIO(editor.page.screenshot())).convert("RGB"))
    box = editor.canvas.bounding_box()
    inside = np.zeros_like(screen[..., :1])
    top, left = int(box["y"]) + 8, int(box["x"]) + 8
    inside[top : top + int(box["height"]) - 16, left : left + int(box["width"]) - 16] = 1
    return screen * inside


def test_the_next_mask_is_painted_while_the_last_one_is_computed(engine, editor: Editor) -> None:
    editor.stroke((30, 30), (30, 30), size=20)
    first = editor.mask()
    go_on = threading.Event()
    engine.before_step = lambda step: go_on.wait(60)
    editor.go("a cactus")
    editor.page.locator("#stop").wait_for()
    editor.stroke((100, 60), (100, 60), size=20)
    second = editor.mask()
    assert second.any() and not (first & second).any()
    expect(editor.page.locator(COST)).to_contain_text("faster")  # answered while the engine is busy
    go_on.set()
    editor.page.locator("#keep").wait_for()
    editor.finish()
    assert np.array_equal(editor.mask(), second)  # it has survived the result
    editor.press("Enter")
    expect(editor.versions()).to_have_count(2)
    assert np.array_equal(editor.mask(), second)  # and that the result was kept


def test_a_large_picture_is_worked_on_around_the_mask(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.open(picture_file((2000, 1400)))
    assert not engine.versions or all(v.image.size != (2000, 1400) for v in engine.versions.values())
    editor.stroke((1900, 1300), (1900, 1300), size=60)
    mask = editor.mask() > 0
    editor.paint("a cactus")
    base, result = editor.version(), editor.picture()
    assert result.size == (2000, 1400)
    changed = (np.asarray(base.convert("RGB")) != np.asarray(result.convert("RGB"))).any(axis=2)
    assert changed[mask].mean() > 0.8 and not changed[~mask].any()
