"""Sessions on disk: each is a folder with its pictures as lossless PNG and one manifest, written aside and replaced.

A crash at any moment leaves the session as it was before or after a change. What cannot be read is put aside under
another name, never overwritten.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import shutil
import threading
from pathlib import Path
from typing import Any

from PIL import Image

from diffusion_engine import UserError
from editor.files import replace_file
from editor.history import Entry
from editor.snapshot import Draft, Snapshot

log = logging.getLogger(__name__)
FORMAT = 1
MANIFEST, MASK = "session.json", "mask.png"
TOLD = ("name", "settings", "made", "report")  # of an entry, beside its pictures
QUOTA_BYTES = 2 * 2**30
_ID = re.compile(r"[0-9a-z-]{1,40}")


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
            return _read(folder, key)
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
    entries = snapshot.entries
    for entry in entries:
        path = folder / f"{entry.id}.png"
        if not path.exists():  # an entry's pixels never change
            replace_file(path, _png(entry))
    draft = snapshot.draft
    if draft:
        replace_file(folder / MASK, draft.png)
    manifest = {
        "format": FORMAT,
        "current": snapshot.current_id,
        "mask": {"left": draft.left, "top": draft.top} if draft else None,
        "entries": [{"id": e.id, "parent": e.parent_id} | {name: getattr(e, name) for name in TOLD} for e in entries],
    }
    replace_file(folder / MANIFEST, json.dumps(manifest).encode())


def _png(entry: Entry) -> bytes:
    image = entry.image
    if entry.alpha is not None:
        image = image.copy()
        image.putalpha(entry.alpha)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1, exif=entry.exif or Image.Exif())
    return buffer.getvalue()


def _read(folder: Path, key: str) -> Snapshot:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    if manifest["format"] != FORMAT:
        raise ValueError(f"it has format {manifest['format']!r}, and this program reads {FORMAT}")
    entries = tuple(_entry(folder, saved) for saved in manifest["entries"])
    ids = [entry.id for entry in entries]
    if manifest["current"] not in (None, *ids) or any(e.parent_id not in (None, *ids) for e in entries):
        raise ValueError("it names a picture that it does not hold")
    mask = manifest["mask"]
    draft = Draft(int(mask["left"]), int(mask["top"]), (folder / MASK).read_bytes()) if mask else None
    return Snapshot(key, entries, manifest["current"], draft)


def _entry(folder: Path, saved: dict[str, Any]) -> Entry:
    if not _ID.fullmatch(saved["id"]):
        raise ValueError("an id is not one of ours")
    with Image.open(folder / f"{saved['id']}.png", formats=["PNG"]) as image:
        image.load()
        alpha = image.getchannel("A") if image.mode == "RGBA" else None
        exif = image.getexif()
    told = {name: saved[name] for name in TOLD}
    if not isinstance(told["name"], str) or not all(isinstance(told[name], dict) for name in TOLD[1:]):
        raise ValueError("it is not as this program writes it")
    return Entry(saved["id"], saved["parent"], image=image.convert("RGB"), alpha=alpha, exif=exif or None, **told)
