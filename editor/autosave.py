"""Sessions on disk: each is a folder of the members and the manifest that `editor.manifest` describes.

A crash at any moment leaves the session as it was before or after a change. What cannot be read is put aside under
another name, never overwritten.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
from pathlib import Path

from diffusion_engine import UserError
from editor.files import ASIDE, replace_file
from editor.manifest import MANIFEST, MEMBER, Digests, digest, manifest, members, read_manifest, read_session
from editor.snapshot import Snapshot

log = logging.getLogger(__name__)
QUOTA_BYTES = 2 * 2**30


class SessionStore:
    """Keeps sessions in a folder. Saving goes on behind the caller, newest state first, one at a time."""

    def __init__(self, folder: Path, quota_bytes: int = QUOTA_BYTES) -> None:
        self._folder = folder
        self._quota = quota_bytes
        self._waiting: dict[str, Snapshot] = {}
        self._changed = threading.Condition()
        self._writing = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="autosave", daemon=True)
        self._thread.start()

    def save(self, snapshot: Snapshot) -> None:
        """Returns at once; an older state of the same session that still waits is not written any more."""
        with self._changed:
            self._waiting[snapshot.key] = snapshot
            self._changed.notify_all()

    def load(self, key: str) -> Snapshot | None:
        """A session as it was saved; None where there is none that can be read."""
        self.flush()
        folder = self._of(key)
        if not (folder / MANIFEST).is_file():
            return None
        try:
            told = read_manifest((folder / MANIFEST).read_bytes())
            return read_session(told, lambda name: (folder / name).read_bytes(), key)
        except Exception as error:  # a damaged file raises whatever its bytes provoke
            log.warning("a saved session cannot be read and is put aside: %s", error)
            folder.rename(folder.with_name(f"{folder.name}-damaged-{len(list(self._folder.iterdir()))}"))
            return None

    def flush(self) -> None:
        """Waits until all that was handed over is on the disk."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing)

    def close(self) -> None:
        """Writes what waits, and ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                snapshot = self._waiting.pop(next(iter(self._waiting)))
                self._writing = True
            try:
                _write(self._of(snapshot.key), snapshot)
                self._make_room(self._of(snapshot.key))
            except (OSError, UserError) as error:
                log.warning("the session could not be saved: %s", error)

    def _of(self, key: str) -> Path:
        # not the key itself: who can list the folder could then open the session
        return self._folder / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _make_room(self, spared: Path) -> None:
        """Removes the sessions unused for longest until all fit in the quota; never the one just saved."""
        others = sorted((f for f in self._folder.iterdir() if f != spared), key=lambda folder: folder.stat().st_mtime)
        sizes = {folder: _bytes(folder) for folder in [*others, spared]}
        for folder in others:
            if sum(sizes.values()) <= self._quota:
                return
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def _write(folder: Path, snapshot: Snapshot) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known, digests = _vouched_for(folder), Digests()
    for name, make in members(snapshot).items():
        if name in known and (folder / name).is_file():  # what has a name never changes
            digests[name] = known[name]
        else:
            data = make()
            replace_file(folder / name, data)
            digests[name] = digest(data)
    replace_file(folder / MANIFEST, manifest(snapshot, digests))
    for path in folder.iterdir():  # masks of before, and what a crash left
        if (MEMBER.fullmatch(path.name) and path.name not in digests) or path.name.startswith(ASIDE):
            path.unlink(missing_ok=True)


def _vouched_for(folder: Path) -> Digests:
    """The members that the manifest in a folder speaks for, whatever else it says."""
    try:
        return read_manifest((folder / MANIFEST).read_bytes())["members"] or {}
    except Exception:  # there is none yet, or it is damaged
        return {}
