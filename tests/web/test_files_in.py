"""Pictures and masks that come in by drop, paste and file; settings and words that the page remembers and knows."""

from __future__ import annotations

import io

import numpy as np
import pytest
from editing import Editor, picture_file
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
SIZE = (128, 96)
RECTANGLE = (20, 10, 60, 50)


def mask_file(size: tuple[int, int] = SIZE, mode: str = "L", kind: str = "PNG") -> bytes:
    image = Image.new("L", size)
    image.paste(255, RECTANGLE)
    if mode == "RGBA":  # strokes of one colour on a transparent layer
        layer = Image.new("RGBA", size, (255, 0, 90, 0))
        layer.putalpha(image)
        image = layer
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


EXPECTED = np.asarray(Image.open(io.BytesIO(mask_file())))


@pytest.fixture
def editor(address: str, visit) -> Editor:
    editor = Editor(visit(address))
    editor.generate("a field")
    return editor


def bring(editor: Editor, data: bytes, way: str, zone: str = "") -> None:
    """Drops or pastes a file; zone: where on the page it is dropped."""
    event = "DragEvent('drop', { dataTransfer" if way == "drop" else "ClipboardEvent('paste', { clipboardData"
    target = f"document.querySelector('[data-drop={zone}]')" if zone else "document.body"
    editor.page.evaluate(
        f"""bytes => {{
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {{ type: "image/png" }}));
            window.dispatchEvent(new DragEvent("dragover", {{ dataTransfer: data, cancelable: true }}));
            {target}.dispatchEvent(new {event}: data, bubbles: true, cancelable: true }}));
        }}""",
        list(data),
    )


def wait_for_mask(editor: Editor) -> np.ndarray:
    editor.page.wait_for_function("() => document.querySelector('#canvas canvas').readMask() !== null")
    return editor.mask()


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_mask_is_recognised_and_used_as_it_is(editor: Editor, way: str) -> None:
    bring(editor, mask_file(), way)
    assert np.array_equal(wait_for_mask(editor), EXPECTED)
    expect(editor.versions()).to_have_count(1)
    editor.press("Control+z")  # one step
    assert not editor.mask().any()


@pytest.mark.parametrize(("mode", "kind"), [("L", "PNG"), ("RGBA", "PNG"), ("L", "JPEG")])
def test_a_mask_from_a_file(editor: Editor, mode: str, kind: str) -> None:
    file = {"name": "mask", "mimeType": "image/png", "buffer": mask_file(mode=mode, kind=kind)}
    editor.page.locator("#canvas .mask-file").set_input_files(file)
    mask = wait_for_mask(editor)
    assert ((mask > 127) == (EXPECTED > 127)).mean() > 0.995
    assert np.array_equal(mask, EXPECTED) or kind == "JPEG"


def test_A12_grey_levels_of_a_mask_stay_as_they_are(editor: Editor) -> None:
    ramp = np.tile(np.linspace(0, 255, SIZE[0]).astype(np.uint8), (SIZE[1], 1))
    buffer = io.BytesIO()
    Image.fromarray(ramp).save(buffer, "PNG")
    editor.page.locator("#canvas .mask-file").set_input_files(
        {"name": "mask", "mimeType": "image/png", "buffer": buffer.getvalue()}
    )
    assert np.array_equal(wait_for_mask(editor), ramp)


def test_where_it_is_dropped_decides_what_a_file_is(editor: Editor) -> None:
    bring(editor, mask_file(), "drop", "picture")
    expect(editor.versions()).to_have_count(2)
    noise = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    bring(editor, buffer.getvalue(), "drop", "mask")
    assert wait_for_mask(editor).any()
    expect(editor.versions()).to_have_count(2)


def test_a_grey_photo_of_the_same_size_is_a_picture(editor: Editor) -> None:
    bring(editor, picture_file(SIZE), "paste")
    expect(editor.versions()).to_have_count(2)
    assert not editor.mask().any()


def test_a_mask_of_another_size_is_refused_with_both_sizes(editor: Editor) -> None:
    file = {"name": "mask", "mimeType": "image/png", "buffer": mask_file((64, 64))}
    editor.page.locator("#canvas .mask-file").set_input_files(file)
    expect(editor.message()).to_contain_text("64x64")
    expect(editor.message()).to_contain_text("128x96")
    assert not editor.mask().any()


