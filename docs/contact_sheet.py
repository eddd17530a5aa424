"""`python -m docs.contact_sheet`: what the starter model paints, not picked by hand.

The first cases of the quality measurement (benchmarks/model_quality.py) with its seeds: whole pictures, then edits as
base, mask and result.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from benchmarks.model_quality import CASES_PER_SCENE, Case, cases, edit_picture, generate_picture, generate_scene
from diffusion_engine import EditableDiffusionEngine

FOLDER = Path(__file__).parent / "starter-model"
GENERATIONS, EDITS = 64, 32
SIDE, CAPTION = 192, 28
COLUMNS = 8
MASKED = (255, 0, 200)


class Sheet:
    """Pictures in rows, each group under one caption."""

    def __init__(self, groups: int, pictures: int, columns: int) -> None:
        self._pictures, self._columns, self._filled = pictures, columns, 0
        size = columns * pictures * SIDE, -(-groups // columns) * (SIDE + CAPTION)
        self.image = Image.new("RGB", size, "white")

    def add(self, caption: str, pictures: Sequence[Image.Image]) -> None:
        row, column = divmod(self._filled, self._columns)
        left, top = column * self._pictures * SIDE, row * (SIDE + CAPTION)
        for i, picture in enumerate(pictures):
            self.image.paste(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (left + i * SIDE, top))
        ImageDraw.Draw(self.image).text((left + 3, top + SIDE + 2), caption, "black", font_size=11)
        self._filled += 1


def masked(picture: Image.Image, case: Case) -> Image.Image:
    """The picture with the mask's area tinted."""
    tint = Image.new("RGB", picture.size, MASKED)
    return Image.composite(Image.blend(picture, tint, 0.6), picture, Image.fromarray(case.mask))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.contact_sheet", description="Draws what the model paints.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--model", default="starter")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    engine = EditableDiffusionEngine.from_pretrained(options.model, offline=True)
    asked = cases(GENERATIONS)

    sheet = Sheet(GENERATIONS, 1, COLUMNS)
    for case in asked:
        sheet.add(f"{case.words},\n{case.scene}", [generate_picture(engine, case)])
    sheet.image.save(options.folder / "generations.webp", quality=85)

    sheet = Sheet(EDITS, 3, 3)
    for case in asked[:EDITS]:
        if case.number % CASES_PER_SCENE == 0:
            base = generate_scene(engine, case)
        result = edit_picture(engine, base, case, case.words)
        sheet.add(f"{case.words}   (in: {case.scene})", [base.image, masked(base.image, case), result])
    sheet.image.save(options.folder / "edits.webp", quality=85)
    engine.close()


if __name__ == "__main__":
    main()
