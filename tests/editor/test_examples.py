"""The examples that ship with the program, and what becomes of a folder that is not as it should be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import EditableDiffusionEngine
from editor.examples import FOLDER, Example, load_examples
from editor.images import open_picture
from editor.masks import read_mask

EXAMPLES = load_examples()
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


@pytest.fixture(scope="module")
def starter() -> Generator[EditableDiffusionEngine]:
    engine = EditableDiffusionEngine.from_pretrained("starter", device="cpu", offline=True)
    yield engine
    engine.close()


def test_there_are_six_and_no_stray_files() -> None:
    assert len({example.name for example in EXAMPLES}) == 6
    files = {path for example in EXAMPLES for path in (example.picture, example.mask)}
    assert {*FOLDER.iterdir()} == {*files, FOLDER / "examples.json"}
    assert sum(path.stat().st_size for path in files) < 2_500_000


@each
def test_a_small_part_of_each_picture_is_painted(example: Example) -> None:
    picture = open_picture(example.picture)
    assert (picture.rgb.size, picture.alpha, picture.notices) == ((512, 512), None, ())
    mask = read_mask(example.mask, picture.rgb.size)
    assert {*np.unique(mask)} == {0, 255}
    assert 0.02 <= np.mean(mask > 0) <= 0.20


@each
def test_the_starter_model_knows_every_word(example: Example, starter: EditableDiffusionEngine) -> None:
    for prompt in (example.prompt, example.edit_prompt):
        assert starter.unknown_words(prompt) == []
        assert starter.truncated_words(prompt) == ""


def test_painting_the_first_one_changes_the_inside_only(starter: EditableDiffusionEngine) -> None:
    """A quarter of the size and few steps: quick, and as exact."""
    first = EXAMPLES[0]
    picture = open_picture(first.picture).rgb.resize((128, 128))
    mask = Image.open(first.mask).convert("L").resize((128, 128), Image.Resampling.NEAREST)
    base = starter.open(picture, steps=4, guidance=first.guidance)
    edited = starter.edit(base.id, mask, first.edit_prompt, seed=first.edit_seed)[0].image
    inside = np.asarray(mask) > 0
    changed = (np.asarray(edited) != np.asarray(picture)).any(axis=2)
    assert not changed[~inside].any()
    assert changed[inside].mean() > 0.5


def change_first(folder: Path, **fields: Any) -> None:
    """Changes fields of the first entry of the list; a field that becomes None is left out."""
    path = folder / "examples.json"
    first, *others = json.loads(path.read_text())
    first = {key: value for key, value in {**first, **fields}.items() if value is not None}
    path.write_text(json.dumps([first, *others]))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no folder": shutil.rmtree,
    "no list": lambda folder: (folder / "examples.json").unlink(),
    "empty list file": lambda folder: (folder / "examples.json").write_bytes(b""),
    "half a list": lambda folder: (folder / "examples.json").write_text('[{"name": "sun", '),
    "not text": lambda folder: (folder / "examples.json").write_bytes(b"\xff\xfe\x00"),
    "a number": lambda folder: (folder / "examples.json").write_text("7"),
    "an object": lambda folder: (folder / "examples.json").write_text('{"name": "sun"}'),
    "a list of numbers": lambda folder: (folder / "examples.json").write_text("[1, 2]"),
    "a picture is missing": lambda folder: (folder / EXAMPLES[-1].picture.name).unlink(),
    "a mask is missing": lambda folder: (folder / EXAMPLES[0].mask.name).unlink(),
    "a field is missing": lambda folder: change_first(folder, edit_seed=None),
    "a seed is no number": lambda folder: change_first(folder, seed="seven"),
    "a file name is a number": lambda folder: change_first(folder, mask=3),
}


def test_a_copy_of_the_folder_is_as_good(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "examples")
    assert [example.name for example in load_examples(folder)] == [example.name for example in EXAMPLES]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_folder_has_no_examples(damage: Callable[[Path], object], tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "examples")
    damage(folder)
    assert load_examples(folder) == ()
