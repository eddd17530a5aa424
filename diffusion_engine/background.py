"""Recording ahead of need: a thread that fills a version's missing step caches in the order an edit will want them."""

from __future__ import annotations

import logging
import threading

from diffusion_engine.compute_gate import ComputeGate
from diffusion_engine.generating import record_slot
from diffusion_engine.recording import Recording
from diffusion_engine.versions import Version
from diffusion_engine.workbench import Workbench

_log = logging.getLogger(__name__)


class BackgroundRecorder:
    """Records one version at a time, the newest asked for; every dense pass of it lets waiting edits go first."""

    def __init__(self, bench: Workbench, gate: ComputeGate) -> None:
        self._bench, self._gate = bench, gate
        self._condition = threading.Condition()
        self._wanted: list[tuple[Version, Recording]] = []  # the last is the next
        self._outcomes: dict[str, bool] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def record(self, version: Version, recording: Recording) -> None:
        """Asks for a version to be recorded completely."""
        with self._condition:
            self._wanted = [(v, r) for v, r in self._wanted if v.id != version.id]
            self._wanted.append((version, recording))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def wait(self, version_id: str, timeout: float | None) -> bool:
        """Waits until a version's recording is complete, and says whether it is; at once if none was asked for."""

        def settled() -> bool:
            return self._closed or all(version.id != version_id for version, _ in self._wanted)

        with self._condition:
            return self._condition.wait_for(settled, timeout) and self._outcomes.get(version_id, True)

    def close(self) -> None:
        """Ends the thread after the step it is at."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                version, recording = self._wanted[-1]
            try:
                outcome = self._record_next(version, recording)
            except RuntimeError:  # out of memory: edits of this version run densely instead
                _log.exception("Recording version %s failed", version.id)
                outcome = False
            if outcome is not None:
                with self._condition:
                    self._wanted = [(v, r) for v, r in self._wanted if v.id != version.id]
                    self._outcomes[version.id] = outcome
                    self._condition.notify_all()

    def _record_next(self, version: Version, recording: Recording) -> bool | None:
        """Records one missing slot. Once nothing is left to try, returns whether the recording is complete."""
        with self._gate.background():
            if self._bench.store.find(version.id) is not recording:
                return False  # dropped, or evicted: recorded again when it is edited
            recording.checkout(version.id)
            missing = [index for index, slot in enumerate(recording.slots) if slot is None]
            if not missing:
                return True
            # The decode goes right after the first step: an edit wants it soon, and it costs less than a step.
            order = sorted(missing, key=lambda index: 0.5 if index == len(recording.slots) - 1 else index)
            recorded = record_slot(self._bench, version, recording, order[0])
        return None if recorded else False
