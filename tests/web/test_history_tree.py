"""The history on the page: branches, names, comparing two versions, undo and redo of edits."""

from __future__ import annotations

import pytest
from editing import Editor, differing
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
LEFT, RIGHT = (30, 48), (98, 48)


@pytest.fixture
def editor(address: str, visit) -> Editor:
    """A field with a cactus on its left, and with a palm on its right: two branches of one picture."""
    editor = Editor(visit(address))
    editor.generate("a field")
    for prompt, place in [("a cactus", LEFT), ("a palm", RIGHT)]:
        editor.show(0)
        editor.stroke(place, place, size=20)
        editor.paint(prompt)
        editor.keep()
    return editor


def test_a_branch_from_any_version_has_a_lane_of_its_own(editor: Editor) -> None:
    boxes = [editor.versions().nth(number).bounding_box() for number in range(3)]
    root, cactus, palm = ((box["x"], box["y"]) for box in boxes)
    assert root[1] == cactus[1] < palm[1] and root[0] < cactus[0] == palm[0]
    assert editor.page.locator("#history path").count() == 2
    pictures = []
    for number in range(3):
        editor.show(number)
        pictures.append(editor.picture())
    field, cactus, palm = pictures
    assert differing(field, cactus)[:, :64].any() and not differing(field, cactus)[:, 64:].any()
    assert differing(field, palm)[:, 64:].any() and not differing(field, palm)[:, :64].any()


def test_undo_and_redo_of_edits_follow_the_branch_and_leave_the_strokes_alone(editor: Editor) -> None:
    palm = editor.picture()
    editor.stroke((64, 20), (64, 20), size=20)
    strokes = editor.mask()
    editor.press(",")
    expect(editor.versions().nth(0)).to_have_attribute("aria-pressed", "true")
    expect(editor.top("undo")).to_be_disabled()
    editor.press(".")
    expect(editor.versions().nth(2)).to_have_attribute("aria-pressed", "true")
    expect(editor.top("redo")).to_be_disabled()
    assert not differing(editor.picture(), palm).any()
    assert (editor.mask() == strokes).all()
    editor.press("Control+z")
    assert not editor.mask().any() and not differing(editor.picture(), palm).any()


def test_any_two_versions_can_be_compared(editor: Editor) -> None:
    palm = editor.seen(RIGHT)
    editor.versions().nth(1).click(modifiers=["Shift"])
    divider = editor.page.locator("#canvas .divider")
    divider.fill("100")
    assert editor.seen(LEFT) != (cactus_side := editor.seen(RIGHT)) != palm
    divider.fill("0")
    assert editor.seen(RIGHT) == palm and editor.seen(LEFT) == cactus_side  # nothing but a field on either side
    expect(editor.versions().nth(2)).to_have_attribute("aria-pressed", "true")  # comparing goes nowhere
    editor.press("c")
    expect(divider).to_be_hidden()


def test_the_button_of_an_entry_compares_too_and_the_current_one_has_none(editor: Editor) -> None:
    assert editor.page.locator("#history .with").count() == 2
    editor.versions().nth(0).hover()
    editor.page.locator("#history .with").nth(0).click()
    expect(editor.page.locator("#canvas .divider")).to_be_visible()


@pytest.mark.parametrize("where", ["history", "top"])
def test_a_version_is_renamed(editor: Editor, where: str) -> None:
    if where == "history":
        editor.versions().nth(2).focus()
        editor.page.keyboard.press("F2")
        editor.page.locator("#history input").fill("the last palm")
    else:
        editor.page.locator("#top .name").fill("the last palm")
    editor.page.keyboard.press("Enter")
    expect(editor.versions().nth(2)).to_have_attribute("aria-label", "the last palm")
    expect(editor.page.locator("#top .name")).to_have_value("the last palm")
    editor.page.reload()
    expect(editor.versions().nth(2)).to_have_attribute("aria-label", "the last palm")


def test_a_name_given_up_with_escape_stays_as_it_was(editor: Editor) -> None:
    editor.versions().nth(1).dblclick()
    editor.page.locator("#history input").fill("nonsense")
    editor.page.keyboard.press("Escape")
    expect(editor.page.locator("#history input")).to_have_count(0)
    expect(editor.versions().nth(1)).to_have_attribute("aria-label", "a cactus")


def test_ids_are_shown_where_a_version_is(editor: Editor) -> None:
    shown = editor.versions().nth(2).get_attribute("data-id")
    expect(editor.page.locator("#status p")).to_contain_text(f"version {shown}")
    assert f"Version {shown}" in editor.versions().nth(2).get_attribute("title")
