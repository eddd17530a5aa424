"""More work at once than the engine takes: who comes too late is told so, and all the others are served once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

import httpx
from conftest import serving
from painting_engine import PaintingEngine


class CountingEngine(PaintingEngine):
    """Remembers the prompts it was given, and holds its first job until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__(before_step=lambda step: self.go_on.wait(60))
        self.go_on = threading.Event()
        self.prompts: list[str] = []

    def generate(self, prompt, **options):
        self.prompts.append(prompt)
        return super().generate(prompt, **options)


def generate(address: str, prompt: str) -> tuple[str, str]:
    """The prompt and the last event of the stream that answers it."""
    calls = f"{address}/gradio_api/call"
    with httpx.Client(timeout=60) as client:
        asked = client.post(f"{calls}/v2/generate", json={"prompt": prompt}).raise_for_status()
        events = client.get(f"{calls}/generate/{asked.json()['event_id']}").text
    return prompt, events.strip().rpartition("\n\n")[2]


def test_row24_twenty_at_once(tmp_path: Path) -> None:
    engine = CountingEngine()
    with serving(engine, tmp_path) as address, ThreadPoolExecutor(20) as callers, ExitStack() as at_the_end:
        at_the_end.callback(engine.go_on.set)
        httpx.get(f"{address}/gradio_api/info").raise_for_status()  # from then on arguments may be named
        calls = [callers.submit(generate, address, f"picture {number}") for number in range(20)]
        answers = as_completed(calls, timeout=60)
        late = dict(next(answers).result() for _ in range(11))  # all told while the first one still runs
        assert len(engine.prompts) == 1 and engine.busy.locked()
        assert all(event.startswith("event: error") and "others are waiting" in event for event in late.values())

        engine.go_on.set()
        served = dict(call.result() for call in answers)
        assert all(event.startswith("event: complete") and "picture_id" in event for event in served.values())
    assert sorted(engine.prompts) == sorted(served)
    assert not served.keys() & late.keys() and len(served) == 9
