"""The whole editor as a person runs it: app.py in a process of its own, the starter model, a real browser."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from editing import Editor, differing
from PIL import Image
from playwright.sync_api import expect

from benchmarks.running_program import free_port

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SIDE, STEPS = 256, 10


@contextmanager
def running(folder: Path, port: int) -> Iterator[str]:
    """The address that app.py prints. It must stop at Ctrl+C, with a page still open, and say nothing unpleasant."""
    options = ["--port", str(port), "--no-browser", "--device", "cpu", "--offline", "--sessions-dir", str(folder / "s")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with open(folder / "errors.txt", "w+") as errors:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "app.py"), *options],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert f"http://127.0.0.1:{port}" in line, (folder / "errors.txt").read_text()
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()
        errors.seek(0)
        assert "Traceback" not in errors.read()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("app"), free_port()) as address:
        yield address


@pytest.fixture
def editor(app: str, visit) -> Editor:
    editor = Editor(visit(app))
    editor.set(width=SIDE, height=SIDE, steps=STEPS, seed=1)
    return editor


def test_generate_paint_stop_and_paint_again(editor: Editor) -> None:
    editor.generate("desert dunes under a starry night sky")
    base = editor.picture()
    assert base.size == (SIDE, SIDE) and np.asarray(base).std() > 5

    editor.stroke((90, 150), (150, 170), size=50)
    mask = editor.mask() > 0
    editor.set(feather=6)
    editor.paint("a cactus")
    result = editor.picture()
    changed = differing(base, result)
    assert changed[mask].mean() > 0.5 and not changed[~mask].any()
    expect(editor.page.locator("#status p")).to_contain_text("0 pixels changed outside")
    editor.page.locator("#keep").click()
    expect(editor.versions()).to_have_count(2)

    editor.stroke((200, 60), (200, 60), size=40)
    editor.page.locator("#variations label").nth(3).click()
    editor.page.locator("#mode label").nth(2).click()  # everything, four times: long enough to be stopped
    editor.go("a red balloon")
    editor.page.locator("#stop").click()
    expect(editor.message()).to_contain_text("Stopped")
    assert not differing(editor.picture(), result).any() and editor.mask().any()

    mask |= editor.mask() > 0
    editor.page.locator("#mode label").nth(0).click()
    editor.page.locator("#variations label").nth(1).click()
    editor.paint("a red balloon")
    expect(editor.takes()).to_have_count(2)
    editor.takes().nth(1).click()
    expect(editor.takes().nth(1)).to_have_attribute("aria-pressed", "true")
    editor.page.locator("#keep").click()
    expect(editor.versions()).to_have_count(3)
    changed = differing(base, editor.picture())
    assert changed.any() and not changed[~mask].any()


def test_open_a_photo_of_any_size_that_lies_on_its_side(editor: Editor) -> None:
    blots = np.random.default_rng(0).integers(0, 256, (9, 14, 3), np.uint8)
    photo = Image.fromarray(blots).resize((203, 131), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 8  # turn a quarter to the left
    file = io.BytesIO()
    photo.save(file, "JPEG", exif=exif, quality=95)
    editor.open(file.getvalue(), "photo.jpg")
    base = editor.picture()
    assert base.size == (131, 203)
    editor.stroke((100, 30), (100, 30), size=40)
    mask = editor.mask() > 0
    editor.paint("a mushroom")
    changed = differing(base, editor.picture())
    rows, columns = np.nonzero(changed)
    assert not changed[~mask].any() and rows.max() < 55 and columns.min() > 75


def test_words_the_starter_model_was_not_taught_are_named(editor: Editor) -> None:
    editor.generate("a xylophonist in a desert")
    expect(editor.page.locator("#notes .unread")).to_contain_text("xylophonist")


def test_F3_work_survives_a_restart_of_the_program(tmp_path: Path, visit) -> None:
    port = free_port()
    with running(tmp_path, port) as address:
        editor = Editor(visit(address))
        editor.set(width=SIDE, height=SIDE, steps=STEPS)
        editor.generate("green hills under a blue sky")
        editor.stroke((100, 100), (130, 110), size=40)
        editor.paint("a red balloon")
        editor.keep()
        editor.stroke((40, 40), (50, 50), size=30)
        mask, base = editor.mask(), editor.picture()
        editor.page.wait_for_function("document.querySelector('#cost p').textContent")  # the mask has been sent
    with running(tmp_path, port):
        editor.page.reload()
        expect(editor.versions()).to_have_count(2, timeout=60_000)
        editor.page.wait_for_function("document.querySelector('#cost p').textContent")
        assert not differing(editor.picture(), base).any() and np.array_equal(editor.mask(), mask)
        editor.paint("a mushroom")  # and it goes on from there
        changed = differing(editor.picture(), base)
        assert changed[mask > 0].any() and not changed[mask == 0].any()
