"""The canvas: shows the picture and lets a person paint a mask over it. Its scripts are in `scripts/canvas/`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from html import escape
from typing import Any

import gradio as gr

from diffusion_engine import UserError
from editor import masks
from editor.examples import Example
from editor.web.components import component

# name, drawing on a 20 x 20 grid; the words are `tool.<name>` and `do.<name>`
TOOLS = [
    ("brush", '<path d="M4 16c3 0 3-3 5-4l7-8 1 1-7 8c-1 2-1 4-6 3z"/>'),
    ("eraser", '<path d="M9 16h8M4 12l6-7 6 5-6 6H7z"/>'),
    ("lasso", '<path d="M10 4c4 0 7 2 7 4.5S14 13 10 13s-7-2-7-4.5S6 4 10 4zM6 12c-1 2 0 4 2 4"/>'),
    ("polygon", '<path d="M4 15l2-10 9 2 1 8z"/>'),
    ("rectangle", '<rect x="4" y="5" width="12" height="10"/>'),
    ("ellipse", '<ellipse cx="10" cy="10" rx="7" ry="5"/>'),
]
ACTIONS = [
    ("holes", '<circle cx="10" cy="10" r="7"/><circle cx="10" cy="10" r="3" fill="currentColor"/>'),
    ("invert", '<circle cx="10" cy="10" r="7"/><path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor"/>'),
    ("load", '<rect x="4" y="4" width="12" height="12" rx="2"/><circle cx="10" cy="10" r="3" fill="currentColor"/>'),
    ("clear", '<path d="M5 6h10M8 6V4h4v2M6 6l1 11h6l1-11"/>'),
    ("undo", '<path d="M7 5L4 8l3 3M4 8h8a4 4 0 0 1 0 8H8"/>'),
    ("redo", '<path d="M13 5l3 3-3 3M16 8H8a4 4 0 0 0 0 8h4"/>'),
]


def _buttons(kind: str, table: list[tuple[str, str]]) -> str:
    return "".join(
        f'<button type="button" data-{kind}="{name}" data-title="{kind}.{name}" data-label="{kind}.{name}">'
        f'<svg viewBox="0 0 20 20" aria-hidden="true">{drawing}</svg></button>'
        for name, drawing in table
    )


def _examples(examples: Sequence[Example]) -> str:
    return "".join(
        f'<button type="button" data-example="{escape(example.name)}" title="{escape(example.title)}">'
        f'<img src="/examples/{escape(example.picture.name)}" alt="{escape(example.title)}" loading="lazy"></button>'
        for example in examples
    )


def mask_canvas(examples: Sequence[Example], **options: Any) -> gr.HTML:
    """Shows the picture and lets a person paint a mask over it; scripts/canvas/start.js documents the value it takes.

    Its event `example` carries {"name"}: an example that was chosen.
    """
    markup = f"""
        <div class="rail" role="toolbar" data-label="canvas.tools" aria-orientation="vertical">
          {_buttons("tool", TOOLS)}<hr>{_buttons("do", ACTIONS)}
          <input type="file" class="mask-file" accept="image/*" hidden>
        </div>
        <div class="tools">
          <span class="brush-only">
            <label data-title="canvas.size.title"><span data-word="canvas.size"></span>
              <input type="range" class="size" min="1" max="512" value="48"></label>
            <label data-title="canvas.soft.title"><input type="checkbox" class="soft">
              <span data-word="canvas.soft"></span></label>
          </span>
          <label data-title="canvas.veil.title"><span data-word="canvas.veil"></span>
            <input type="range" class="veil" min="0" max="1" step="0.05" value="0.45"></label>
          <label data-title="canvas.tiles.title"><input type="checkbox" class="tiles" checked>
            <span data-word="canvas.tiles"></span></label>
          <span class="gap"></span>
          <button type="button" class="compare" aria-pressed="false" data-word="canvas.compare"
            data-title="canvas.compare.title"></button>
          <button type="button" data-view="fit" data-word="canvas.fit" data-title="canvas.fit.title"></button>
          <button type="button" data-view="actual" data-title="canvas.actual.title">100 %</button>
        </div>
        <div class="stage">
          <canvas tabindex="0" data-label="canvas.label"></canvas>
          <input type="range" class="divider" min="0" max="100" step="0.5" data-label="canvas.divider" hidden>
          <div class="welcome">
            <p data-word="canvas.welcome"></p>
            <div class="examples" role="group" data-label="canvas.examples">{_examples(examples)}</div>
          </div>
          <div class="dropzones" hidden>
            <p data-drop="picture" data-word="canvas.drop.picture"></p>
            <p data-drop="mask" data-word="canvas.drop.mask"></p>
          </div>
        </div>
    """
    return component("canvas/start", markup, ("example",), **options)


def decode_mask(value: Any, size: tuple[int, int]) -> masks.Mask | None:
    """The mask that submitMask() of the canvas sent, uint8 [H, W] of the size (width, height) of the picture; None for
    anything that is not one. value: {"left", "top", "png"}, the painted part as a data address and where it lies."""
    if not isinstance(value, dict):
        return None
    head, _, data = str(value.get("png")).partition(",")
    left, top = value.get("left"), value.get("top")
    if head != "data:image/png;base64" or not isinstance(left, int) or not isinstance(top, int):
        return None
    try:
        return masks.placed(base64.b64decode(data, validate=True), (left, top), size)
    except (binascii.Error, UserError):
        return None
