"""The page in a real browser, with an engine that paints flat colours: what is on the screen and what it does."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from editing import Editor, differing, picture_file
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_first_screen(address: str, visit, scheme: str) -> None:
    page = visit(address, color_scheme=scheme)
    assert page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [800, 1280]
    assert page.locator("button.primary:visible").count() == 1
    expect(page.locator("#go")).to_have_text("Generate")
    expect(page.locator("#canvas .hint")).to_be_visible()
    dark = page.evaluate("document.body.classList.contains('dark')")
    assert dark == (scheme == "dark")


def test_nothing_is_fetched_from_elsewhere(address: str, browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.locator("#go").wait_for()
    Editor(page).generate("a field")
    page.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_paint_choose_keep_undo(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((30, 30), (60, 60), size=20)
    mask = editor.mask() > 0
    editor.page.locator("#variations label").nth(2).click()
    editor.paint("a cactus")
    choices = editor.page.locator("#candidates button")
    expect(choices).to_have_count(3)
    first = editor.picture()
    choices.nth(2).click()
    expect(choices.nth(2)).to_have_attribute("aria-pressed", "true")
    third = editor.picture()
    assert differing(first, third).any() and differing(base, third).any()
    assert not (differing(base, third) & ~mask).any()
    expect(editor.page.locator("#status p")).to_contain_text("0 pixels changed outside")
    editor.page.locator("#keep").click()
    expect(editor.page.locator("#history button")).to_have_count(2)
    assert not differing(editor.picture(), third).any() and not editor.mask().any()
    editor.page.locator("#undo").click()
    expect(editor.page.locator("#undo")).to_be_disabled()
    assert not differing(editor.picture(), base).any()


def test_stop_acts_at_once_and_leaves_the_picture(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((30, 30), (60, 60))
    steps: list[int] = []

    def slow(step: int) -> None:
        steps.append(step)
        time.sleep(0.5)

    engine.before_step = slow
    editor.go("a cactus")
    editor.page.locator("#stop").click()
    editor.finish()
    expect(editor.message()).to_contain_text("Stopped")
    assert len(steps) < engine.defaults.steps
    assert not differing(editor.picture(), base).any() and editor.mask().any()


def test_an_empty_mask_is_refused_in_one_sentence(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.go("a cactus")
    expect(editor.message()).to_have_text("Paint over the part that should change first.")
    editor.finish()
    assert "edit" not in engine.calls
    assert editor.page.locator(".toast-body").count() == 0


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_picture_can_be_brought_in_by(address: str, visit, way: str) -> None:
    editor = Editor(visit(address))
    event = "DragEvent('drop', { dataTransfer" if way == "drop" else "ClipboardEvent('paste', { clipboardData"
    editor.page.evaluate(
        f"""bytes => {{
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {{ type: "image/png" }}));
            document.body.dispatchEvent(new {event}: data, bubbles: true, cancelable: true }}));
        }}""",
        list(picture_file((90, 70))),
    )
    expect(editor.page.locator("#history button")).to_have_count(1)
    assert editor.picture().size == (90, 70)


def test_a_phone_photo_is_shown_and_painted_upright(address: str, visit) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn a quarter to the right
    editor = Editor(visit(address))
    editor.open(picture_file((200, 100), "JPEG", exif=exif, quality=95), "photo.jpg")
    base = editor.picture()
    assert base.size == (100, 200)
    editor.stroke((20, 20), (20, 20), size=20)
    editor.paint("a cactus")
    rows, columns = np.nonzero(differing(base, editor.picture()))
    assert rows.max() < 40 and columns.max() < 40


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"<svg onload='alert(1)'/>", "is not a PNG", id="svg"),
        pytest.param(picture_file((64, 64))[:60], "damaged", id="cut-off"),
        pytest.param(picture_file((20, 20)), "64", id="too-small"),
        pytest.param(b"", "not a PNG", id="empty-file"),
    ],
)
def test_a_file_that_is_no_picture_is_refused_in_one_sentence(address: str, visit, data: bytes, sentence: str) -> None:
    editor = Editor(visit(address))
    editor.page.locator('#canvas input[type="file"]').set_input_files(
        {"name": "picture.png", "mimeType": "image/png", "buffer": data}
    )
    expect(editor.message()).to_contain_text(sentence)
    assert editor.page.locator("#history button").count() == 0


def test_what_people_type_is_never_markup(address: str, visit) -> None:
    page = visit(address)
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    editor = Editor(page)
    evil = "<img src=x onerror=alert(1)>\"'`${alert(1)}{{7*7}} xyzzy"
    editor.generate(evil)
    expect(page.locator("#history button")).to_have_attribute("title", evil)
    assert page.locator("img[onerror]").count() == 0


def test_a_reload_brings_everything_back(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.page.reload()
    expect(editor.page.locator("#go")).to_have_text("Paint it")
    assert not differing(editor.picture(), base).any()


def test_a_reload_while_a_job_runs_stops_it_and_the_next_one_works(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((30, 30), (60, 60))
    steps: list[int] = []
    engine.before_step = lambda step: (steps.append(step), time.sleep(2))
    editor.go("a cactus")
    editor.page.locator("#stop").wait_for()
    editor.page.reload()
    expect(editor.page.locator("#history button")).to_have_count(1)
    assert engine.busy.acquire(timeout=10)  # the job has let go
    engine.busy.release()
    assert len(steps) < engine.defaults.steps
    engine.before_step = lambda step: None
    assert not differing(editor.picture(), base).any()
    editor.stroke((30, 30), (60, 60))
    editor.paint("a palm")


def test_two_windows_are_two_sessions(address: str, visit) -> None:
    ann, bob = Editor(visit(address)), Editor(visit(address))
    ann.generate("a field")
    assert bob.page.locator("#history button").count() == 0
    expect(bob.page.locator("#go")).to_have_text("Generate")


def test_new_puts_the_picture_aside(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.page.locator("#new").click()
    expect(editor.page.locator("#go")).to_have_text("Generate")
    editor.generate("a town")
    expect(editor.page.locator("#history button")).to_have_count(2)


def test_export_saves_the_exact_picture_and_how_it_was_made(address: str, visit, painting_server) -> None:
    editor = Editor(visit(address))
    editor.set(seed=7)
    editor.generate("a field")
    names = []
    for _ in range(2):
        with editor.page.expect_download() as download:
            editor.page.locator("#canvas .export").click()
        names.append(download.value.suggested_filename)
    assert names == ["0001-7.png", "0002-7.png"]  # never overwritten
    for file in painting_server[2].rglob("*-7.png"):
        with Image.open(file) as saved:
            assert not differing(saved, editor.picture()).any()
            made = json.loads(saved.text["deltabrush"])
            assert (made["prompt"], made["seed"], made["model"]) == ("a field", 7, "painted")


@pytest.mark.parametrize("key", ["Control+Enter", "Escape"])
def test_keys(engine, address: str, visit, key: str) -> None:
    editor = Editor(visit(address))
    editor.page.locator("#prompt textarea").fill("a field")
    if key == "Escape":
        engine.before_step = lambda step: time.sleep(0.3)
        editor.page.locator("#go").click()
        editor.page.locator("#stop").wait_for()
    editor.page.keyboard.press(key)
    if key == "Escape":
        expect(editor.message()).to_contain_text("Stopped")
    else:
        expect(editor.page.locator("#go")).to_have_text("Paint it")
