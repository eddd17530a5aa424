"""Project files: what comes back, what a crash or a full disk leaves, and what damaged and hostile files can do."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import signal
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import SavedVersion, UserError
from editor import manifest
from editor.areas import Box
from editor.history import Entry
from editor.jobs import Turns
from editor.manifest import MANIFEST
from editor.project_files import read_project, save_project
from editor.requests import EditRequest, GenerateRequest
from editor.session import EditSession
from editor.snapshot import Draft, Snapshot
from editor.workspace import Area
from tests.editor.test_autosave import entry, noise, signed
from tests.engine.conftest import save_pipeline, square

SIZE = noise(0).size
NAME = "work.deltabrush"


def version(seed: int, parent: str | None = None) -> SavedVersion:
    generator = np.random.default_rng(seed)
    cells = generator.random((4, 5)) < (1 if parent is None else 0.3)
    facts = {
        "prompt": "a boat",
        "negative_prompt": "",
        "seed": seed,
        "size": list(SIZE),
        "steps": 2,
        "sampler": "ddim",
        "guidance": 4.0,
        "model": "starter",
        "condition": ["a boat", ""],
        "prompts": [{"start": 0, "texts": [["a boat", ""], ["the sea", "fog"]]}],
    }
    arrays = {
        "cells": cells,
        "latents": np.asfortranarray(generator.standard_normal((3, 4, int(cells.sum())), np.float32)),
        "weights": generator.standard_normal(9, np.float32),
        "prompts.0.0": generator.integers(0, 2, 20).astype(np.int32),
        "prompts.0.1": generator.integers(0, 2, 6).astype(np.int32),
    }
    return SavedVersion(parent, facts, arrays)


def whole(count: int = 3) -> Snapshot:
    """Everything that a session can hold: transparency, camera data, branches, a mask, versions and their areas."""
    alpha, exif = Image.linear_gradient("L").resize(SIZE), Image.Exif()
    exif[271] = "A camera"
    entries = [entry("base", alpha=alpha, exif=exif, settings={"steps": 2, "guidance": 4.0, "sampler": "ddim"})]
    for number in range(1, count):
        parent = "base" if number % 2 else f"edit-{number - 1}"
        entries.append(entry(f"edit-{number}", parent, report={"seconds": {"total": 1.5}, "mode": "sparse"}))
    versions = {"v0": version(0), "v1": version(1, "v0")}
    areas = {"base": Area("v0", Box(0, 0, *SIZE)), "edit-1": Area("v1", Box(0, 0, *SIZE))}
    draft = Draft(3, 4, b"\x89PNG of a mask")
    return Snapshot(
        "secret", tuple(entries), entries[-1].id, draft, areas if count > 1 else {}, versions if count > 1 else {}
    )


def exact(snapshot: Snapshot) -> tuple[Any, ...]:
    """All of it, to be compared bit by bit."""
    pictures = [
        (e.image.mode, e.image.tobytes(), e.alpha and e.alpha.tobytes(), e.exif and e.exif.tobytes())
        for e in snapshot.entries
    ]
    arrays = {
        (saved_id, name): (array.dtype, array.shape, array.tobytes())
        for saved_id, saved in snapshot.versions.items()
        for name, array in saved.arrays.items()
    }
    return snapshot, pictures, arrays


def opened(path: Path) -> Snapshot:
    return read_project(path, path.name, "secret")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.mark.parametrize("count", [1, 2, 5])
def test_everything_comes_back(path: Path, count: int) -> None:
    before = whole(count)
    save_project(before, path)
    assert exact(opened(path)) == exact(before)


@pytest.mark.parametrize(
    "empty", [Snapshot("secret", (), None, None), Snapshot("secret", (entry("base"),), None, None)]
)
def test_little_comes_back_as_well(path: Path, empty: Snapshot) -> None:
    save_project(empty, path)
    assert exact(opened(path)) == exact(empty)


def test_the_same_work_makes_the_same_file_and_it_holds_no_key(path: Path) -> None:
    save_project(whole(), path)
    first = path.read_bytes()
    save_project(opened(path), path)
    assert path.read_bytes() == first and b"secret" not in first


# ---- rows 28 and 29: crashes and full disks


@contextmanager
def interrupted(at: int, act: Callable[[], object]) -> Iterator[Iterator[int]]:
    """Calls `act` instead of the at-th write, flush to the disk or renaming; yields the count of those so far."""
    counter, number = itertools.count(1), [0]
    fsync, replace = os.fsync, os.replace

    def step() -> None:
        number[0] = next(counter)
        if number[0] == at:
            act()

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            step()
            return super().write(data)

    def opening(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        return File(self, mode.replace("b", "")) if {*mode} & {*"xwa"} else open(self, mode, *args, **options)

    with (
        mock.patch("pathlib.Path.open", opening),
        mock.patch("os.fsync", lambda it: (step(), fsync(it))),
        mock.patch("os.replace", lambda old, new: (step(), replace(old, new))),
    ):
        yield number  # type: ignore[misc]


def steps_of_a_save(path: Path) -> int:
    with interrupted(0, lambda: None) as steps:
        save_project(whole(), path)
    return steps[0]


def test_row28_killed_at_each_step_of_a_save_the_file_is_the_old_or_the_new_one(path: Path) -> None:
    steps = steps_of_a_save(path)
    assert steps > 15
    old, new = exact(whole(1)), exact(whole())
    found = []
    for at in range(1, steps + 1):
        save_project(whole(1), path)
        child = os.fork()
        if child == 0:
            with interrupted(at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                save_project(whole(), path)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        found.append(exact(opened(path)))
    assert found[:-1] == [old] * (steps - 1)
    assert found[-1] == new  # the last step is only the folder's


def test_row29_a_disk_that_is_full_at_any_step_leaves_the_old_file_and_nothing_else(path: Path) -> None:
    steps = steps_of_a_save(path)
    save_project(whole(1), path)
    old = path.read_bytes()

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for at in range(1, steps):  # the last is only the folder's: some file systems cannot
        with interrupted(at, full), pytest.raises(UserError, match=r"work.deltabrush could not be written \(No space"):
            save_project(whole(), path)
        assert path.read_bytes() == old and [file.name for file in path.parent.iterdir()] == [NAME]
    with interrupted(steps, full):
        save_project(whole(), path)
    assert exact(opened(path)) == exact(whole())


def test_row29_a_folder_that_is_gone_or_not_to_be_written(path: Path) -> None:
    with pytest.raises(UserError, match=r"could not be written \(No such file"):
        save_project(whole(), path.parent / "gone" / NAME)

    def denied() -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    with interrupted(1, denied), pytest.raises(UserError, match=r"could not be written \(Permission denied"):
        save_project(whole(), path)
    save_project(whole(), path)  # and the next one works
    assert exact(opened(path)) == exact(whole())


def test_what_could_not_be_opened_is_not_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_project(whole(1), path)
    old = path.read_bytes()
    for name, limit in [("MAX_BYTES", 2**26 + 1000), ("MAX_MEMBERS", 5), ("MAX_PIXELS", 2000)]:
        with monkeypatch.context() as changed, pytest.raises(UserError, match="too long for one file"):
            changed.setattr(f"editor.project_files.{name}", limit)
            save_project(whole(), path)
        assert path.read_bytes() == old and len(list(path.parent.iterdir())) == 1


# ---- row 30: damage


def refused(path: Path, data: bytes, sentence: str = "") -> str:
    """What is said of a file of these bytes, which stays as it is."""
    path.write_bytes(data)
    with pytest.raises(UserError, match=sentence) as caught:
        opened(path)
    assert path.read_bytes() == data and [file.name for file in path.parent.iterdir()] == [path.name]
    assert str(caught.value).isprintable() and "Error" not in str(caught.value)
    return str(caught.value)


def test_row30_cut_at_every_32nd(path: Path) -> None:
    save_project(whole(), path)
    data = path.read_bytes()
    for part in range(32):
        refused(path, data[: len(data) * part // 32], "is not a Deltabrush project" if part == 0 else "is damaged")
    refused(path, data[:-1], "is damaged")


def test_row30_a_flipped_byte_is_found_wherever_it_matters(path: Path) -> None:
    save_project(whole(2), path)
    data, expected = path.read_bytes(), exact(whole(2))
    with zipfile.ZipFile(path) as archive:
        begins = [info.header_offset + 30 + len(info.filename) for info in archive.infolist()]
        members = [range(begin, begin + info.file_size) for begin, info in zip(begins, archive.infolist(), strict=True)]
    assert len(members) == 6
    for at in sorted({*range(4, len(data), 23), *(at for member in members for at in (member[0], member[-1]))}):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            found = exact(opened(path))
        except UserError as error:
            assert "damaged" in str(error) or "newer" in str(error)
        else:  # the date of a member, say
            assert found == expected and not any(at in member for member in members)
    assert path.read_bytes() == flipped


FOREIGN = {
    "empty": b"",
    "text": b"hello",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "a zip of nothing": b"PK\5\6" + bytes(18),
    "zeros": bytes(5000),
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_row30_what_is_no_project_says_so(path: Path, data: bytes) -> None:
    refused(path, data, "work.deltabrush is not a Deltabrush project: choose")


def zipped(members: dict[str, bytes], **changes: Any) -> bytes:
    """A zip as `save_project` writes it, with fields of its directory changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            for field, value in changes.items():
                setattr(info, field, value)
            archive.writestr(info, data)
    return buffer.getvalue()


