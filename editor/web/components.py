"""The page's own parts: a canvas that paints a mask, a strip of thumbnails, a line of plain text.

Each is Gradio's HTML component with our script. None puts a value into markup: the scripts set text, never HTML.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import gradio as gr

HERE = Path(__file__).parent
CANVAS_MARKUP = """
<div class="tools" role="toolbar" aria-label="Mask tools">
  <button type="button" data-tool="brush" aria-pressed="true" title="Paint the mask (B)">Brush</button>
  <button type="button" data-tool="eraser" aria-pressed="false" title="Take paint away (E)">Eraser</button>
  <label title="Brush size in pixels ([ and ])">
    Size <input type="range" class="size" min="1" max="256" value="48">
  </label>
  <button type="button" data-do="clear" title="Clear the mask">Clear</button>
  <button type="button" data-do="fit" title="Fit to view (0). Wheel zooms, Space drags.">Fit</button>
  <button type="button" data-do="before" title="Hold to see the picture before the last edit">Before</button>
  <span class="gap"></span>
  <label class="button" role="button" tabindex="0" title="Open a picture; dropping or pasting one works too">
    Open<input type="file" accept="image/*" hidden>
  </label>
  <a class="button export" download title="Save the picture as PNG" hidden>Export</a>
</div>
<div class="stage">
  <canvas tabindex="0" aria-label="Picture: paint over what should change"></canvas>
  <p class="hint">Describe a picture and press Generate, or open one: drop it here, paste it, or press Open.</p>
  <div class="progress"><div></div></div>
</div>
"""


def mask_canvas(**options: Any) -> gr.HTML:
    """Shows the picture and lets a person paint a mask over it; canvas.js documents the value it takes.

    Its event `opened` says that a picture file has arrived in the session.
    """
    return _component(CANVAS_MARKUP, (HERE / "canvas.js").read_text("utf-8"), **options)


def decode_mask(data_url: Any) -> bytes | None:
    """The PNG that readMask() of canvas.js sent (white = painted, at picture size); None for anything else."""
    head, _, data = data_url.partition(",") if isinstance(data_url, str) else ("", "", "")
    if head != "data:image/png;base64":
        return None
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return None


def strip(name: str, **options: Any) -> gr.HTML:
    """A row of pictures to choose from.

    Its value is {"items": [{"id", "url", "label"}], "selected": id}; its event `pick` carries {"id"}.
    """
    markup = f'<div class="strip" role="group" aria-label="{name}"></div>'
    return _component(markup, (HERE / "strip.js").read_text("utf-8"), **options)


def line(**options: Any) -> gr.HTML:
    """One line of plain text, its value, that screen readers announce when it changes."""
    script = """
        const write = () => { element.firstElementChild.textContent = props.value ?? ""; };
        watch("value", write);
        write();
    """
    return _component('<p role="status" aria-live="polite"></p>', script, **options)


def _component(markup: str, script: str, **options: Any) -> gr.HTML:
    # not subclasses: Gradio writes a .pyi file beside the source of every subclass of a component
    return gr.HTML(html_template=markup, js_on_load=script, apply_default_css=False, **options)
