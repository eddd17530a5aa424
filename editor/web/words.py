"""The words of the page in every language: one JSON file each, read by Gradio's components and by our scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

FOLDER = Path(__file__).parent / "scripts" / "words"
WORDS: dict[str, dict[str, str]] = {file.stem: json.loads(file.read_text("utf-8")) for file in FOLDER.glob("*.json")}
# languages that Gradio knows and we do not, shown in one that their readers read; words.js does the same
AKIN = {"zh-TW": "zh-CN"}
I18N = gr.I18n(**WORDS, **{language: WORDS[akin] for language, akin in AKIN.items()})


def word(key: str) -> Any:
    """A label for a Gradio component, in the language of whoever looks at it."""
    if key not in WORDS["en"]:
        raise KeyError(key)
    return I18N(key)


def say(key: str, **values: Any) -> dict[str, Any]:
    """A sentence for a `line`, written by the page: the words of `key` with {names} replaced by values."""
    if key not in WORDS["en"]:
        raise KeyError(key)
    return {"key": key, "values": values}
