"""The canvas in a real browser: where paint lands, what it shows, when the mask goes."""

from __future__ import annotations

import numpy as np
import pytest
from editing import Editor, differing, picture_file
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("size", [(256, 256), (3000, 400), (427, 640)], ids=["square", "A2-wide", "A5-odd"])
def test_a_dab_lands_under_the_pointer(address: str, visit, size: tuple[int, int], scale: int) -> None:
    editor = Editor(visit(address, device_scale_factor=scale))
    editor.open(picture_file(size))
    width, height = size
    on_screen = editor.on_screen((1, 0))[0] - editor.on_screen((0, 0))[0]  # CSS pixels per pixel of the picture
    for corner in [(8, 8), (width - 8, 8), (8, height - 8), (width - 8, height - 8), (width / 2, height / 2)]:
        editor.page.locator('[data-do="clear"]').click()
        editor.stroke(corner, corner, size=12)
        rows, columns = np.nonzero(editor.mask())
        assert editor.mask().shape == (height, width)
        # to the pixel, or to the pixel of the screen where several of the picture share one
        assert np.allclose([columns.mean() + 0.5, rows.mean() + 0.5], corner, atol=max(1, 1 / on_screen))
        assert abs(len(rows) - np.pi * 36) < 40  # a disc of 12 pixels, with its anti-aliased rim


