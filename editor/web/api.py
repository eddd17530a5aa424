"""The editor for programs, callable with gradio_client: /open, /generate, /edit, /commit, /history and /export.

One client is one session, unless it names another. docs/api.md has an example.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

import gradio as gr
from gradio.components import Component

from editor.sessions import Sessions
from editor.web.endpoints import arguments, endpoints


def add_api(sessions: Sessions) -> None:
    """Adds the endpoints to the current gr.Blocks, without anything to see."""
    with gr.Column(visible=False):
        key, result = gr.State(None), gr.JSON()
        for endpoint in endpoints(sessions):
            inputs = [key, *map(component, arguments(endpoint))]
            button: Any = gr.Button()  # Gradio adds event methods to its classes when it is imported
            button.click(endpoint, inputs, [key, result], api_name=endpoint.__name__, concurrency_limit=None)


def component(argument: Parameter) -> Component:
    """What Gradio takes an argument with; one that holds a value may be left out by the caller."""
    default: Any = None if argument.default is Parameter.empty else argument.default
    if argument.annotation is bytes:
        return gr.File(type="binary")
    if argument.annotation is bool:
        return gr.Checkbox(default)
    if argument.annotation in (int, float):
        return gr.Number(default, precision=0 if argument.annotation is int else None)
    return gr.Textbox(default)
