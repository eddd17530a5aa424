"""`deltabrush models`, on a cache folder made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from editor.cli import main


def _cached_model(cache: Path, name: str, files_of_it: dict[str, int]) -> None:
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / "abc"
    for file, size in files_of_it.items():
        (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / file).write_bytes(bytes(size))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")


def test_models_lists_the_starter_and_the_diffusers_models_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    _cached_model(tmp_path, "some/model", {"model_index.json": 2, "unet/weights.safetensors": 2_000_000})
    _cached_model(tmp_path, "a/text-model", {"config.json": 2})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert main(["models"]) == 0
    starter, other, place = capsys.readouterr().out.splitlines()
    assert starter.split()[0] == "starter" and starter.endswith("starter-model")
    assert other.split()[:3] == ["some/model", "2.0", "MB"]
    assert place == f"Downloads are kept in {tmp_path}."


def test_models_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))
    assert main(["models"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
