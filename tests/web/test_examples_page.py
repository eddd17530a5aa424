"""The first visit and the examples: a picture, a mask and a prompt are ready, and one press shows the point."""

from __future__ import annotations

import numpy as np
import pytest
from editing import Editor, differing
from PIL import Image
from playwright.sync_api import expect

from editor.examples import load_examples

pytestmark = pytest.mark.browser
EXAMPLES = load_examples()


def painted(example) -> np.ndarray:
    return np.asarray(Image.open(example.mask).convert("L"))


def test_a_first_visit_is_not_an_empty_form(address: str, browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    editor, first = Editor(context.new_page()), EXAMPLES[0]
    editor.page.goto(address)
    expect(editor.page.locator("#go")).to_have_text("Paint it")
    expect(editor.page.locator("#prompt textarea")).to_have_value(first.edit_prompt)
    expect(editor.page.locator("#cost p")).to_contain_text("%")
    assert np.array_equal(editor.mask(), painted(first))
    base = editor.picture()
    assert not differing(base, Image.open(first.picture)).any()
    editor.paint(first.edit_prompt)
    changed = differing(base, editor.picture())
    assert changed.any() and not changed[painted(first) == 0].any()
    assert f"seed {first.edit_seed}" in editor.page.locator("#status p").inner_text()
    again = context.new_page()  # the second visit begins with nothing, when the first one is still open
    again.goto(address)
    expect(again.locator("#go:enabled")).to_have_text("Generate")
    context.close()


def test_G14_after_choosing_an_example_a_dab_lands_under_the_pointer(address: str, visit) -> None:
    editor = Editor(visit(address))
    shown = editor.page.locator("[data-example]")
    expect(shown).to_have_count(len(EXAMPLES))
    assert len(EXAMPLES) == 6
    shown.nth(2).click()
    third = EXAMPLES[2]
    expect(editor.page.locator("#prompt textarea")).to_have_value(third.edit_prompt)
    expect(editor.page.locator("#top .name")).to_have_value(third.title)
    editor.page.wait_for_function("() => document.querySelector('#canvas canvas').readMask() !== null")
    editor.press("Delete")
    editor.stroke((300, 200), (300, 200), size=20)
    rows, columns = np.nonzero(editor.mask())
    assert np.allclose([columns.mean() + 0.5, rows.mean() + 0.5], (300, 200), atol=1)
