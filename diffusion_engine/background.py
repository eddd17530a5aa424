"""Recording ahead of need: a version's missing step caches, filled in the order an edit will want them."""

from __future__ import annotations

import logging
import threading

from diffusion_engine.compute_thread import ComputeThread
from diffusion_engine.generating import record_slot
from diffusion_engine.recording import Recording
from diffusion_engine.versions import Version
from diffusion_engine.workbench import Workbench

_log = logging.getLogger(__name__)


class BackgroundRecorder:
    """Records one version at a time, the newest asked for; after every dense pass of it waiting requests go first."""

    def __init__(self, bench: Workbench, compute: ComputeThread) -> None:
        self._bench, self._compute = bench, compute
        self._condition = threading.Condition()
        self._wanted: list[tuple[Version, Recording]] = []  # the last is the next
        self._outcomes: dict[str, bool] = {}
        self._closed = False

    def record(self, version: Version, recording: Recording) -> None:
        """Asks for a version to be recorded completely."""
        with self._condition:
            self._wanted = [(v, r) for v, r in self._wanted if v.id != version.id]
            self._wanted.append((version, recording))
        self._compute.when_idle(self._record_some)

    def wait(self, version_id: str, timeout: float | None) -> bool:
        """Waits until a version's recording is complete, and says whether it is; at once if none was asked for."""

        def settled() -> bool:
            return self._closed or all(version.id != version_id for version, _ in self._wanted)

        with self._condition:
            return self._condition.wait_for(settled, timeout) and self._outcomes.get(version_id, True)

    def close(self) -> None:
        """Lets those who wait go."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _record_some(self) -> bool:
        """Records one missing slot of the next version; False if nothing is wanted any more."""
        with self._condition:
            if not self._wanted:
                return False
            version, recording = self._wanted[-1]
        try:
            outcome = self._record_next(version, recording)
        except Exception:  # out of memory, say: edits of this version run densely, and the thread goes on
            _log.exception("Recording version %s failed", version.id)
            outcome = False
        if outcome is not None:
            with self._condition:
                self._wanted = [(v, r) for v, r in self._wanted if v.id != version.id]
                self._outcomes[version.id] = outcome
                self._condition.notify_all()
        return True

    def _record_next(self, version: Version, recording: Recording) -> bool | None:
        """Records one missing slot. Once nothing is left to try, returns whether the recording is complete."""
        if recording not in self._bench.store:
            return False  # dropped: recorded again when it is edited
        recording.checkout(version.id)
        missing = [index for index, slot in enumerate(recording.slots) if slot is None]
        if not missing:
            self._bench.store.complete(recording)
            return True
        # The decode goes right after the first step: an edit wants it soon, and it costs less than a step.
        order = sorted(missing, key=lambda index: 0.5 if index == len(recording.slots) - 1 else index)
        if record_slot(self._bench, version, recording, order[0]):
            return None
        if recording.pending:
            self._bench.store.drop(recording)
        return False
