"""Sessions on disk: what comes back, and what a crash, a full disk or a damaged file can do."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from editor.autosave import MANIFEST, SessionStore
from editor.history import Entry
from editor.snapshot import Draft, Snapshot

SIZE = (40, 30)
PNG = b"\x89PNG"


def noise(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (SIZE[1], SIZE[0], 3), np.uint8))


def entry(name: str, parent: str | None = None, **more) -> Entry:
    return Entry(name, parent, f"the {name}", noise(len(name)), made={"prompt": name, "seed": 3}, **more)


def snapshot(*entries: Entry, draft: Draft | None = None) -> Snapshot:
    return Snapshot("secret", entries, entries[-1].id if entries else None, draft)


@pytest.fixture
def store(tmp_path: Path):
    store = SessionStore(tmp_path / "sessions")
    yield store
    store.close()


def saved(store: SessionStore, what: Snapshot) -> Path:
    """The folder of a session that has been written."""
    store.save(what)
    store.flush()
    return store._of(what.key)


def test_everything_comes_back(store: SessionStore) -> None:
    alpha, exif = Image.linear_gradient("L").resize(SIZE), Image.Exif()
    exif[271] = "A camera"
    first = entry("base", alpha=alpha, exif=exif)
    before = snapshot(first, entry("edit", "base", report={"seconds": {"total": 1.5}}), draft=Draft(3, 4, PNG))
    saved(store, before)
    after = store.load("secret")
    assert after is not None and after == before  # pixels and camera data are compared here:
    for old, new in zip(before.entries, after.entries, strict=True):
        assert new.image.mode == "RGB" and new.image.tobytes() == old.image.tobytes()
    assert after.entries[0].alpha.tobytes() == alpha.tobytes() and after.entries[1].alpha is None
    assert after.entries[0].exif[271] == "A camera" and after.entries[1].exif is None


def test_colours_under_full_transparency_come_back(store: SessionStore) -> None:
    hidden = Image.new("L", SIZE)  # all transparent
    saved(store, snapshot(entry("base", alpha=hidden)))
    assert store.load("secret").entries[0].image.tobytes() == noise(4).tobytes()


def test_who_lists_the_folder_does_not_learn_the_keys_and_others_cannot_list_it(store: SessionStore) -> None:
    folder = saved(store, snapshot(entry("base")))
    everything = [str(path) for path in folder.parent.rglob("*")] + [(folder / MANIFEST).read_text()]
    assert not any("secret" in text for text in everything)
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key", ["another", "", "../secret", "a/b", "x" * 5000])
def test_a_key_that_nobody_has_finds_nothing(store: SessionStore, key: str) -> None:
    saved(store, snapshot(entry("base")))
    assert store.load(key) is None


def broken_json(folder: Path) -> None:
    (folder / MANIFEST).write_text("{")


def newer_format(folder: Path) -> None:
    change(folder, lambda manifest: manifest.update(format=99))


def picture_gone(folder: Path) -> None:
    (folder / "base.png").unlink()


def picture_cut_off(folder: Path) -> None:
    data = (folder / "base.png").read_bytes()
    (folder / "base.png").write_bytes(data[: len(data) // 2])


def unknown_current(folder: Path) -> None:
    change(folder, lambda manifest: manifest.update(current="nobody"))


def id_out_of_the_folder(folder: Path) -> None:
    change(folder, lambda manifest: manifest["entries"][0].update(id="../../secret"))


def not_an_object(folder: Path) -> None:
    (folder / MANIFEST).write_text("[1, 2]")


def one_bit(folder: Path) -> None:
    flip(folder / "base.png", 200)


def one_bit_of_the_manifest(folder: Path) -> None:
    flip(folder / MANIFEST, 30)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def change(folder: Path, what) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes().partition(b"\n")[0])
    what(manifest)
    (folder / MANIFEST).write_bytes(signed(manifest))


def signed(manifest: dict) -> bytes:
    """A manifest as the program writes it, whatever it says."""
    line = json.dumps(manifest).encode()
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


@pytest.mark.parametrize(
    "damage",
    [
        *(
            broken_json,
            newer_format,
            picture_gone,
            picture_cut_off,
            unknown_current,
            id_out_of_the_folder,
            not_an_object,
        ),
        *(one_bit, one_bit_of_the_manifest),
    ],
)
def test_a_damaged_session_is_put_aside_and_never_overwritten(store: SessionStore, damage) -> None:
    folder = saved(store, snapshot(entry("base")))
    damage(folder)
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert store.load("secret") is None
    saved(store, snapshot(entry("other")))
    aside = next(path for path in folder.parent.iterdir() if "damaged" in path.name)
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == left
    assert store.load("secret").entries[0].id == "other"


def test_the_newest_state_wins_and_pictures_are_written_once(store: SessionStore) -> None:
    for count in range(1, 6):
        store.save(snapshot(*[entry(f"e{number}") for number in range(count)]))
    folder = saved(store, snapshot(*[entry(f"e{number}") for number in range(6)]))
    assert len(store.load("secret").entries) == 6
    written = (folder / "e0.png").stat().st_mtime_ns
    saved(store, snapshot(*[entry(f"e{number}") for number in range(7)]))
    assert (folder / "e0.png").stat().st_mtime_ns == written


def test_a_mask_and_its_place_change_together_and_old_masks_go(store: SessionStore) -> None:
    for number in range(3):
        folder = saved(store, snapshot(entry("base"), draft=Draft(number, 0, PNG + bytes([number]))))
    (folder / ".deltabrush-0.part").write_bytes(b"left by a crash")
    saved(store, snapshot(entry("base"), draft=Draft(7, 0, PNG)))
    assert store.load("secret").draft == Draft(7, 0, PNG)
    assert len(list(folder.iterdir())) == 3  # the picture, the mask, the manifest


def test_a_session_of_the_first_format_opens_and_is_kept_in_the_present_one(store: SessionStore) -> None:
    folder = saved(store, snapshot(entry("base"), entry("edit", "base")))
    told = json.loads((folder / MANIFEST).read_bytes().partition(b"\n")[0])
    entries = [{name: value for name, value in one.items() if name != "area"} for one in told["entries"]]
    first = {"format": 1, "current": "base", "mask": {"left": 3, "top": 4}, "entries": entries}
    (folder / MANIFEST).write_text(json.dumps(first))
    (folder / "mask.png").write_bytes(PNG)
    opened = store.load("secret")
    assert [e.id for e in opened.entries] == ["base", "edit"] and opened.current_id == "base"
    assert opened.draft == Draft(3, 4, PNG) and not opened.areas and not opened.versions
    saved(store, opened)
    assert store.load("secret") == opened
    assert b'"format": 2' in (folder / MANIFEST).read_bytes() and not (folder / "mask.png").exists()


def test_row23_the_quota_removes_the_session_unused_for_longest(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, quota_bytes=12_000)  # about three of these pictures
    for number in range(5):
        store.save(Snapshot(f"key{number}", (entry("base"),), "base", None))
        store.flush()
        os.utime(store._of(f"key{number}"), (number, number))
    kept = [number for number in range(5) if store.load(f"key{number}")]
    assert kept == [2, 3, 4] or kept == [3, 4]
    store.close()


def test_a_disk_that_is_full_says_so_in_the_log_and_the_old_state_stays(store, monkeypatch, caplog) -> None:
    saved(store, snapshot(entry("base")))

    def full(path, data) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("editor.autosave.replace_file", full)
    saved(store, snapshot(entry("base"), entry("more", "base")))
    assert "No space left" in caplog.text
    monkeypatch.undo()
    assert [e.id for e in store.load("secret").entries] == ["base"]
    saved(store, snapshot(entry("base"), entry("more", "base")))
    assert len(store.load("secret").entries) == 2


KILLED_IN_THE_MIDDLE = """
import os, sys
from pathlib import Path
import editor.autosave as autosave
sys.path.insert(0, sys.argv[3])
from test_autosave import entry, snapshot
calls, real = 0, autosave.replace_file
def dying(path, data):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os._exit(9)
    real(path, data)
autosave.replace_file = dying
store = autosave.SessionStore(Path(sys.argv[1]))
store.save(snapshot(entry("base"), entry("more", "base"), entry("last", "more")))
store.close()
"""


@pytest.mark.parametrize("at", [1, 2, 3])
def test_row28_killed_at_any_write_of_a_save_the_old_state_opens(tmp_path: Path, at: int) -> None:
    store = SessionStore(tmp_path)
    saved(store, snapshot(entry("base")))
    store.close()
    arguments = [sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(tmp_path), str(at), str(Path(__file__).parent)]
    assert subprocess.run(arguments, timeout=120).returncode == 9
    store = SessionStore(tmp_path)
    assert [e.id for e in store.load("secret").entries] == ["base"]
    saved(store, snapshot(entry("base"), entry("more", "base")))  # and the next save works
    assert len(store.load("secret").entries) == 2
    store.close()