@pytest.fixture
def parts(path: Path) -> dict[str, bytes]:
    """The members of a good project."""
    save_project(whole(), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def told(parts: dict[str, bytes]) -> dict[str, Any]:
    return json.loads(parts[MANIFEST].partition(b"\n")[0])


def test_row30_a_newer_format_is_refused_by_its_number(path: Path, parts: dict[str, bytes]) -> None:
    newer = zipped({MANIFEST: signed({"format": 3, "anything": "else"})})
    refused(path, newer, r"saved by a newer Deltabrush \(format 3, and this one reads up to 2\): update it")


# what a manifest says, signed, so that nothing but the checks of its fields stands in the way
Change = Callable[[dict[str, Any]], object]
LIES: dict[str, Change] = {
    "no format": lambda it: it.pop("format"),
    "a format that is no number": lambda it: it.update(format="2"),
    "format 0": lambda it: it.update(format=0),
    "an id out of the folder": lambda it: it["entries"][0].update(id="../../secret"),
    "an id twice": lambda it: it["entries"].append(it["entries"][0]),
    "a picture that is not there": lambda it: it["entries"][0].update(id="other"),
    "a parent after its child": lambda it: it["entries"].reverse(),
    "a parent that is itself": lambda it: it["entries"][0].update(parent="base"),
    "a current that is not there": lambda it: it.update(current="nobody"),
    "a current that is a list": lambda it: it.update(current=["base"]),
    "a seed that is a path": lambda it: it["entries"][0]["made"].update(seed="../../../evil"),
    "a seed below 0": lambda it: it["entries"][0]["made"].update(seed=-1),
    "settings that are code": lambda it: it["entries"][0]["settings"].update(image="x"),
    "settings that are text": lambda it: it["entries"][0]["settings"].update(steps="many"),
    "a report without seconds": lambda it: it["entries"][1].update(report={"mode": "sparse"}),
    "a name that is a number": lambda it: it["entries"][0].update(name=3),
    "a mask that is the manifest": lambda it: it["mask"].update(file=MANIFEST),
    "a mask from outside": lambda it: it["mask"].update(file="../mask.png"),
    "a mask at half a pixel": lambda it: it["mask"].update(left=0.5),
    "an area outside its picture": lambda it: it["entries"][0]["area"].update(box=[0, 0, 4000, 30]),
    "an area turned around": lambda it: it["entries"][0]["area"].update(box=[40, 30, 0, 0]),
    "an area of no version": lambda it: it["entries"][0]["area"].update(version="v9"),
    "a version before its parent": lambda it: it["versions"].reverse(),
    "a version of another size": lambda it: it["versions"][0]["facts"].update(size=[64, 64]),
    "a version of other arrays": lambda it: it["versions"][0]["facts"].update(prompts=[{"start": 0, "texts": []}]),
    "a checksum of something else": lambda it: it["members"]["base.png"].update(sha256="0" * 64),
    "a member without a checksum": lambda it: it["members"].pop("base.png"),
    "checksums that are gone": lambda it: it.update(members={}),
    "entries that are no list": lambda it: it.update(entries=3),
    "a member that nothing speaks of": lambda it: it["members"].update({"more.png": {"bytes": 1, "sha256": ""}}),
}


@pytest.mark.parametrize("name", LIES)
def test_row30_a_manifest_that_lies_is_damage(path: Path, parts: dict[str, bytes], name: str) -> None:
    changed = told(parts)
    LIES[name](changed)
    refused(
        path, zipped({**parts, MANIFEST: signed(changed)}), "work.deltabrush is damaged, so nothing of it was opened"
    )


@pytest.mark.parametrize("line", [b"", b"[1]", b"null", b'{"format": 2', b'{"a":' * 100_000, b"\xff\xfe"])
def test_row30_a_manifest_that_is_none_is_damage(path: Path, parts: dict[str, bytes], line: bytes) -> None:
    refused(path, zipped({**parts, MANIFEST: line + b"\n"}), "is damaged")


def other_picture(kind: str, size: tuple[int, int] = SIZE, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind)
    return buffer.getvalue()


PICTURES = {
    "a JPEG": other_picture("JPEG"),
    "a palette": other_picture("PNG", mode="P"),
    "no picture": b"hello",
    "a bomb": b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 30000, 30000, 8, 2, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", PICTURES)
def test_row31_a_picture_of_another_kind_is_damage(path: Path, parts: dict[str, bytes], name: str) -> None:
    changed = told(parts)
    changed["members"]["base.png"] = manifest.digest(PICTURES[name])
    members = {**parts, "base.png": PICTURES[name], MANIFEST: signed(changed)}
    refused(path, zipped(members), "is damaged")


def test_row31_pictures_too_many_to_be_held_are_refused_before_they_are(
    path: Path, parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("editor.project_files.MAX_PIXELS", 2 * SIZE[0] * SIZE[1])
    refused(path, zipped(parts), "is damaged")


# ---- row 31: hostile zips


def doubled(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for name, data in [*parts.items(), ("base.png", b"another")]:
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def end_record(count: int, directory: bytes, start: int) -> bytes:
    return struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), start, 0)


def of_100_000_members(claimed: int) -> bytes:
    directory = (b"PK\1\2" + bytes(42)) * 100_000
    return b"PK\3\4" + directory + end_record(claimed, directory, 4)


def with_a_second_end(data: bytes) -> bytes:
    """The pointer of a large zip, in the comment of the last member, where a reader looks for one."""
    start = struct.unpack("<L", data[-6:-2])[0]
    pointer = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    directory = data[start:-22] + pointer
    return data[:start] + directory + end_record(struct.unpack("<H", data[-12:-10])[0], directory, start)


HOSTILE: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "a name above": lambda parts: zipped({**parts, "../evil.png": b"x"}),
    "an absolute name": lambda parts: zipped({**parts, "/tmp/evil.png": b"x"}),
    "backslashes": lambda parts: zipped({**parts, "..\\evil.png": b"x"}),
    "a drive": lambda parts: zipped({**parts, "C:evil.png": b"x"}),
    "a NUL in a name": lambda parts: zipped({**parts, "evilX.png": b"x"}).replace(b"evilX.png", b"evil\0.png"),
    "a folder": lambda parts: zipped({**parts, "folder/": b""}),
    "capitals": lambda parts: zipped({**parts, "BASE.png": b"x"}),
    "a member that nothing speaks of": lambda parts: zipped({**parts, "more.png": b"x"}),
    "links": lambda parts: zipped(parts, external_attr=(stat.S_IFLNK | 0o777) << 16),
    "devices": lambda parts: zipped(parts, external_attr=(stat.S_IFCHR | 0o777) << 16),
    "duplicates": doubled,
    "100,000 members": lambda parts: of_100_000_members(100_000),
    "100,000 members that say they are 5": lambda parts: of_100_000_members(5),
    "a ratio of 1000 to 1": lambda parts: zipped(
        {**parts, "zeros.png": bytes(10**7)}, compress_type=zipfile.ZIP_DEFLATED
    ),
    "one compressed member": lambda parts: zipped(parts, compress_type=zipfile.ZIP_LZMA),
    "all compressed": lambda parts: zipped(parts, compress_type=zipfile.ZIP_DEFLATED),
    "comments": lambda parts: zipped(parts, comment=b"x"),
    "extra fields": lambda parts: zipped(parts, extra=b"\1\0\4\0abcd"),
    "bytes before it": lambda parts: b"PK\3\4" + zipped(parts),
    "bytes after it": lambda parts: zipped(parts) + b"x",
    "a second end": lambda parts: with_a_second_end(zipped(parts)),
    "no manifest": lambda parts: zipped({name: data for name, data in parts.items() if name != MANIFEST}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_row31_a_hostile_zip_is_refused_in_little_memory_and_writes_nothing(
    path: Path, parts: dict[str, bytes], name: str
) -> None:
    data = HOSTILE[name](parts)
    tracemalloc.start()
    try:
        refused(path, data, "work.deltabrush is damaged")
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data) + 2**22
    finally:
        tracemalloc.stop()


def test_names_of_files_are_labels_only(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_project(io.BytesIO(b"hello"), "\x1b[2J\u202egpj.deltabrush", "key")
    assert str(caught.value).isprintable()
    with pytest.raises(UserError, match=r"gone\.deltabrush does not exist: check"):
        opened(tmp_path / "gone.deltabrush")
    with pytest.raises(UserError, match="cannot be read: check"):
        opened(tmp_path / ("long" * 100))


def test_an_entry_keeps_what_it_was_made_with_however_long(path: Path) -> None:
    made = {"prompt": "a boat " * 5000, "seed": 2**63 - 1, "kind": "edited"}
    before = Snapshot("secret", (Entry("base", None, "a boat", noise(1), made=made),), "base", None)
    save_project(before, path)
    assert opened(path) == before


def test_the_engine_goes_on_from_a_file_exactly_as_it_was(path: Path) -> None:
    from diffusion_engine import EditableDiffusionEngine  # the only test here that needs it

    model = save_pipeline("sd1", path.parent / "model")
    size, pictures = (96, 72), []
    one, other = (EditableDiffusionEngine.from_pretrained(str(model), device="cpu") for _ in range(2))
    session = EditSession(one, Turns())
    list(session.generate(GenerateRequest("a bay", size=size, steps=3)))
    list(session.edit(square(size, 10, 10, 30), EditRequest("a boat", mode="dense")))
    session.keep()
    save_project(session.snapshot(), path)
    restored = EditSession(other, Turns(), opened(path))
    for each in (session, restored):
        list(each.edit(square(size, 35, 30, 30), EditRequest("a gull", seed=4, mode="dense")))
        pictures.append(each.picture(each.shown_id).tobytes())
    assert pictures[0] == pictures[1] and restored.other_model is None
    restored.keep()
    save_project(restored.snapshot(), path)
    assert [saved.parent_id for saved in opened(path).versions.values()].count(None) == 1
    restored.close()
    assert not other._versions
    one.close()
    other.close()
