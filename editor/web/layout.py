"""What is on the page and where; nothing here acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components import Component

from editor.examples import Example
from editor.web.components import cost, history_tree, line, prompt_notes, strip
from editor.web.mask_canvas import mask_canvas
from editor.web.topbar import topbar
from editor.web.words import word

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine


@dataclass(frozen=True)
class Controls:
    """The controls that decide what is made, in the order in which an action receives their values."""

    prompt: gr.Textbox
    variations: gr.Radio
    strength: gr.Slider
    edge: gr.Radio
    negative_prompt: gr.Textbox
    seed: gr.Number
    seed_locked: gr.Checkbox
    grow_px: gr.Number
    feather_px: gr.Number
    guidance: gr.Number
    mode: gr.Radio
    width: gr.Number
    height: gr.Number
    steps: gr.Number
    sampler: gr.Dropdown

    def components(self) -> list[Component]:
        return [getattr(self, name) for name in self.names()]

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]


@dataclass(frozen=True)
class Parts:
    """Every component that an action reads or writes."""

    key: gr.Textbox
    topbar: gr.HTML
    canvas: gr.HTML
    settings: Controls
    go: gr.Button
    stop: gr.Button
    message: gr.HTML
    takes: gr.HTML
    keep: gr.Button
    check: gr.Button
    drop: gr.Button
    dice: gr.Button
    history: gr.HTML
    status: gr.HTML


def lay_out(engine: EditableDiffusionEngine, examples: Sequence[Example]) -> Parts:
    """Builds the page inside the current gr.Blocks."""
    key = gr.Textbox(visible=False)
    top = topbar(engine.model_name, elem_id="top")
    with gr.Row(elem_id="work"):
        with gr.Column(elem_id="main", scale=1):
            canvas = mask_canvas(examples, elem_id="canvas")
            history = history_tree(elem_id="history")
        with gr.Column(elem_id="side", scale=0, min_width=320):
            prompt = gr.Textbox("", label=word("prompt.label"), lines=2, max_lines=5, elem_id="prompt")
            prompt_notes(elem_id="notes")
            go = gr.Button(word("go.generate"), variant="primary", elem_id="go", interactive=False)
            stop = gr.Button(word("go.stop"), variant="primary", elem_id="stop")
            cost(elem_id="cost")
            message = line(elem_id="message")
            variations = gr.Radio([1, 2, 3, 4], value=1, label=word("variations.label"), elem_id="variations")
            takes = strip(elem_id="takes")
            with gr.Row(elem_id="verdict"):
                keep = gr.Button(word("takes.keep"), size="sm", elem_id="keep")
                check = gr.Button(word("takes.check"), size="sm", elem_id="check")
                drop = gr.Button(word("takes.drop"), size="sm", elem_id="drop")
            strength = gr.Slider(0.05, 1, 1, step=0.05, label=word("strength.label"), elem_id="strength")
            edges = [(word("edge.soft"), "soft"), (word("edge.hard"), "hard")]
            edge = gr.Radio(edges, value="soft", label=word("edge.label"), elem_id="edge")
            more, dice = _more(engine)
    status = line(" - ", elem_id="status")
    settings = Controls(prompt=prompt, variations=variations, strength=strength, edge=edge, **more)
    return Parts(key, top, canvas, settings, go, stop, message, takes, keep, check, drop, dice, history, status)


def _more(engine: EditableDiffusionEngine) -> tuple[dict[str, Any], gr.Button]:
    """The settings that most people leave alone, by their names, and the button that draws a seed."""
    defaults = engine.defaults

    def number(value: float | None, name: str, **options: Any) -> gr.Number:
        return gr.Number(value, label=word(f"{name}.label"), elem_id=name, min_width=80, **options)

    more: dict[str, Any] = {}
    with gr.Accordion(word("more.label"), open=False, elem_id="more"):
        more["negative_prompt"] = gr.Textbox("", label=word("negative.label"), lines=1, elem_id="negative")
        with gr.Row(elem_id="seed-row"):
            more["seed"] = number(0, "seed", precision=0, minimum=0)
            dice = gr.Button(word("seed.dice"), size="sm", elem_id="dice")
            more["seed_locked"] = gr.Checkbox(False, label=word("seed.lock"), elem_id="seed-lock", min_width=80)
        with gr.Row():
            more["grow_px"] = number(0, "grow", precision=0)
            more["feather_px"] = number(4, "feather", precision=0)
        modes = [(word(f"mode.{mode}"), mode) for mode in ("auto", "sparse", "dense")]
        more["mode"] = gr.Radio(modes, value="auto", label=word("mode.label"), elem_id="mode")
        more["guidance"] = number(defaults.guidance, "guidance")
        with gr.Row():
            more["width"] = number(defaults.size[0], "width", precision=0)
            more["height"] = number(defaults.size[1], "height", precision=0)
        with gr.Row():
            more["steps"] = number(defaults.steps, "steps", precision=0)
            samplers = list(engine.samplers)
            more["sampler"] = gr.Dropdown(
                samplers, value=defaults.sampler, label=word("sampler.label"), elem_id="sampler", min_width=80
            )
    return more, dice
