"""The scripted engine in the real one's place, and a folder to work in."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.editor import picture_files as files
from tests.editor.scripted_engine import ScriptedEngine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    scripted = ScriptedEngine()
    monkeypatch.setattr("diffusion_engine.EditableDiffusionEngine.from_pretrained", scripted.load)
    return scripted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a picture, its mask, and what else people point at."""
    monkeypatch.chdir(tmp_path)
    files.noise(96, 64).save("photo.png")
    files.mask(96, 64).save("mask.png")
    Image.new("L", (96, 64), 0).save("black.png")
    Image.new("L", (95, 64), 255).save("narrow.png")
    files.noise(96, 64, 4).save("clear.png")
    files.noise(32, 32).save("tiny.png")
    Path("text.png").write_text("hello")
    Path("cut.png").write_bytes(Path("photo.png").read_bytes()[:5000])
    Path("bomb.png").write_bytes(files.empty_png(30000, 30000))
    Path("folder.png").mkdir()
    return tmp_path
