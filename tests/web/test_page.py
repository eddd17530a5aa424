"""The page in a real browser, with an engine that paints flat colours: what is on the screen and what it does."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest
from editing import Editor, differing, picture_file
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_first_screen(address: str, visit, scheme: str) -> None:
    page = visit(address, color_scheme=scheme)
    assert page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [800, 1280]
    assert page.locator("button.primary:visible").count() == 1
    expect(page.locator("#go")).to_have_text("Generate")
    expect(page.locator("#canvas .welcome")).to_be_visible()
    dark = page.evaluate("document.body.classList.contains('dark')")
    assert dark == (scheme == "dark")


def test_H3_nothing_is_fetched_from_elsewhere(address: str, browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.locator("#go").wait_for()
    Editor(page).generate("a field")
    page.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_it_can_be_installed_as_a_desktop_app(address: str, visit) -> None:
    page = visit(address)
    manifest = page.evaluate("() => fetch(document.querySelector('link[rel=manifest]').href).then((it) => it.json())")
    assert manifest["name"] == "Deltabrush" and manifest["display"] == "standalone"
    for icon in manifest["icons"]:
        kind, size = page.evaluate(
            "url => fetch(url).then(async (it) => [it.headers.get('content-type'), (await it.text()).length])",
            icon["src"],
        )
        assert kind.startswith("image/svg") and size > 100


def test_paint_choose_keep_undo(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((30, 30), (60, 60), size=20)
    mask = editor.mask() > 0
    editor.page.locator("#variations label").nth(2).click()
    editor.paint("a cactus")
    choices = editor.takes()
    expect(choices).to_have_count(3)
    first = editor.picture()
    choices.nth(2).click()
    expect(choices.nth(2)).to_have_attribute("aria-pressed", "true")
    third = editor.picture()
    assert differing(first, third).any() and differing(base, third).any()
    assert not (differing(base, third) & ~mask).any()
    expect(editor.page.locator("#status p")).to_contain_text("0 pixels changed outside")
    editor.page.locator("#keep").click()
    expect(editor.versions()).to_have_count(2)
    assert not differing(editor.picture(), third).any() and not editor.mask().any()
    editor.top("undo").click()
    expect(editor.top("undo")).to_be_disabled()
    assert not differing(editor.picture(), base).any()


def test_F2_stop_acts_at_once_and_leaves_the_picture(engine, address: str, visit) -> None:
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


def test_A7_an_empty_mask_is_refused_in_one_sentence(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.go("a cactus")
    expect(editor.message()).to_have_text("Paint over the part that should change first.")
    editor.finish()
    assert "edit" not in engine.calls
    assert editor.page.locator(".toast-body").count() == 0


@pytest.mark.parametrize("way", ["drop", pytest.param("paste", id="G15-paste")])
def test_a_picture_can_be_brought_in_by(address: str, visit, way: str) -> None:
    editor = Editor(visit(address))
    editor.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as over plain http
    event = "DragEvent('drop', { dataTransfer" if way == "drop" else "ClipboardEvent('paste', { clipboardData"
    editor.page.evaluate(
        f"""bytes => {{
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {{ type: "image/png" }}));
            document.body.dispatchEvent(new {event}: data, bubbles: true, cancelable: true }}));
        }}""",
        list(picture_file((90, 70))),
    )
    expect(editor.versions()).to_have_count(1)
    assert editor.picture().size == (90, 70)


def test_A1_a_phone_photo_is_shown_and_painted_upright(address: str, visit) -> None:
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
    editor.page.locator('#top input[type="file"]').set_input_files(
        {"name": "picture.png", "mimeType": "image/png", "buffer": data}
    )
    expect(editor.message()).to_contain_text(sentence)
    assert editor.versions().count() == 0


def test_what_people_type_is_never_markup(address: str, visit) -> None:
    page = visit(address)
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    editor = Editor(page)
    evil = "<img src=x onerror=alert(1)>\"'`${alert(1)}{{7*7}} xyzzy"
    editor.generate(evil)
    expect(editor.versions()).to_have_attribute("aria-label", evil)
    expect(page.locator("#notes .unread")).to_contain_text("xyzzy")
    editor.versions().dblclick()
    page.locator("#history input").fill(evil + " again")
    page.keyboard.press("Enter")
    expect(page.locator("#top .name")).to_have_value(evil + " again")
    assert page.locator("img[onerror]").count() == 0


def test_a_reload_brings_everything_back(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.page.reload()
    expect(editor.page.locator("#go")).to_have_text("Paint it")
    assert not differing(editor.picture(), base).any()


def test_F3_a_reload_while_a_job_runs_brings_all_back_and_the_job_goes_on(engine, address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    base = editor.picture()
    editor.stroke((30, 30), (60, 60))
    mask = editor.mask()
    go_on = threading.Event()
    engine.before_step = lambda step: step < 3 or go_on.wait(60)
    editor.go("a cactus")
    editor.page.locator("#stop").wait_for()
    editor.page.reload()
    editor.page.locator("#stop").wait_for()  # the running job is found again
    go_on.set()
    assert not differing(editor.picture(), base).any()
    expect(editor.page.locator("#prompt textarea")).to_have_value("a cactus")
    editor.page.locator("#keep").wait_for()
    editor.finish()
    assert np.array_equal(editor.mask(), mask)
    changed = differing(editor.picture(), base)
    assert changed[mask > 0].any() and not changed[mask == 0].any()
    assert engine.calls.count("edit") == 1


def test_F3_a_closed_window_is_gone_on_with_by_the_next_one(address: str, browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script("localStorage.setItem('deltabrush-visited', '1')")
    editor = Editor(context.new_page())
    editor.page.goto(address)
    editor.generate("a field")
    base = editor.picture()
    editor.page.close()
    again, other = (Editor(context.new_page()) for _ in range(2))
    again.page.goto(address)
    expect(again.versions()).to_have_count(1)
    assert not differing(again.picture(), base).any()
    other.page.goto(address)  # while the first one is open, the second is a session of its own
    expect(other.page.locator("#go")).to_have_text("Generate")
    assert other.versions().count() == 0
    context.close()


def test_F6_two_windows_are_two_sessions(address: str, visit) -> None:
    ann, bob = Editor(visit(address)), Editor(visit(address))
    ann.generate("a field")
    assert bob.page.locator("#history .pick").count() == 0
    expect(bob.page.locator("#go")).to_have_text("Generate")


def test_new_puts_the_picture_aside(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.top("new").click()
    expect(editor.page.locator("#go")).to_have_text("Generate")
    editor.generate("a town")
    expect(editor.versions()).to_have_count(2)


def test_export_saves_the_exact_picture_and_how_it_was_made(address: str, visit, painting_server) -> None:
    editor = Editor(visit(address))
    editor.set(seed=7)
    editor.generate("a field")
    names = []
    for suffix in ("png", "png", "webp", "jpg"):
        editor.page.locator("#top summary").click()
        with editor.page.expect_download() as download:
            editor.page.locator(f'#top [data-format="{suffix}"]').click()
        names.append(download.value.suggested_filename)
    numbers = [int(name[:4]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + 4))  # never overwritten
    assert [name[4:] for name in names] == ["-7.png", "-7.png", "-7.webp", "-7.jpg"]
    files = [next(painting_server[2].rglob(name)) for name in names]
    for file in files[:3]:
        with Image.open(file) as saved:
            assert not differing(saved, editor.picture()).any()
    with Image.open(files[1]) as saved:
        made = json.loads(saved.text["deltabrush"])
        assert (made["prompt"], made["seed"], made["model"]) == ("a field", 7, "painted")
        assert saved.text["parameters"].startswith("a field") and "Seed: 7" in saved.text["parameters"]


def test_an_export_without_metadata_says_nothing(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.generate("a field")
    editor.page.locator("#top summary").click()
    editor.page.locator("#top .metadata").uncheck()
    with editor.page.expect_download() as download:
        editor.page.locator('#top [data-format="png"]').click()
    with Image.open(download.value.path()) as saved:
        assert not saved.text and not saved.getexif()


def test_a_picture_that_says_how_it_was_made_fills_in_prompt_and_seed(address: str, visit) -> None:
    editor = Editor(visit(address))
    chunks = PngInfo()
    chunks.add_text("parameters", "a castle\nNegative prompt: rain\nSteps: 20, Sampler: DDIM, CFG scale: 4, Seed: 77")
    editor.open(picture_file((90, 70), pnginfo=chunks))
    expect(editor.page.locator("#prompt textarea")).to_have_value("a castle")
    editor.page.locator("#more > button").click()
    expect(editor.page.locator("#seed input")).to_have_value("77")
    expect(editor.page.locator("#negative textarea")).to_have_value("rain")


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
