"""The words of the page: every language complete, every key in use, no English left on a page in another language."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import AS_A_NEW_WINDOW
from editing import Editor, picture_file
from PIL import Image
from playwright.sync_api import Page, Route, expect

import diffusion_engine
import editor
from diffusion_engine import EngineError, UserError
from diffusion_engine.pictures import mask_array
from diffusion_engine.requests import checked_number, checked_text, checked_whole
from editor import areas, images, masks
from editor.examples import load_examples
from editor.limits import MAX_SIDE
from editor.web.mask_canvas import ACTIONS, TOOLS
from editor.web.words import AKIN, FOLDER, WORDS

EN = WORDS["en"]
OTHERS = sorted(WORDS.keys() - {"en"})
SENTENCES = {
    language: json.loads((FOLDER / "sentences" / f"{language}.json").read_text("utf-8")) for language in OTHERS
}
HOLE = re.compile(r"\{\w*\}")


@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_every_word_with_the_same_values(language: str) -> None:
    words = WORDS[language]
    assert words.keys() == EN.keys()
    assert [key for key, text in words.items() if not text.strip()] == []
    assert [key for key in EN if sorted(HOLE.findall(words[key])) != sorted(HOLE.findall(EN[key]))] == []


def test_scripts_and_components_know_the_same_languages() -> None:
    listed = re.search(r"LANGUAGES = (\[.*?\]);", (FOLDER.parent / "words.js").read_text("utf-8"))
    assert listed and sorted(json.loads(listed[1])) == sorted(WORDS)
    assert set(AKIN.values()) <= WORDS.keys() and not AKIN.keys() & WORDS.keys()


# ---- keys

USE = re.compile(r"(?:\b(?:word|say)\(|\bword: |data-(?:word|title|label)=)([^,)>]*)")
KEY = re.compile(r"""["'`]([\w{}]+(?:\.[\w{}]+)+)["'`]""")
# keys that are put together, with what becomes of them
COMPOSED = {
    "{}.title": [
        f"{it}.title" for it in ("strength", "edge", "variations", "grow", "feather", "guidance", "mode", "check")
    ],
    "{}.{}": [f"tool.{name}" for name, _ in TOOLS] + [f"do.{name}" for name, _ in ACTIONS],
    "tool.{}.name": [f"tool.{name}.name" for name, _ in TOOLS],
    "mode.{}": [f"mode.{mode}" for mode in ("auto", "sparse", "dense")],
    "memory.{}": ["memory.memory", "memory.host", "memory.disk"],
    "status.{}": [f"status.{stage}" for stage in ("record", "denoise", "decode")],
    "{}.label": [f"{name}.label" for name in ("seed", "grow", "feather", "guidance", "width", "height", "steps")],
}


def test_the_page_uses_every_key_and_no_other() -> None:
    used: set[str] = set()
    for file in [*FOLDER.parents[1].rglob("*.py"), *FOLDER.parent.rglob("*.js")]:
        source = re.sub(r"\$?\{\w+\}", "{}", file.read_text("utf-8"))
        used.update(key for use in USE.findall(source) for key in KEY.findall(use))
    assert {key for key in used if "{}" in key} == COMPOSED.keys()
    assert {key for each in used for key in COMPOSED.get(each, [each])} == EN.keys()


# ---- sentences of the program

# of the command line, and what ends the program before there is a page
NOT_ON_THE_PAGE = {
    *("cli.py", "commands.py", "arguments.py", "settings.py", "terminal.py", "installed_models.py", "serve.py"),
    *("model.py", "supported.py"),
}
RESOLVED = {"_DAMAGED.format(name=name)": images._DAMAGED.format(name="{}")}
# what else the page shows, and values of sentences that are words themselves
ELSEWHERE = [
    *(example.title for example in load_examples()),
    *("The picture", "The mask", "mask", "blend mask", "prompt", "negative prompt"),
    *("steps", "guidance", "variations", "strength", "unknown reason"),
    *(os.strerror(number) for number in (errno.ENOSPC, errno.EACCES, errno.ENOENT)),
    "{} million",
    "a pixel is not a finite number",
    "a picture may have sides up to {} and {} million pixels, so make it smaller",
]


def template(node: ast.expr) -> str:
    """The sentence of an expression, {} for each of its values."""
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else template(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) else RESOLVED[ast.unparse(node)]


def program_sentences() -> set[str]:
    """All that errors meant for people say, and the notices about pictures."""
    found: set[str] = set()
    for package in (editor, diffusion_engine):
        for file in Path(package.__file__).parent.rglob("*.py"):
            tree = ast.parse("" if file.name in NOT_ON_THE_PAGE else file.read_text("utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("UserError", "EngineError", "Refused"):
                    found.add(template(node.args[-1]))
                elif isinstance(node, ast.Tuple) and file.name in ("images.py", "pixel_formats.py"):
                    texts = [template(one) for one in node.elts if isinstance(one, ast.JoinedStr | ast.Constant)]
                    found.update(text for text in texts if isinstance(text, str) and text.endswith("."))
    return found


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_of_the_program_is_translated_and_no_other(language: str) -> None:
    assert SENTENCES[language].keys() == program_sentences() | set(ELSEWHERE)


@pytest.mark.browser
@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_becomes_its_own_translation(address: str, visit, language: str) -> None:
    page = visit(address, locale=language)
    wrong = []
    for english, translated in SENTENCES[language].items():
        values = [f"<{number} a.b>" for number in range(english.count("{}"))]
        expected = translated.format(*values) if "{}" in translated else translated.format("", *values)
        got = translate(page, english.format(*values))
        if got != expected or not all(value in got for value in values):
            wrong.append((english, got))
    assert wrong == []


def refused(act: Callable[[], object]) -> str:
    with pytest.raises((UserError, EngineError)) as caught:
        act()
    return str(caught.value)


@pytest.mark.browser
def test_values_that_are_words_are_translated(address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    not_finite = Image.fromarray(np.full((64, 64), np.nan, np.float32))
    translations = SENTENCES["zh-CN"]
    shown = {
        words: translate(page, refused(act))
        for words, act in {
            "The picture": lambda: images.open_picture(picture_file((20, 20))),
            "a picture may have sides up to {} and {} million pixels, so make it smaller": lambda: images.open_picture(
                picture_file((MAX_SIDE + 1, 64))
            ),
            "The mask": lambda: masks.read_mask(picture_file((20, 20)), (64, 64)),
            "a pixel is not a finite number": lambda: masks.read_mask(not_finite, (64, 64)),
            "blend mask": lambda: mask_array(np.zeros((4, 4), np.uint8), (64, 64), "blend mask"),
            "negative prompt": lambda: checked_text(7, "negative prompt"),
            "steps": lambda: checked_whole(0, "steps", 1, 200),
            "strength": lambda: checked_number(2, "strength", 0.01, 1),
            "{} million": lambda: areas.area_around(areas.Box(0, 0, 4000, 4000), (4000, 4000), (64, 64)),
        }.items()
    }
    for words, sentence in shown.items():
        assert all(part in sentence for part in translations[words].split("{}"))
        assert foreign([sentence]) == set()


def translate(page: Page, sentence: str) -> str:
    return page.evaluate("async it => (await import('/scripts/words.js')).translate(it)", sentence)


# ---- the page in another language

ZH = WORDS["zh-CN"]
NAMES = {"Deltabrush", "PNG", "WebP", "JPEG", "GIF", "BMP", "MB", "x", "painted", "ddim", "euler", "xyzzy", "v"}
KEYS = {*"BEFCGILOPRSVZ", "Ctrl", "Shift", "Delete", "Tab", "token"}
SEEN = "const seen = (it) => it.checkVisibility({ visibilityProperty: true });"
TEXTS = f"""() => {{
    {SEEN}
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {{
        const parent = walker.currentNode.parentElement;
        if (seen(parent) && !parent.closest("kbd")) texts.push(walker.currentNode.data);
    }}
    return texts;
}}"""
TOOLTIPS = f"""() => {{
    {SEEN}
    const ours = [...document.querySelectorAll(".html-container *")].filter(seen);
    return ours.flatMap((it) => [it.title ?? "", it.getAttribute("aria-label") ?? ""]);
}}"""
# Of buttons and labels: those whose text leaves them, or that leave their component; buttons that lie over one another;
# text of more than one line. Names in the history are cut on purpose. Gradio's labels are inline, without a height.
FAULTS = rf"""() => {{
    {SEEN}
    const box = (it) => it.getBoundingClientRect();
    const texts = (it) => {{
        const walker = document.createTreeWalker(it, NodeFilter.SHOW_TEXT), found = [];
        while (walker.nextNode()) {{
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            if (/[\p{{L}}\d]/u.test(walker.currentNode.data)) found.push([...range.getClientRects()]);
        }}
        return found;
    }};
    const beside = (one, it) => one.left < it.left - 1 || one.right > it.right + 1;
    const above = (one, it) => one.top < it.top - 1 || one.bottom > it.bottom + 1;
    const meet = (one, it) => Math.min(one.right, it.right) - Math.max(one.left, it.left) > 1
        && Math.min(one.bottom, it.bottom) - Math.max(one.top, it.top) > 1;
    const find = (tags) => [...document.querySelectorAll(tags)].filter((it) => seen(it) && !it.closest(".tree"));
    const [buttons, labels] = [find("button, .button"), find("label")];
    const page = buttons.filter((it) => !it.closest("dialog, .menu"));
    const cut = (it, leaves) => texts(it).flat().some((line) => leaves(line, box(it)));
    const outside = (it) => beside(box(it), box(it.closest(".menu, dialog, .block") ?? document.body));
    const faults = {{
        cut: [...buttons, ...labels].filter((it) => cut(it, beside) || outside(it)),
        high: buttons.filter((it) => cut(it, above)),
        over: page.filter((one) => page.some((it) => it !== one && meet(box(one), box(it)))),
        wrapped: [...buttons, ...labels].filter((it) => texts(it).some((lines) => lines.length > 1)),
    }};
    return Object.fromEntries(Object.entries(faults).map(([fault, its]) => [fault, its.map((it) => it.innerText)]));
}}"""
NO_FAULT: dict[str, list[str]] = {"cut": [], "high": [], "over": [], "wrapped": []}
SIZE = "[document.documentElement.scrollHeight, document.documentElement.scrollWidth]"


def foreign(texts: list[str], allowed: set[str] = NAMES) -> set[str]:
    """The words in Latin letters that have no business here."""
    return {word for text in texts for word in re.findall(r"[A-Za-z]+", text)} - allowed


def fill(page: Page) -> None:
    """A picture, three results that wait, and a note under the prompt."""
    filled = Editor(page)
    filled.go("一片田野")
    expect(filled.versions()).to_have_count(1)
    filled.finish()
    filled.stroke((30, 30), (60, 60), size=20)
    page.locator("#variations label").nth(2).click()
    filled.paint("仙人掌 xyzzy")
    page.locator("#notes .unread:not(:empty)").wait_for()


def everything_open(page: Page) -> Iterator[None]:
    """Opens what can be opened, one after the other; yields before each and at the end."""
    for opener in ("#more > button", "#top summary", "#top .help"):
        yield
        page.locator(opener).click()
        page.wait_for_timeout(300)  # Gradio slides it open
    yield


@pytest.mark.browser
def test_no_english_is_left_on_the_chinese_page(address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    assert foreign(page.evaluate(TEXTS)) == set()
    fill(page)
    *_, _ = everything_open(page)
    for texts, allowed in [(page.evaluate(TEXTS), NAMES), (page.evaluate(TOOLTIPS), NAMES | KEYS)]:
        assert len("".join(texts)) > 500
        assert foreign(texts, allowed) == set()


@pytest.mark.browser
def test_what_runs_is_told_in_chinese(engine, address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    go_on = threading.Event()
    engine.before_step = lambda step: go_on.wait(60) if step == 2 else None
    Editor(page).go("一片田野")
    expect(page.locator("#stop")).to_have_text(ZH["go.stop"])
    expect(page.locator("#status p")).to_contain_text("第 1 步，共 4 步")
    go_on.set()
    expect(page.locator("#go")).to_have_text(ZH["go.paint"])
    expect(page.locator("#status p")).to_contain_text("用时")


@pytest.mark.browser
def test_errors_are_told_in_chinese(address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    drawn = Editor(page)
    page.locator('#top input[type="file"]').set_input_files(
        {"name": "a.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}
    )
    expect(drawn.message()).to_have_text("图片不是 PNG、JPEG、WebP、GIF 或 BMP 图片，请另存为其中一种。")
    drawn.open(picture_file((90, 70)))
    drawn.go("仙人掌")
    expect(drawn.message()).to_have_text("请先涂抹要改动的部分。")


@pytest.mark.browser
def test_labels_of_gradio_are_in_chinese(address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    page.locator("#more > button").click()
    for place, keys in {
        "#prompt label": ["prompt.label"],
        "#go": ["go.generate"],
        "#variations > span": ["variations.label"],
        "#strength label": ["strength.label"],
        "#edge label": ["edge.soft", "edge.hard"],
        "#more > button": ["more.label"],
        "#mode label": ["mode.auto", "mode.sparse", "mode.dense"],
    }.items():
        for number, key in enumerate(keys):
            expect(page.locator(place).nth(number)).to_contain_text(ZH[key])


@pytest.mark.browser
def test_nothing_is_cut_off_in_chinese(address: str, visit) -> None:
    page = visit(address, locale="zh-CN")
    assert page.evaluate(FAULTS) == NO_FAULT
    fill(page)
    for _ in everything_open(page):
        assert page.evaluate(FAULTS) == NO_FAULT
    seed = page.locator("#seed input")
    seed.fill(str(2**31 - 1))
    assert seed.evaluate("it => it.scrollWidth <= it.clientWidth")


@pytest.mark.browser
def test_labels_twice_as_long_fit(address: str, contexts) -> None:
    def double(words: dict[str, str]) -> dict[str, str]:
        return {key: f"{text} {text}" for key, text in words.items()}

    def file(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=double(response.json()))

    def page_with_config(route: Route) -> None:
        response = route.fetch()
        before, start, rest = response.text().partition("window.gradio_config = ")
        config, length = json.JSONDecoder().raw_decode(rest)
        config["i18n_translations"]["en"] = double(config["i18n_translations"]["en"])
        longer = json.dumps(config).replace("<", "\\u003c")
        route.fulfill(response=response, body=before + start + longer + rest[length:])

    page = contexts().new_page()
    page.add_init_script(AS_A_NEW_WINDOW)
    page.route("**/scripts/words/en.json", file)
    page.route(f"{address}/", page_with_config)
    page.goto(address)
    expect(page.locator("#go")).to_have_text("Generate Generate")
    expect(page.locator('[data-send="new"]')).to_have_text("New New")
    fill(page)
    for _ in everything_open(page):
        assert page.evaluate(FAULTS) | {"wrapped": []} == NO_FAULT
        assert page.evaluate(SIZE) == [800, 1280]
    assert len(set(page.locator("#variations label").evaluate_all("all => all.map((it) => it.offsetTop)"))) == 1
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("wanted", "language"),
    # Gradio does not know what zh-HK is and takes English: then all of the page is English
    [("en-GB", "en"), ("fr-FR", "en"), ("zh-CN", "zh-CN"), ("zh-TW", "zh-CN"), ("zh-HK", "en")],
)
def test_all_of_the_page_is_in_one_language(address: str, visit, wanted: str, language: str) -> None:
    page = visit(address, locale=wanted)
    words = WORDS[language]
    expect(page.locator('[data-send="new"]')).to_have_text(words["top.new"])
    expect(page.locator("#go")).to_have_text(words["go.generate"])
    expect(page.locator("#prompt label").first).to_contain_text(words["prompt.label"])
    expect(page.locator("html")).to_have_attribute("lang", language)
