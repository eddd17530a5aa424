"""The example of docs/api.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from editing import picture_file
from PIL import Image

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_example_in_the_documentation_runs(address: str, tmp_path: Path, monkeypatch, capsys) -> None:
    [example] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo.png").write_bytes(picture_file((130, 90)))
    mask = np.zeros((90, 130), np.uint8)
    mask[20:50, 30:70] = 255
    Image.fromarray(mask).save("mask.png")
    exec(compile(example.replace("http://127.0.0.1:7860", address), str(DOCUMENT), "exec"), {})
    tried, base, kept = (line.split() for line in capsys.readouterr().out.splitlines())
    assert tried == ["0", "[7,", "8]"] and kept[1] == base[0]
    assert Image.open("out.webp").size == (130, 90)
