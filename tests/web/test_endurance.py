"""Long use in a real browser: no stroke drops, and the memory stays where it is."""

from __future__ import annotations

import numpy as np
import pytest
from editing import Editor, picture_file
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
EVENTS = 120
EDITS = 200

# Pointer events on a spiral, 60 a second, as a pen sends them; counts the frames that were drawn and the longest wait
# for one.
STROKE = """async ({ events, left, top, width, height }) => {
    const canvas = document.querySelector("#canvas canvas");
    const at = (i) => ({
        x: left + width * (0.5 + 0.45 * (i / events) * Math.cos(i / 4)),
        y: top + height * (0.5 + 0.45 * (i / events) * Math.sin(i / 4)),
    });
    const send = (name, i) => canvas.dispatchEvent(new PointerEvent(name, {
        clientX: at(i).x, clientY: at(i).y, pointerId: 7, pointerType: "pen", pressure: 0.8, button: 0, buttons: 1,
        isPrimary: true, bubbles: true, cancelable: true,
    }));
    canvas.setPointerCapture = () => {};   // there is no such pointer
    let [frames, longest, last, going] = [0, 0, performance.now(), true];
    requestAnimationFrame(function frame(now) {
        frames++;
        longest = Math.max(longest, now - last);
        last = now;
        if (going) requestAnimationFrame(frame);
    });
    const begun = performance.now();
    send("pointerdown", 0);
    for (let i = 1; i < events; i++) {
        const due = begun + 1000 * i / 60;
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
        send("pointermove", i);
    }
    send("pointerup", events - 1);
    going = false;
    return { seconds: (performance.now() - begun) / 1000, frames, longest };
}"""


def test_a_stroke_at_60_events_a_second_on_2048_px_loses_nothing(address: str, visit) -> None:
    editor = Editor(visit(address))
    editor.open(picture_file((2048, 2048)))
    editor.page.locator("#canvas .size").fill("40")
    (left, top), (right, bottom) = editor.on_screen((0, 0)), editor.on_screen((2048, 2048))
    box = {"left": left, "top": top, "width": right - left, "height": bottom - top}
    measured = editor.page.evaluate(STROKE, {"events": EVENTS, **box})
    print(measured)  # with -s
    mask = editor.mask()
    for i in range(EVENTS):
        x = 2048 * (0.5 + 0.45 * (i / EVENTS) * np.cos(i / 4))
        y = 2048 * (0.5 + 0.45 * (i / EVENTS) * np.sin(i / 4))
        assert mask[round(y), round(x)], f"event {i} left no paint"
    editor.press("Control+z")
    assert not editor.mask().any()


def test_G17_edits_leave_the_memory_of_the_browser_flat(engine, address: str, browser) -> None:
    engine.before_step = lambda step: None
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script("localStorage.setItem('deltabrush-visited', '1')")
    editor = Editor(context.new_page())
    editor.page.goto(address)
    editor.page.locator("#go:enabled").wait_for()
    editor.generate("a field")
    devtools = context.new_cdp_session(editor.page)

    def held() -> dict[str, float]:
        """The least of a few readings: what a browser is just busy with is no leak."""
        readings = []
        for _ in range(4):
            devtools.send("HeapProfiler.collectGarbage")
            counters = devtools.send("Memory.getDOMCounters")
            heap = devtools.send("Runtime.getHeapUsage")["usedSize"]
            readings.append({"nodes": counters["nodes"], "listeners": counters["jsEventListeners"], "heap": heap})
            editor.page.wait_for_timeout(200)
        return {name: min(reading[name] for reading in readings) for name in readings[0]}

    after: dict[int, dict[str, float]] = {}
    editor.stroke((64, 48), (64, 48), size=20)
    for edit in range(1, EDITS + 1):
        editor.paint("a cactus")
        if edit % 50 == 0:
            editor.page.locator("#drop").click()  # what waits is let go; nothing else may stay
            expect(editor.page.locator("#keep")).to_be_hidden()
            after[edit] = held()
    print(after)
    first, last = after[50], after[EDITS]
    edits = EDITS - 50  # what leaks with every edit would be there so often
    assert last["nodes"] < first["nodes"] + edits / 2 and last["listeners"] < first["listeners"] + edits / 2
    assert last["heap"] <= 1.1 * first["heap"]
    context.close()
