"""The canvas in a real browser: where paint lands, what it shows, when the mask goes."""

from __future__ import annotations

import io

import numpy as np
import pytest
from editing import Editor, differing, picture_file
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("size", [(256, 256), (900, 150), (131, 397)], ids=["square", "wide", "tall-odd"])
def test_a_dab_lands_under_the_pointer(address: str, visit, size: tuple[int, int], scale: int) -> None:
    editor = Editor(visit(address, device_scale_factor=scale))
    editor.open(picture_file(size))
    width, height = size
    for corner in [(8, 8), (width - 8, 8), (8, height - 8), (width - 8, height - 8), (width / 2, height / 2)]:
        editor.page.locator('[data-do="clear"]').click()
        editor.stroke(corner, corner, size=12)
        rows, columns = np.nonzero(editor.mask())
        assert editor.mask().shape == (height, width)
        assert np.allclose([columns.mean() + 0.5, rows.mean() + 0.5], corner, atol=1)
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


def test_before_is_shown_while_it_is_held(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((64, 48), (64, 48), size=40)
    editor.paint("a cactus")
    middle = editor.on_screen((64, 48))

    def colour() -> tuple[int, ...]:
        editor.page.wait_for_timeout(100)  # a frame or two
        shot = Image.open(io.BytesIO(editor.page.screenshot()))
        return shot.convert("RGB").getpixel((round(middle[0]), round(middle[1])))

    after = colour()
    box = editor.page.locator("#canvas .before").bounding_box()
    editor.page.mouse.move(box["x"] + 5, box["y"] + 5)
    editor.page.mouse.down()
    held = colour()
    editor.page.mouse.up()
    assert held == base.convert("RGB").getpixel((64, 48)) != after == colour()


def test_a_new_stroke_on_a_result_begins_a_new_mask_and_keeps_the_result(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.stroke((30, 30), (30, 30), size=20)
    editor.paint("a cactus")
    first = editor.picture()
    editor.stroke((100, 60), (100, 60), size=20)
    assert not editor.mask()[:50, :50].any()
    editor.go("a palm")
    expect(editor.page.locator("#history button")).to_have_count(2)
    editor.finish()
    assert not differing(editor.version(), first).any()
