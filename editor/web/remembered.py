"""What the browser remembered, as it comes back with the page: anything can, so all of it is checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from editor.web.layout import Controls


@dataclass(frozen=True)
class Arrival:
    """key: of the session to go on with; remembered: settings by name; first_visit: this browser was never here."""

    key: str | None = None
    remembered: Any = None
    first_visit: bool = False


def arrival_of(text: str) -> Arrival:
    """What session.js sends when the page has loaded."""
    try:
        came = json.loads(text)
        key = came.get("key")
        return Arrival(key if isinstance(key, str) else None, came.get("settings"), came.get("first_visit") is True)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Arrival()


def restored(settings: Controls, remembered: Any) -> dict[Any, Any]:
    """The controls with a remembered value that they can take. remembered: {name: value} of `Controls`."""
    if not isinstance(remembered, dict):
        return {}
    controls = {name: getattr(settings, name) for name in Controls.names()}
    return {control: remembered[name] for name, control in controls.items() if _takes(control, remembered.get(name))}


def _takes(control: Any, value: Any) -> bool:
    if isinstance(control, gr.Radio | gr.Dropdown):
        return value in [choice for _, choice in control.choices]
    if isinstance(control, gr.Checkbox):
        return isinstance(value, bool)
    if isinstance(control, gr.Textbox):
        return isinstance(value, str) and len(value) <= 10_000
    if isinstance(control, gr.Slider):
        return isinstance(value, int | float) and control.minimum <= value <= control.maximum
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
