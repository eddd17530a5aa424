"""The page's own small parts: a strip of thumbnails, a line of plain text, and what they are made of.

Each is Gradio's HTML component with our script. None puts a value into markup: the scripts set text, never HTML.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

HERE = Path(__file__).parent


def strip(name: str, **options: Any) -> gr.HTML:
    """A row of pictures to choose from.

    Its value is {"items": [{"id", "url", "label"}], "selected": id}; its event `pick` carries {"id"}.
    """
    markup = f'<div class="strip" role="group" aria-label="{name}"></div>'
    return component(markup, (HERE / "strip.js").read_text("utf-8"), **options)


def line(**options: Any) -> gr.HTML:
    """One line of plain text, its value, that screen readers announce when it changes."""
    script = """
        const write = () => { element.firstElementChild.textContent = props.value ?? ""; };
        watch("value", write);
        write();
    """
    return component('<p role="status" aria-live="polite"></p>', script, **options)


def component(markup: str, script: str, **options: Any) -> gr.HTML:
    # not subclasses: Gradio writes a .pyi file beside the source of every subclass of a component
    return gr.HTML(html_template=markup, js_on_load=script, apply_default_css=False, **options)
