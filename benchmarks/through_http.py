"""`deltabrush bench edit --through-http`: an edit as a person sees it in a browser, against the engine's own time.

The program runs in a process of its own and the browser on the same cores. The page marks the moments itself (User
Timing API): the press of the button, the first preview on the screen, the finished picture on the screen.
"""

from __future__ import annotations

import io
import statistics
from typing import Any

from PIL import Image

from benchmarks.edit import PROMPT, SIZE, TimedEdit, area_mask
from benchmarks.running_program import launch, program
from diffusion_engine import EditableDiffusionEngine

SCENE = "desert dunes under a clear blue sky"
PATIENCE_MS = 120_000
SINCE_THE_PRESS = """() => {
    const last = (name) => performance.getEntriesByName(name)[0]?.startTime;
    const pressed = last("deltabrush-pressed");
    return { first_preview: last("deltabrush-preview") - pressed, finished: last("deltabrush-picture") - pressed };
}"""


def edits_in_the_browser(steps: int, repeats: int) -> dict[str, Any]:
    """Medians in seconds over edits of 5 % of a generated 512 px picture whose cache is warm.

    engine_s: what the engine says it took, beside the browser; added_s: from the press of the button to the finished
    picture, without that; alone_s: the same edit in a process with nothing beside it
    """
    from playwright.sync_api import sync_playwright

    alone = _alone(steps, repeats)
    with program() as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script("localStorage.setItem('deltabrush-visited', '1')")
        page.goto(address)
        page.locator("#more > button").click()
        page.locator("#steps input").fill(str(steps))
        page.locator("#prompt textarea").fill(SCENE)
        _press(page)
        mask = io.BytesIO()
        Image.fromarray(area_mask(0.05)).save(mask, "PNG")
        file: Any = {"name": "mask.png", "mimeType": "image/png", "buffer": mask.getvalue()}
        page.locator("#canvas .mask-file").set_input_files(file)
        page.locator("#cost p:not(:empty)").wait_for()
        page.locator("#prompt textarea").fill(PROMPT)
        records: list[dict[str, float]] = []
        for _ in range(repeats + 1):  # the first one is not measured
            _press(page)
            moments: dict[str, float] = page.evaluate(SINCE_THE_PRESS)
            engine = float(page.locator("#status p").get_attribute("data-seconds") or "nan")
            first, finished = moments["first_preview"] / 1000, moments["finished"] / 1000
            records.append({"first_preview_s": first, "finished_s": finished, "engine_s": engine})
            _press(page, "#drop")
        browser.close()
    records = [record | {"added_s": record["finished_s"] - record["engine_s"]} for record in records[1:]]
    medians = {name: statistics.median(record[name] for record in records) for name in records[0]}
    return {"size": [SIZE, SIZE], "steps": steps, "area": 0.05, **medians, "alone_s": alone, "edits": records}


def _alone(steps: int, repeats: int) -> float:
    engine = EditableDiffusionEngine.from_pretrained("starter")
    base = engine.generate(SCENE, size=(SIZE, SIZE), steps=steps, seed=1)
    edits = [TimedEdit(engine, base.id, area_mask(0.05), seed, "auto").seconds for seed in range(repeats + 1)]
    engine.close()
    return statistics.median(edits[1:])


def _press(page: Any, button: str = "#go:enabled") -> None:
    """Presses a button and waits until the picture that comes of it is on the screen."""
    shown = "(performance.getEntriesByName('deltabrush-picture')[0]?.startTime ?? 0)"
    before: float = page.evaluate(shown)
    page.locator(button).click()
    page.wait_for_function(f"{shown} > {before}", timeout=PATIENCE_MS)
