"""`deltabrush edit` end to end, with the real engine and the starter model, on pictures as people have them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from editor.cli import main


def photo(kind: str, folder: Path) -> Path:
    """A smooth picture of odd size, lying on its side in EXIF, or with transparency."""
    noise = np.random.default_rng(3).integers(0, 256, (9, 14, 4), np.uint8)
    picture = Image.fromarray(noise, "RGBA").resize((203, 131), Image.Resampling.BICUBIC)
    if kind == "transparent PNG":
        picture.save(folder / "photo.png")
        return folder / "photo.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.convert("RGB").save(folder / "photo.jpg", quality=95, exif=exif)
    return folder / "photo.jpg"


@pytest.mark.parametrize("kind", ["transparent PNG", "JPEG on its side"])
def test_edit_keeps_size_alpha_and_every_pixel_outside(kind: str, tmp_path: Path) -> None:
    source = photo(kind, tmp_path)
    upright = ImageOps.exif_transpose(Image.open(source))
    mask = np.zeros((upright.height, upright.width), np.uint8)
    mask[20:70, 40:90] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    out, report = tmp_path / "out.png", tmp_path / "r.json"
    command = ["edit", str(source), str(tmp_path / "mask.png"), "a red balloon", "-o", str(out)]
    assert main([*command, "--steps", "3", "--report", str(report), "--offline"]) == 0

    before, after = np.asarray(upright), np.asarray(Image.open(out))
    assert after.shape == before.shape
    changed = (before[..., :3] != after[..., :3]).any(2)
    assert changed[mask > 0].any() and not changed[mask == 0].any()
    if before.shape[2] == 4:
        assert np.array_equal(before[..., 3], after[..., 3])

    told = json.loads(report.read_text())
    [variation] = told["variations"]
    figures = variation["report"]
    assert figures["mode"] in ("sparse", "dense", "mixed")
    assert len(figures["active_fraction_per_level"]) == 3
    assert {"denoise", "decode", "total"} <= figures["seconds"].keys()
    assert figures["cache_bytes"] > 0
