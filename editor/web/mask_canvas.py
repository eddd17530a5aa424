"""The canvas: shows the picture and lets a person paint a mask over it. Its scripts are in `canvas/`."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import gradio as gr
from PIL import Image

from diffusion_engine import UserError
from editor.images import decode
from editor.web.components import component

# name, title, drawing on a 20 x 20 grid
TOOLS = [
    ("brush", "Brush (B): paint the mask", '<path d="M4 16c3 0 3-3 5-4l7-8 1 1-7 8c-1 2-1 4-6 3z"/>'),
    ("eraser", "Eraser (E): take paint away", '<path d="M9 16h8M4 12l6-7 6 5-6 6H7z"/>'),
    (
        "lasso",
        "Lasso (L): paint what you draw around",
        '<path d="M10 4c4 0 7 2 7 4.5S14 13 10 13s-7-2-7-4.5S6 4 10 4zM6 12c-1 2 0 4 2 4"/>',
    ),
    ("polygon", "Polygon (P): click corners, double-click to close", '<path d="M4 15l2-10 9 2 1 8z"/>'),
    ("rectangle", "Rectangle (R)", '<rect x="4" y="5" width="12" height="10"/>'),
    ("ellipse", "Ellipse (O)", '<ellipse cx="10" cy="10" rx="7" ry="5"/>'),
]
ACTIONS = [
    ("holes", "Fill holes (F)", '<circle cx="10" cy="10" r="7"/><circle cx="10" cy="10" r="3" fill="currentColor"/>'),
    (
        "invert",
        "Invert the mask (I)",
        '<circle cx="10" cy="10" r="7"/><path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor"/>',
    ),
    ("clear", "Clear the mask (Delete)", '<path d="M5 6h10M8 6V4h4v2M6 6l1 11h6l1-11"/>'),
    ("undo", "Undo the last stroke (Ctrl+Z)", '<path d="M7 5L4 8l3 3M4 8h8a4 4 0 0 1 0 8H8"/>'),
    ("redo", "Redo (Ctrl+Shift+Z)", '<path d="M13 5l3 3-3 3M16 8H8a4 4 0 0 0 0 8h4"/>'),
]


def _buttons(kind: str, table: list[tuple[str, str, str]]) -> str:
    return "".join(
        f'<button type="button" data-{kind}="{name}" title="{title}" aria-label="{title}">'
        f'<svg viewBox="0 0 20 20" aria-hidden="true">{drawing}</svg></button>'
        for name, title, drawing in table
    )


CANVAS_MARKUP = f"""
<div class="rail" role="toolbar" aria-label="Mask tools" aria-orientation="vertical">
  {_buttons("tool", TOOLS)}<hr>{_buttons("do", ACTIONS)}
</div>
<div class="tools">
  <span class="brush-only">
    <label title="Brush size in pixels ([ and ])">
      Size <input type="range" class="size" min="1" max="256" value="48">
    </label>
    <label title="The brush fades towards its edge"><input type="checkbox" class="soft"> Soft</label>
  </span>
  <label title="How strongly the mask is shown">
    Veil <input type="range" class="veil" min="0" max="1" step="0.05" value="0.45">
  </label>
  <span class="gap"></span>
  <button type="button" data-do="fit" title="Fit to view (Ctrl+0). The wheel zooms, Space drags.">Fit</button>
  <button type="button" data-do="actual" title="One pixel of the picture is one of the screen (Ctrl+1)">100 %</button>
  <button type="button" class="before" title="Hold to see the picture before the last edit">Before</button>
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
# Gradio looks for the names of events in this text
CANVAS_SCRIPT = """
    const opened = () => trigger("opened");
    import("/canvas/start.js").then((module) => module.start(element, props, opened, watch));
"""


def mask_canvas(**options: Any) -> gr.HTML:
    """Shows the picture and lets a person paint a mask over it; canvas/start.js documents the value it takes.

    Its event `opened` says that a picture file has arrived in the session.
    """
    return component(CANVAS_MARKUP, CANVAS_SCRIPT, **options)


def decode_mask(value: Any, size: tuple[int, int]) -> Image.Image | None:
    """The mask that readMask() of the canvas sent, as "L" of the size of the picture; None for anything else.

    value: {"left", "top", "png"}, the painted part and where it lies
    """
    if not isinstance(value, dict):
        return None
    head, _, data = str(value.get("png")).partition(",")
    left, top = value.get("left"), value.get("top")
    if head != "data:image/png;base64" or not isinstance(left, int) or not isinstance(top, int):
        return None
    try:
        part = decode(base64.b64decode(data, validate=True), "The mask").image
    except (binascii.Error, UserError):
        return None
    mask = Image.new("L", size)
    mask.paste(part.convert("L"), (left, top))
    return mask