def test_the_mapping_holds_after_zooming_and_the_eraser_erases(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.open(picture_file((256, 256)))
    middle = editor.on_screen((128, 128))
    editor.page.mouse.move(*middle)
    editor.page.mouse.wheel(0, -400)  # the point under the pointer stays where it is
    editor.stroke((128, 128), (128, 128), size=12)
    rows, columns = np.nonzero(editor.mask())
    assert np.allclose([columns.mean() + 0.5, rows.mean() + 0.5], (128, 128), atol=1)
    editor.page.locator('[data-tool="eraser"]').click()
    editor.stroke((128, 128), (128, 128), size=40)
    assert not editor.mask().any()


def test_A8_another_picture_clears_the_mask(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.open(picture_file((200, 150)))
    editor.stroke((50, 50), (90, 90))
    assert editor.mask().any()
    editor.open(picture_file((200, 150)))
    assert not editor.mask().any()


def test_G1_G2_G18_G19_a_large_picture_keeps_its_size_and_the_first_stroke_counts(address: str, visit) -> None:
    editor = Editor(visit(address))
    asked: list[str] = []
    editor.page.on("request", lambda request: asked.append(request.url))
    editor.open(picture_file((1024, 1536)))
    base = editor.picture()
    assert base.size == (1024, 1536)
    editor.stroke((300, 400), (300, 400), size=80)
    expect(editor.page.locator("#cost .cost")).not_to_be_empty()  # the server has it
    mask = editor.mask()
    assert mask.shape == (1536, 1024) and mask[400, 300] == 255
    editor.paint("a cactus")
    changed = differing(base, editor.picture())
    assert changed[mask > 0].mean() > 0.8 and not changed[mask == 0].any()
    assert asked and not [url for url in asked if "/gradio_api/upload" in url]  # whose files nothing would clear


def test_G3_G4_G6_G8_strokes_outlive_tools_settings_and_results(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.stroke((40, 48), (60, 48), size=20)
    mask = editor.mask()
    for tool in ("eraser", "lasso", "polygon", "rectangle", "ellipse", "brush"):
        editor.choose(tool)
    editor.page.locator("#canvas .size").fill("80")
    editor.page.locator("#canvas .veil").fill("0.8")
    for on in (True, False):
        editor.page.locator("#canvas .soft").set_checked(on)
    editor.page.locator("#variations label").nth(1).click()
    assert np.array_equal(editor.mask(), mask)
    editor.paint("a cactus")
    editor.paint("a cactus")  # nothing has changed, and it is answered again
    expect(editor.takes()).to_have_count(4)
    assert engine.calls.count("edit") == 2 and np.array_equal(editor.mask(), mask)
    editor.page.locator("#drop").click()
    expect(editor.page.locator("#keep")).to_be_hidden()
    editor.stroke((100, 48), (100, 48), size=20)  # over the picture that Python has set meanwhile
    assert np.array_equal(editor.mask()[:, :80], mask[:, :80]) and editor.mask()[48, 100] == 255


# controls of the canvas that something covers, or that lie outside the window
OUT_OF_REACH = """() => [...document.querySelectorAll("#canvas button, #canvas .tools input")].filter((control) => {
    const { x, y, width, height } = control.getBoundingClientRect();
    return control.checkVisibility() && !control.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}).map((control) => control.outerHTML)"""


def test_G13_the_tools_are_in_reach_beside_tall_and_wide_pictures(address: str, visit) -> None:
    editor = Editor(visit(address))
    for size in [(400, 3000), (3000, 400)]:
        editor.open(picture_file(size))
        assert editor.page.evaluate(OUT_OF_REACH) == []


def test_G16_a_finger_paints_where_it_touches(address: str, visit) -> None:
    editor = Editor(visit(address, has_touch=True, device_scale_factor=2))
    editor.open(picture_file((240, 160)))
    editor.page.locator("#canvas .size").fill("24")
    devtools = editor.page.context.new_cdp_session(editor.page)
    (left, y), (right, _) = editor.on_screen((60, 80)), editor.on_screen((180, 80))

    def finger(event: str, *x: float) -> None:
        points = [{"x": each, "y": y} for each in x]
        devtools.send("Input.dispatchTouchEvent", {"type": event, "touchPoints": points})

    finger("touchStart", left)
    for x in np.linspace(left, right, 8):
        finger("touchMove", x)
    finger("touchEnd")
    rows, columns = np.nonzero(editor.mask())
    assert np.allclose([columns.min(), columns.max() + 1, rows.min(), rows.max() + 1], [48, 192, 68, 92], atol=1)
    assert editor.page.evaluate(OUT_OF_REACH) == []


@pytest.fixture
def edited(address: str, visit) -> Editor:
    """A flat picture with an edit in its middle, waiting."""
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.stroke((64, 48), (64, 48), size=40)
    editor.paint("a cactus")
    return editor


def test_the_picture_before_is_shown_while_tab_is_held(edited: Editor) -> None:
    after = edited.seen((64, 48))
    edited.canvas.focus()
    edited.page.keyboard.down("Tab")
    edited.page.wait_for_timeout(400)
    held = edited.seen((64, 48))
    edited.page.keyboard.up("Tab")
    assert held == edited.version().convert("RGB").getpixel((64, 48)) != after == edited.seen((64, 48))
    expect(edited.canvas).to_be_focused()


def test_a_short_tab_leaves_the_canvas_in_both_directions(edited: Editor) -> None:
    edited.canvas.focus()
    edited.page.keyboard.press("Tab")
    expect(edited.canvas).not_to_be_focused()
    edited.page.keyboard.press("Shift+Tab")
    expect(edited.canvas).to_be_focused()
    edited.page.keyboard.press("Shift+Tab")
    expect(edited.canvas).not_to_be_focused()


def test_before_and_after_stand_on_two_sides_of_the_divider(edited: Editor) -> None:
    new, old = edited.picture().getpixel((64, 48)), edited.version().convert("RGB").getpixel((64, 48))
    edited.page.locator("#canvas .compare").click()
    divider = edited.page.locator("#canvas .divider")
    for percent, colour in [("100", old), ("0", new)]:
        divider.fill(percent)
        assert edited.seen((64, 48)) == colour
    edited.page.locator("#canvas .compare").click()
    expect(divider).to_be_hidden()


def test_A8_once_kept_the_mask_is_gone_from_the_screen_and_from_use(edited: Editor) -> None:
    edited.keep()
    edited.page.mouse.move(1, 1)
    assert not edited.mask().any()
    assert edited.seen((64, 48)) == edited.picture().getpixel((64, 48))
    edited.go("a palm")
    expect(edited.message()).to_have_text("Paint over the part that should change first.")


def test_a_new_stroke_on_a_result_begins_a_new_mask_and_keeps_the_result(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.stroke((30, 30), (30, 30), size=20)
    editor.paint("a cactus")
    first = editor.picture()
    editor.stroke((100, 60), (100, 60), size=20)
    assert not editor.mask()[:50, :50].any()
    editor.go("a palm")
    expect(editor.versions()).to_have_count(2)
    editor.finish()
    assert not differing(editor.version(), first).any()
