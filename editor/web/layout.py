"""What is on the page and where; nothing here acts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components import Component

from editor.web.components import line, strip
from editor.web.mask_canvas import mask_canvas

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine


@dataclass(frozen=True)
class Settings:
    """The controls that decide what is made, in the order in which an action receives their values."""

    prompt: gr.Textbox
    variations: gr.Radio
    strength: gr.Slider
    negative_prompt: gr.Textbox
    width: gr.Number
    height: gr.Number
    steps: gr.Number
    guidance: gr.Number
    seed: gr.Number
    grow_px: gr.Number
    feather_px: gr.Number
    mode: gr.Radio

    def components(self) -> list[Component]:
        return [getattr(self, name) for name in self.names()]

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]


@dataclass(frozen=True)
class Parts:
    """Every component that an action reads or writes."""

    key: gr.Textbox
    canvas: gr.HTML
    settings: Settings
    go: gr.Button
    stop: gr.Button
    message: gr.HTML
    candidates: gr.HTML
    keep: gr.Button
    drop: gr.Button
    new: gr.Button
    undo: gr.Button
    history: gr.HTML
    status: gr.HTML


def lay_out(engine: EditableDiffusionEngine) -> Parts:
    """Builds the page inside the current gr.Blocks."""
    default_width, default_height = engine.defaults.size
    whole: dict[str, Any] = {"precision": 0, "min_width": 80}
    key = gr.Textbox(visible=False)
    with gr.Row(elem_id="top"):
        gr.HTML(f"<h1>Deltabrush</h1><span>{engine.model_name}</span>", elem_id="title", js_on_load=None)
        new = gr.Button("New", size="sm", elem_id="new")
        undo = gr.Button("Undo", size="sm", elem_id="undo")
    with gr.Row(elem_id="work"):
        canvas = mask_canvas(elem_id="canvas", scale=1)
        with gr.Column(elem_id="side", scale=0, min_width=320):
            prompt = gr.Textbox("", label="What should be here?", lines=2, max_lines=5, elem_id="prompt")
            go = gr.Button("Generate", variant="primary", elem_id="go", interactive=False)  # until there is a session
            stop = gr.Button("Stop", variant="primary", elem_id="stop", visible=False)
            message = line(elem_id="message")
            variations = gr.Radio([1, 2, 3, 4], value=1, label="Variations", elem_id="variations")
            candidates = strip("Variations to choose from", elem_id="candidates")
            with gr.Row(elem_id="verdict"):
                keep = gr.Button("Keep", size="sm", visible=False, elem_id="keep")
                drop = gr.Button("Drop", size="sm", visible=False, elem_id="drop")
            strength = gr.Slider(0.05, 1, 1, step=0.05, label="How much to change", elem_id="strength")
            with gr.Accordion("More", open=False, elem_id="more"):
                negative_prompt = gr.Textbox("", label="What should not be here?", lines=1)
                with gr.Row():
                    width = gr.Number(default_width, label="Width", elem_id="width", **whole)
                    height = gr.Number(default_height, label="Height", elem_id="height", **whole)
                with gr.Row():
                    steps = gr.Number(engine.defaults.steps, label="Steps", elem_id="steps", **whole)
                    guidance = gr.Number(engine.defaults.guidance, label="Guidance", min_width=80, elem_id="guidance")
                with gr.Row():
                    grow_px = gr.Number(0, label="Grow mask, px", elem_id="grow", **whole)
                    feather_px = gr.Number(4, label="Feather edge, px", elem_id="feather", **whole)
                seed = gr.Number(None, label="Seed (empty: a new one each time)", elem_id="seed", **whole)
                mode = gr.Radio(["auto", "sparse", "dense"], value="auto", label="Recompute", elem_id="mode")
    history = strip("History", elem_id="history")
    status = line(elem_id="status")
    settings = Settings(
        prompt, variations, strength, negative_prompt, width, height, steps, guidance, seed, grow_px, feather_px, mode
    )
    return Parts(key, canvas, settings, go, stop, message, candidates, keep, drop, new, undo, history, status)
