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


def test_another_picture_clears_the_mask(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.open(picture_file((200, 150)))
    editor.stroke((50, 50), (90, 90))
    assert editor.mask().any()
    editor.open(picture_file((200, 150)))
    assert not editor.mask().any()


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
