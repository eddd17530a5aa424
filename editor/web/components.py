"""The page's own parts. Each is Gradio's HTML component with a script of ours from `scripts/`.

None puts a value into markup: the scripts set text and attributes, never HTML.
"""

from __future__ import annotations

from typing import Any

import gradio as gr


def component(script: str, markup: str, events: tuple[str, ...] = (), **options: Any) -> gr.HTML:
    """`scripts/<script>.js` exports start(element, props, events, watch); `events` are the names it may send."""
    # Gradio looks for the names of events in this text
    senders = ", ".join(f'{name}: (data) => trigger("{name}", data)' for name in events)
    load = f'import("/scripts/{script}.js").then((it) => it.start(element, props, {{ {senders} }}, watch));'
    # not subclasses: Gradio writes a .pyi file beside the source of every subclass of a component
    return gr.HTML(html_template=markup, js_on_load=load, apply_default_css=False, **options)


def line(between: str = " ", **options: Any) -> gr.HTML:
    """Sentences that screen readers announce when they change: a list of `words.say` and of plain text."""
    return component("line", f'<p role="status" aria-live="polite" data-between="{between}"></p>', **options)


def strip(**options: Any) -> gr.HTML:
    """The takes to choose from: {"items": [{"id", "url", "name", "dense"}], "selected": id}; `pick` carries {"id"}."""
    markup = '<div class="strip" role="group" data-label="takes.label"></div>'
    return component("strip", markup, ("pick",), **options)


def history_tree(**options: Any) -> gr.HTML:
    """The history: {"items": [{"id", "parent", "url", "name", "column", "lane"}], "selected": id}.

    `pick` carries {"id"}, `rename` {"id", "name"}.
    """
    markup = '<div class="tree" role="group" data-label="history.label"></div>'
    return component("history", markup, ("pick", "rename"), **options)


def prompt_notes(**options: Any) -> gr.HTML:
    """Under the prompt: tokens used, words that do not fit or are not known, words to go on with. Takes no value."""
    markup = """
        <div class="notes"><p class="unread" aria-live="polite"></p><span class="tokens"></span></div>
        <div class="suggestions" role="group" data-label="prompt.suggestions"></div>
    """
    return component("prompt", markup, **options)


def cost(**options: Any) -> gr.HTML:
    """Under the button: what it is going to cost. The canvas's forecast writes it; takes no value."""
    return component("line", '<p class="cost" aria-live="off"></p>', **options)
