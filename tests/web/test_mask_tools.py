"""Every tool of the canvas in a real browser: what it paints, and that one use of it is one step of undo."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from editing import Editor, picture_file
from PIL import Image, ImageDraw
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
SIZE = (240, 160)
Draw = Callable[[ImageDraw.ImageDraw], None]
CORNERS = [(40, 40), (200, 50), (180, 130), (60, 120)]


@pytest.fixture
def editor(address: str, visit) -> Editor:
    editor = Editor(visit(address))
    editor.open(picture_file(SIZE))
    return editor


def expected(*shapes: Draw) -> np.ndarray:
    """What shapes drawn by Pillow cover, bool [H, W]."""
    image = Image.new("L", SIZE)
    for shape in shapes:
        shape(ImageDraw.Draw(image))
    return np.asarray(image) > 0


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    return float((one & other).sum() / (one | other).sum())


@dataclass(frozen=True)
class Use:
    """One use of a tool: the points dragged through or clicked, and what it should cover."""

    points: list[tuple[float, float]]
    covers: Draw


USES = {
    "brush": Use([(60, 80), (180, 80)], lambda d: d.rounded_rectangle((48, 68, 191, 91), 12, fill=255)),
    "lasso": Use(CORNERS, lambda d: d.polygon(CORNERS, fill=255)),
    "polygon": Use(CORNERS, lambda d: d.polygon(CORNERS, fill=255)),
    "rectangle": Use([(40, 30), (200, 130)], lambda d: d.rectangle((40, 30, 199, 129), fill=255)),
    "ellipse": Use([(40, 30), (200, 130)], lambda d: d.ellipse((40, 30, 199, 129), fill=255)),
}


@pytest.mark.parametrize("tool", USES)
def test_a_tool_covers_what_it_is_drawn_around_and_is_one_step(editor: Editor, tool: str) -> None:
    use = USES[tool]
    editor.use(tool, use.points, size=24)
    mask = editor.mask()
    assert set(np.unique(mask)) <= {0, 255}, "a hard tool paints wholly or not at all"
    assert overlap(mask > 0, expected(use.covers)) > 0.96
    editor.press("Control+z")
    assert not editor.mask().any()
    expect(editor.button("undo")).to_be_disabled()
    editor.press("Control+Shift+z")
    assert np.array_equal(editor.mask(), mask)
    expect(editor.button("redo")).to_be_disabled()


@pytest.mark.parametrize("tool", ["rectangle", "ellipse", "lasso"])
def test_alt_takes_away(editor: Editor, tool: str) -> None:
    editor.use("rectangle", [(20, 20), (220, 140)])
    whole = editor.mask() > 0
    editor.page.keyboard.down("Alt")
    editor.use(tool, USES[tool].points)
    editor.page.keyboard.up("Alt")
    left = editor.mask() > 0
    assert overlap(whole & ~left, expected(USES[tool].covers) & whole) > 0.95


def test_eraser_takes_away(editor: Editor) -> None:
    editor.use("rectangle", [(20, 20), (220, 140)])
    editor.use("eraser", [(60, 80), (180, 80)], size=24)
    gone = expected(lambda d: d.rectangle((20, 20, 219, 139), fill=255)) & ~(editor.mask() > 0)
    assert overlap(gone, expected(USES["brush"].covers)) > 0.96


def test_A15_invert_twice_is_nothing_and_fill_holes_fills_only_holes(editor: Editor) -> None:
    ring = lambda d: (d.ellipse((40, 30, 199, 129), fill=255), d.ellipse((80, 60, 159, 99), fill=0))  # noqa: E731
    editor.use("ellipse", USES["ellipse"].points)
    editor.page.keyboard.down("Alt")
    editor.use("ellipse", [(80, 60), (160, 100)])
    editor.page.keyboard.up("Alt")
    before = editor.mask()
    assert overlap(before > 0, expected(ring)) > 0.95
    editor.button("invert").click()
    assert np.array_equal(editor.mask(), 255 - before)
    editor.button("invert").click()
    assert np.array_equal(editor.mask(), before)
    editor.button("holes").click()
    assert overlap(editor.mask() > 0, expected(USES["ellipse"].covers)) > 0.96
    for _ in range(5):
        editor.press("Control+z")
    assert not editor.mask().any()


def test_a_soft_brush_fades_and_a_hard_stroke_elsewhere_leaves_it_soft(editor: Editor) -> None:
    editor.page.locator("#canvas .soft").check()
    editor.use("brush", [(60, 80), (180, 80)], size=60)
    soft = editor.mask()
    levels = soft[50:80, 120].astype(int)
    assert len(np.unique(soft)) > 50 and (np.diff(levels) >= -3).all() and levels[-1] > 200
    editor.page.locator("#canvas .soft").uncheck()
    editor.use("brush", [(120, 10), (120, 10)], size=12)
    assert np.array_equal(editor.mask()[30:], soft[30:])


def test_F5_n_strokes_are_n_undos(editor: Editor) -> None:
    masks = [editor.mask()]
    for x in (60, 80, 100, 160):
        editor.use("brush", [(x, 60), (x + 30, 100)], size=40)
        masks.append(editor.mask())
    for before in reversed(masks[:-1]):
        editor.press("Control+z")
        assert np.array_equal(editor.mask(), before)
    expect(editor.button("undo")).to_be_disabled()
    expect(editor.versions()).to_have_count(1)


def test_G9_strokes_that_overlap_do_not_pile_up(editor: Editor) -> None:
    editor.page.locator("#canvas .tiles").uncheck()
    editor.use("brush", [(60, 60), (180, 60)], size=40)
    editor.use("brush", [(120, 20), (120, 140)], size=40)
    assert set(np.unique(editor.mask())) == {0, 255}
    editor.page.mouse.move(1, 1)
    once, twice, bare = (editor.seen(point) for point in [(70, 60), (120, 60), (20, 20)])
    assert once == twice != bare


def test_escape_leaves_a_polygon_and_backspace_takes_a_corner_back(editor: Editor) -> None:
    editor.choose("polygon")
    for point in CORNERS:
        editor.page.mouse.click(*editor.on_screen(point))
    editor.page.keyboard.press("Escape")
    assert not editor.mask().any()
    for point in [*CORNERS[:3], (10, 150)]:
        editor.page.mouse.click(*editor.on_screen(point))
    editor.page.keyboard.press("Backspace")
    editor.page.mouse.move(*editor.on_screen(CORNERS[3]))
    editor.page.mouse.click(*editor.on_screen(CORNERS[3]))
    editor.page.keyboard.press("Enter")
    assert overlap(editor.mask() > 0, expected(USES["polygon"].covers)) > 0.96


def test_keys_choose_tools_and_sizes_but_not_while_typing(editor: Editor) -> None:
    editor.canvas.click(position={"x": 5, "y": 5})
    for key, tool in [("l", "lasso"), ("e", "eraser"), ("r", "rectangle"), ("o", "ellipse"), ("b", "brush")]:
        editor.page.keyboard.press(key)
        expect(editor.page.locator(f'[data-tool="{tool}"]')).to_have_attribute("aria-pressed", "true")
    size = editor.page.locator("#canvas .size")
    before = int(size.input_value())
    editor.page.keyboard.press("]")
    assert int(size.input_value()) > before
    editor.page.keyboard.press("[")
    assert int(size.input_value()) <= before
    editor.page.locator("#prompt textarea").fill("")
    editor.page.locator("#prompt textarea").press_sequentially("a blue [bell] pole")
    expect(editor.page.locator("#prompt textarea")).to_have_value("a blue [bell] pole")
    expect(editor.page.locator('[data-tool="brush"]')).to_have_attribute("aria-pressed", "true")


def test_a_stroke_that_the_system_interrupts_leaves_nothing(editor: Editor) -> None:
    editor.choose("brush")
    x, y = editor.on_screen((100, 80))
    editor.page.mouse.move(x, y)
    editor.page.mouse.down()
    editor.page.mouse.move(x + 40, y)
    editor.canvas.dispatch_event("pointercancel", {"pointerId": 1})
    editor.page.mouse.up()
    assert not editor.mask().any()
    expect(editor.button("undo")).to_be_disabled()


def test_one_to_one_shows_pixels_of_the_picture_as_pixels_of_the_screen(address: str, visit) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (64, 64, 3), np.uint8)
    data = io.BytesIO()
    Image.fromarray(noise).save(data, "PNG")
    for ratio in (1, 2):
        editor = Editor(visit(address, device_scale_factor=ratio))
        editor.open(data.getvalue())
        editor.press("Control+1")
        editor.page.mouse.move(1, 1)
        editor.page.wait_for_timeout(200)
        shot = np.asarray(Image.open(io.BytesIO(editor.canvas.screenshot())).convert("RGB"))
        top, left = (shot.shape[0] - 64) // 2, (shot.shape[1] - 64) // 2
        places = [(y, x) for y in range(top - 1, top + 3) for x in range(left - 1, left + 3)]
        assert any(np.array_equal(shot[y : y + 64, x : x + 64], noise) for y, x in places)
