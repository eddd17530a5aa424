"""Versions as plain data: restored in another engine they are edited and recorded as in the first."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diffusion_engine import EditableDiffusionEngine, SavedVersion, UserError, Version
from diffusion_engine.recording import Recording
from tests.engine.conftest import square
from tests.engine.small_models import relative_rms

SIZE = (96, 72)  # padded to the model's multiple
MADE: dict[str, Any] = {"size": SIZE, "steps": 3, "seed": 7}
MASK, OTHER_MASK = square(SIZE, 8, 8, 24), square(SIZE, 40, 30, 30)


@contextmanager
def two(folder: Path) -> Generator[list[EditableDiffusionEngine]]:
    both = [EditableDiffusionEngine.from_pretrained(str(folder), device="cpu") for _ in range(2)]
    yield both
    for engine in both:
        engine.close()


@pytest.fixture(scope="module")
def engines(folders: dict[str, Path]) -> Generator[list[EditableDiffusionEngine]]:
    """Two engines on one small model."""
    with two(folders["sd1"]) as both:
        yield both


def generated(engine: EditableDiffusionEngine) -> list[Version]:
    return [engine.generate("a bay at dawn", negative_prompt="fog", **MADE)]


def opened(engine: EditableDiffusionEngine) -> list[Version]:
    noise = np.random.default_rng(1).integers(0, 256, (SIZE[1], SIZE[0], 3), np.uint8)
    return [engine.open(Image.fromarray(noise), steps=3, seed=5)]


def edited(engine: EditableDiffusionEngine, sampler: str | None = None, **options: Any) -> list[Version]:
    """A version, an edit of it, and an edit of that; the masks overlap, so a row changes its prompt twice."""
    versions = [engine.generate("a bay at dawn", sampler=sampler, **MADE)]
    for prompt, mask in (("a boat", MASK), ("a rock", np.maximum(MASK, OTHER_MASK) * (np.arange(SIZE[0]) > 15))):
        [candidate] = engine.edit(versions[-1].id, mask.astype(np.uint8), prompt, seed=3, mode="dense", **options)
        versions.append(engine.commit(candidate))
    return versions


LINEAGES: dict[str, Callable[[EditableDiffusionEngine], list[Version]]] = {
    "generated": generated,
    "opened": opened,
    "edited twice": edited,
    "edited from a middle step": lambda engine: edited(engine, strength=0.6),
    "edited everywhere": lambda engine: edited(engine, prompt_scope="everywhere"),
    "two passes a step": lambda engine: edited(engine, sampler="heun"),
    "noise while it steps": lambda engine: edited(engine, sampler="euler a"),
}


def through_a_file(version: SavedVersion) -> SavedVersion:
    """What JSON and bytes keep of it."""
    arrays = {name: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for name, a in version.arrays.items()}
    return SavedVersion(version.parent_id, json.loads(json.dumps(version.facts)), arrays)


def restored(engines: list[EditableDiffusionEngine], versions: list[Version]) -> Version:
    lineage = [through_a_file(engines[0].export_version(version.id)) for version in versions]
    return engines[1].restore_version(lineage, versions[-1].image)


def recording(engine: EditableDiffusionEngine, *versions: Version) -> Recording:
    """Of the last of these, once nothing else is being recorded."""
    version = versions[-1]
    assert all(engine.wait_until_recorded(each.id, 120) for each in versions)
    found = engine._bench.store.find(version.id)  # pyright: ignore[reportPrivateUsage]
    assert found is not None
    found.checkout(version.id)
    return found


@pytest.mark.parametrize("name", LINEAGES)
def test_a_restored_version_is_recorded_and_edited_as_it_was(engines: Any, name: str) -> None:
    goes_on_as_it_was(engines, LINEAGES[name](engines[0]))


def test_so_it_is_with_a_text_for_the_whole_picture(folders: dict[str, Path]) -> None:
    with two(folders["sdxl"]) as engines:
        goes_on_as_it_was(engines, edited(engines[0]))


def goes_on_as_it_was(engines: list[EditableDiffusionEngine], versions: list[Version]) -> None:
    before, after = versions[-1], restored(engines, versions)
    assert after.image.tobytes() == before.image.tobytes() and after.settings == before.settings
    assert (after.prompt, after.negative_prompt, after.seed) == (before.prompt, before.negative_prompt, before.seed)
    for old, new in zip(before.state.trajectory.latents, after.state.trajectory.latents, strict=True):
        assert old.numpy().tobytes() == new.numpy().tobytes()
    recordings = recording(engines[0], *versions), recording(engines[1], after)
    for old, new in zip(*(each.slots for each in recordings), strict=True):
        assert old is not None and new is not None and old.rows.keys() == new.rows.keys()
        for rows in old.rows:
            recorded = [slot.rows[rows].whole(torch.float32) for slot in (new, old)]
            assert relative_rms(*recorded) < 1e-5
    for mode in ("sparse", "dense"):
        pictures = [
            engine.edit(version.id, OTHER_MASK, "a gull", seed=11, mode=mode)[0].image.tobytes()
            for engine, version in zip(engines, (before, after), strict=True)
        ]
        assert pictures[0] == pictures[1]


def test_an_edit_keeps_only_the_cells_it_changed(engines: Any) -> None:
    versions = edited(engines[0])
    told = [engines[0].export_version(version.id) for version in versions]
    assert told[0].parent_id is None and told[0].arrays["cells"].all()
    assert told[1].parent_id == versions[0].id and 0 < told[1].arrays["cells"].mean() < 0.5
    assert told[1].arrays["latents"].shape[2] == told[1].arrays["cells"].sum()


def test_another_model_is_told_by_its_weights_and_not_by_its_name_or_precision(engines: Any) -> None:
    saved = engines[0].export_version(generated(engines[0])[0].id)
    weights = saved.arrays["weights"]
    half = replace(saved, arrays={**saved.arrays, "weights": weights.astype(np.float16).astype(np.float32)})
    trained = replace(saved, arrays={**saved.arrays, "weights": weights * 1.02})
    assert engines[1].is_ours(saved) and engines[1].is_ours(half) and not engines[1].is_ours(trained)
    with pytest.raises(UserError, match="made with another model: load"):
        engines[1].restore_version([trained], Image.new("RGB", SIZE))


def fact(name: str, value: Any) -> Callable[[SavedVersion], SavedVersion]:
    return lambda saved: replace(saved, facts={**saved.facts, name: value})


def array(name: str, change: Callable[[Any], Any]) -> Callable[[SavedVersion], SavedVersion]:
    return lambda saved: replace(saved, arrays={**saved.arrays, name: change(saved.arrays[name])})


DAMAGES: dict[str, Callable[[SavedVersion], SavedVersion]] = {
    "a fact of another type": fact("steps", "3"),
    "a seed that is true": fact("seed", True),
    "a size of three": fact("size", [96, 72, 3]),
    "no prompt map": fact("prompts", []),
    "a prompt map that is a number": fact("prompts", [3]),
    "a text of one part": fact("condition", ["a bay"]),
    "more prompt maps than are told": fact("prompts", [{"start": 0, "texts": [["a", "b"]]}] * 2),
    "cells that are not there": array("latents", lambda latents: latents[:, :, 1:]),
    "a value that is no number": array("latents", lambda latents: np.full_like(latents, np.nan)),
    "another precision": array("latents", lambda latents: latents.astype(np.float64)),
    "a row of a text that is not there": array("prompts.0.1", lambda index: index + 1),
    "a row of a text before the first": array("prompts.0.1", lambda index: index - 1),
    "an array too many": lambda saved: replace(saved, arrays={**saved.arrays, "more": np.zeros(1)}),
    "an array too few": lambda saved: replace(saved, arrays={"cells": saved.arrays["cells"]}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_parts_that_do_not_fit_one_another_are_no_saved_version(engines: Any, name: str) -> None:
    saved = engines[0].export_version(generated(engines[0])[0].id)
    with pytest.raises(ValueError, match="saved version"):
        DAMAGES[name](saved)


UNFIT: dict[str, Callable[[SavedVersion], SavedVersion]] = {
    "fewer steps than latents": fact("steps", 2),
    "another size": fact("size", [96, 96 + 64]),
    "an unknown sampler": fact("sampler", "none"),
    "guidance out of range": fact("guidance", 1e9),
    "a seed out of range": fact("seed", -1),
    "a level too short": array("prompts.0.1", lambda index: index[1:]),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_the_model_is_refused_and_leaves_no_version(engines: Any, name: str) -> None:
    saved = UNFIT[name](engines[0].export_version(generated(engines[0])[0].id))
    versions = dict(engines[1]._versions)
    with pytest.raises(UserError):
        engines[1].restore_version([saved], Image.new("RGB", SIZE))
    assert engines[1]._versions == versions