def test_a_file_too_large_to_upload_is_refused_in_a_sentence(editor: Editor) -> None:
    editor.page.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(33 << 20)], "big.png", { type: "image/png" }));
        window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }""")
    expect(editor.message()).to_contain_text("too large")


def test_G5_a_file_that_is_lost_on_its_way_is_asked_for_again(editor: Editor) -> None:
    editor.page.route("**/upload?*", lambda route: route.fulfill(status=204))
    file = {"name": "a.png", "mimeType": "image/png", "buffer": picture_file(SIZE)}
    editor.page.locator('#top input[type="file"]').set_input_files(file)
    expect(editor.message()).to_contain_text("did not arrive")
    expect(editor.versions()).to_have_count(1)


# ---- what the page remembers and knows


def test_settings_are_remembered_and_the_prompt_survives_a_reload(editor: Editor) -> None:
    editor.set(grow=3, feather=9, steps=7)
    editor.page.locator("#edge label").nth(1).click()
    editor.page.locator("#variations label").nth(2).click()
    editor.page.locator("#prompt textarea").fill("a palm")
    editor.page.wait_for_function("JSON.parse(sessionStorage.getItem('deltabrush-settings'))?.prompt === 'a palm'")
    editor.page.reload()
    expect(editor.page.locator("#prompt textarea")).to_have_value("a palm")
    expect(editor.page.locator("#variations input").nth(2)).to_be_checked()
    expect(editor.page.locator("#edge input").nth(1)).to_be_checked()
    editor.page.locator("#more > button").click()
    for name, value in [("grow", "3"), ("feather", "9"), ("steps", "7")]:
        expect(editor.page.locator(f"#{name} input")).to_have_value(value)


@pytest.mark.parametrize(
    "rubbish", ["{", '{"steps": "many", "mode": "x", "prompt": 5, "variations": 99}', "[1]", "null"]
)
def test_what_the_browser_remembers_wrongly_is_left_out(address: str, visit, rubbish: str) -> None:
    editor = Editor(visit(address))
    editor.page.evaluate("text => localStorage.setItem('deltabrush-settings', text)", rubbish)
    editor.page.evaluate("text => sessionStorage.setItem('deltabrush-settings', text)", rubbish)
    editor.page.reload()
    editor.generate("a field")
    expect(editor.page.locator("#variations input").nth(0)).to_be_checked()


def test_a_seed_is_new_each_time_until_it_is_locked(editor: Editor) -> None:
    editor.page.locator("#more > button").click()
    seed = editor.page.locator("#seed input").first
    seeds = []
    for locked in (False, False, True, True):
        editor.page.locator("#seed-lock input").set_checked(locked)
        editor.stroke((64, 48), (64, 48), size=20)
        editor.paint("a cactus")
        seeds.append(seed.input_value())
        assert f"seed {seeds[-1]}" in editor.page.locator("#status p").inner_text()
    assert seeds[0] != seeds[1] == seeds[2] == seeds[3]
    editor.page.locator("#dice").click()
    expect(seed).not_to_have_value(seeds[3])


def test_B5_a_hard_edge_changes_whole_pixels_only(editor: Editor) -> None:
    base = np.asarray(editor.picture().convert("RGB")).astype(int)
    editor.stroke((64, 48), (64, 48), size=40)
    mask = editor.mask() > 0
    editor.page.locator("#edge label").nth(1).click()
    editor.paint("a cactus")
    result = np.asarray(editor.picture().convert("RGB")).astype(int)
    colours = np.unique(result[mask], axis=0)
    assert len(colours) == 1 and (result[~mask] == base[~mask]).all()  # no mixture at the edge
    editor.page.locator("#edge label").nth(0).click()
    editor.paint("a cactus")
    assert len(np.unique(np.asarray(editor.picture().convert("RGB"))[mask], axis=0)) > 1


def test_the_prompt_is_counted_and_words_are_named_and_offered(editor: Editor) -> None:
    field = editor.page.locator("#prompt textarea")
    field.fill("a xyzzy near a ca")
    expect(editor.page.locator("#notes .tokens")).to_have_text("5 of 77")
    expect(editor.page.locator("#notes .unread")).to_contain_text("xyzzy")
    offered = editor.page.locator("#notes .suggestions button")
    expect(offered).to_have_text(["cat", "cactus", "castle"])
    offered.nth(1).click()
    expect(field).to_have_value("a xyzzy near a cactus ")
    expect(field).to_be_focused()
    field.fill(" ".join(f"w{number}" for number in range(80)))
    expect(editor.page.locator("#notes .unread")).to_contain_text("w77 w78 w79")


def test_the_theme_is_chosen_and_remembered(editor: Editor) -> None:
    dark = "document.body.classList.contains('dark')"
    assert not editor.page.evaluate(dark)
    editor.page.locator("#top .theme").click()
    assert editor.page.evaluate(dark)
    editor.page.reload()
    editor.page.locator("#go").wait_for()
    editor.page.wait_for_function(dark)
