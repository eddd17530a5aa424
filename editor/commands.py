"""`deltabrush generate` and `deltabrush edit`. Everything a person brings is checked before the model is loaded."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffusion_engine import EngineError, UserError
from editor.arguments import ENGINE_OPTIONS, program_version
from editor.files import check_writable, label, replace_file
from editor.history import Entry
from editor.images import Picture, check_alpha_fits, open_picture, output_format, save_picture
from editor.masks import Mask, feather, grow, harden, is_empty, read_mask
from editor.requests import EditRequest
from editor.terminal import ProgressBar, cancel_on_interrupt, note
from editor.unread_words import unread_words
from editor.workspace import Area, Workspace

if TYPE_CHECKING:
    from diffusion_engine import Candidate, EditableDiffusionEngine


def generate(options: Namespace) -> int:
    """Paints a whole picture and writes it. Returns 0; raises UserError, EngineError or Cancelled."""
    _check_output(options.output)
    with _engine(options) as engine:
        for sentence in unread_words(engine, options.prompt):
            note(sentence)
        with ProgressBar() as bar, cancel_on_interrupt() as cancel:
            version = engine.generate(
                options.prompt,
                negative_prompt=options.negative or "",
                size=options.size or engine.defaults.size,
                steps=options.steps,
                seed=options.seed,
                guidance=options.guidance,
                on_progress=bar,
                cancel=cancel,
            )
    save_picture(
        version.image,
        options.output,
        parameters={
            "prompt": version.prompt,
            "negative_prompt": version.negative_prompt,
            "seed": version.seed,
            "steps": version.steps,
            "guidance": version.guidance,
            "sampler": version.sampler,
            "model": version.model_name,
            "version": program_version(),
            "kind": "generated",
        },
        metadata=options.metadata,
    )
    print(f"{options.output}  {version.image.width}x{version.image.height}")
    return 0


def edit(options: Namespace) -> int:
    """Paints the masked part of a picture again and writes the variations, and the report if one was asked for.
    Returns 0; raises UserError, EngineError or Cancelled."""
    outputs = _numbered(options.output, options.variations)
    _check_files(options, outputs)
    picture = open_picture(options.image)
    check_alpha_fits(options.output, picture.alpha)
    mask, blend_mask = _masks(options, picture.rgb.size)
    for sentence in _worth_knowing(options, picture, blend_mask):
        note(sentence)

    asked = EditRequest(
        prompt=options.prompt,
        negative_prompt=options.negative,
        seed=options.seed,
        variations=options.variations,
        strength=options.strength,
        guidance=options.guidance,
        mode=options.mode,
        grow_px=options.grow,
        feather_px=options.feather,
    )
    with _engine(options) as engine:
        for sentence in unread_words(engine, options.prompt):
            note(sentence)
        settings = {"steps": options.steps, "guidance": options.guidance}
        opened = Entry("opened", None, "", picture.rgb, settings=settings)
        with ProgressBar() as bar, cancel_on_interrupt() as cancel:
            area, candidates = Workspace(engine).edit(opened, mask, blend_mask, asked, bar, cancel)
        base = engine.version(area.version_id)
        request = {
            "prompt": options.prompt,
            "negative_prompt": options.negative or "",
            "strength": options.strength,
            "grow_px": options.grow,
            "feather_px": options.feather,
            "steps": base.steps,
            "guidance": base.guidance,
            "sampler": base.sampler,
            "model": base.model_name,
            "version": program_version(),
        }
    results = [
        _write(candidate, area, path, picture, blend_mask, request, options.metadata)
        for candidate, path in zip(candidates, outputs, strict=True)
    ]
    changed_outside = sum(result["changed_outside"] for result in results)
    if options.report is not None:
        report = {
            **request,
            "width": picture.rgb.width,
            "height": picture.rgb.height,
            "seeds": [candidate.seed for candidate in candidates],
            "changed_outside": changed_outside,
            "variations": results,
        }
        replace_file(options.report, json.dumps(report, indent=2).encode())
    if changed_outside:
        raise EngineError(
            f"Pixels outside the mask changed ({changed_outside}), which is a fault of the program: please report it "
            "with the picture and the mask."
        )
    return 0


def _write(
    candidate: Candidate,
    area: Area,
    path: Path,
    picture: Picture,
    blend_mask: Mask,
    request: dict[str, Any],
    metadata: bool,
) -> dict[str, Any]:
    """Saves one variation and returns its entry of the report, with the pixels outside the mask counted in the file as
    it can be read back. JPEG changes every pixel a little, so there the picture handed to it is counted."""
    made = {**request, "seed": candidate.seed, "kind": "edited"}
    image = area.whole(picture.rgb, candidate.image)
    save_picture(image, path, picture.alpha, made, picture.exif, metadata)
    written = image if output_format(path) == "JPEG" else open_picture(path).rgb
    differs = (np.asarray(written) != np.asarray(picture.rgb)).any(axis=-1)
    changed_outside = int(np.count_nonzero(differs & (blend_mask == 0)))
    report = candidate.report
    cost = f"{report.mode}, {report.seconds['total']:.2f} s"
    if report.mode != "dense":
        cost += f" ({100 * report.active_fraction:.1f} % of the rows, {report.speedup:.1f}x faster than dense)"
    size = f"{written.width}x{written.height}"
    print(f"{path}  {size}  seed {candidate.seed}  {cost}  changed outside: {changed_outside}")
    return {"file": path.name, "seed": candidate.seed, "changed_outside": changed_outside, "report": report.as_dict()}


def _masks(options: Namespace, size: tuple[int, int]) -> tuple[Mask, Mask]:
    """(edit mask, blend mask) as the options ask. Raises UserError where nothing is left to paint."""
    mask = read_mask(options.mask, size)
    if is_empty(mask):
        raise UserError(f"The mask {label(options.mask)} is all black: paint white what may change.")
    mask = grow(harden(mask) if options.hard else mask, options.grow)
    if is_empty(mask):
        raise UserError(f"--grow {options.grow} leaves nothing of the mask: shrink it less.")
    return mask, feather(mask, options.feather)


def _worth_knowing(options: Namespace, picture: Picture, blend_mask: Mask) -> Generator[str]:
    yield from picture.notices
    if picture.alpha is not None and ((np.asarray(picture.alpha) == 0) & (blend_mask > 0)).any():
        yield "The mask covers transparent pixels; they stay transparent."
    if output_format(options.output) == "JPEG":
        yield "JPEG changes every pixel a little; .png and .webp keep those outside the mask exactly."


@contextmanager
def _engine(options: Namespace) -> Generator[EditableDiffusionEngine]:
    from diffusion_engine import EditableDiffusionEngine

    engine = EditableDiffusionEngine.from_pretrained(
        **{name: getattr(options, name) for name in ENGINE_OPTIONS if name in options}
    )
    try:
        yield engine
    finally:
        engine.close()


def _numbered(path: Path, count: int) -> list[Path]:
    """`path` itself for one variation; name-1, name-2, ... before the suffix for several."""
    if count == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, count + 1)]


def _check_files(options: Namespace, outputs: Sequence[Path]) -> None:
    for path in outputs:
        _check_output(path)
    written = [*outputs]
    if options.report is not None:
        check_writable(options.report)
        written.append(options.report)
    used = [os.path.realpath(path) for path in (options.image, options.mask)]
    for path in written:
        if os.path.realpath(path) in used:
            raise UserError(f"{label(path)} would be overwritten: choose another name for what is written.")
        used.append(os.path.realpath(path))


def _check_output(path: Path) -> None:
    output_format(path)
    check_writable(path)
