"""The bar above the canvas: files on the left, undo and redo of edits in the middle, help and theme on the right."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from editor.images import READABLE
from editor.project_files import SUFFIX
from editor.web.components import component

EVENTS = ("new", "undo", "redo", "opened", "rename")
ACCEPTED = ",".join([*(f"image/{kind.lower()}" for kind in READABLE), SUFFIX])
EXPORTS = [("png", "PNG"), ("webp", "WebP"), ("jpg", "JPEG")]


def topbar(model: str, **options: Any) -> gr.HTML:
    """Its value: {"session", "id", "name", "export": address without suffix or None, "can"}; "can" says of new, save,
    undo and redo whether there is something to do.

    Events: new, undo, redo; rename carries {"id", "name"}; opened says that a picture file has arrived in the session.
    """
    formats = "".join(f'<a class="button" data-format="{suffix}" download>{name}</a>' for suffix, name in EXPORTS)
    markup = f"""
        <h1>Deltabrush</h1>
        <input class="name" maxlength="80" data-label="top.name" data-title="top.name" hidden>
        <button type="button" data-send="new" data-word="top.new" data-title="top.new.title"></button>
        <label class="button" role="button" tabindex="0" data-title="top.open.title">
          <span data-word="top.open"></span><input type="file" accept="{ACCEPTED}" hidden>
        </label>
        <button type="button" class="save" data-word="top.save" data-title="top.save.title"></button>
        <details class="export" hidden>
          <summary class="button" data-word="top.export" data-title="top.export.title"></summary>
          <div class="menu">
            <div class="formats">{formats}</div>
            <label><input type="checkbox" class="metadata" checked><span data-word="top.metadata"></span></label>
          </div>
        </details>
        <span class="gap"></span>
        <button type="button" data-send="undo" data-label="top.undo" data-title="top.undo">&#8592;</button>
        <button type="button" data-send="redo" data-label="top.redo" data-title="top.redo">&#8594;</button>
        <span class="gap"></span>
        <span class="model" data-title="top.model">{escape(model)}</span>
        <button type="button" class="memory" data-label="top.memory" data-title="top.memory">&#9638;</button>
        <button type="button" class="theme" data-label="top.theme" data-title="top.theme">&#9680;</button>
        <button type="button" class="help" data-label="top.help" data-title="top.help">?</button>
        <dialog class="shortcuts" data-label="keys.title"></dialog>
        <dialog class="caches" data-label="memory.title"></dialog>
    """
    return component("topbar", markup, EVENTS, **options)
