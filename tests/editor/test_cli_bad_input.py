"""What the command line refuses: one sentence, exit code 2, and nothing loaded or written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from editor.cli import main
from tests.editor import picture_files as files
from tests.editor.scripted_engine import ScriptedEngine

REFUSED = {
    "no-image": (["edit", "none.png", "mask.png", "p", "-o", "o.png"], "none.png does not exist: check the name."),
    "no-mask": (["edit", "photo.png", "none.png", "p", "-o", "o.png"], "none.png does not exist: check the name."),
    "no-picture": (
        ["edit", "text.png", "mask.png", "p", "-o", "o.png"],
        "text.png is not a PNG, JPEG, WebP, GIF or BMP picture: save it as one of these.",
    ),
    "cut": (
        ["edit", "cut.png", "mask.png", "p", "-o", "o.png"],
        "cut.png is damaged or cut off: download or save it again.",
    ),
    "bomb": (
        ["edit", "bomb.png", "mask.png", "p", "-o", "o.png"],
        "bomb.png is too large: a picture may have sides up to 8192 and 16.8 million pixels, so make it smaller.",
    ),
    "tiny": (
        ["edit", "tiny.png", "mask.png", "p", "-o", "o.png"],
        "tiny.png is 32x32: use a picture with sides of 64 pixels or more.",
    ),
    "folder": (["edit", "folder.png", "mask.png", "p", "-o", "o.png"], "folder.png is a folder: name a picture in it."),
    "mask-size": (
        ["edit", "photo.png", "narrow.png", "p", "-o", "o.png"],
        "The mask narrow.png is 95x64 but the picture is 96x64: make the mask the size of the picture.",
    ),
    "mask-empty": (
        ["edit", "photo.png", "black.png", "p", "-o", "o.png"],
        "The mask black.png is all black: paint white what may change.",
    ),
    "mask-shrunk": (
        ["edit", "photo.png", "mask.png", "p", "-o", "o.png", "--grow", "-20"],
        "--grow -20 leaves nothing of the mask: shrink it less.",
    ),
    "suffix": (
        ["edit", "photo.png", "mask.png", "p", "-o", "o.gif"],
        "o.gif does not end in .png, .webp or .jpg: choose one of these.",
    ),
    "output-folder": (
        ["edit", "photo.png", "mask.png", "p", "-o", "no/o.png"],
        "The folder of o.png does not exist: create it, or choose another one.",
    ),
    "output-is-folder": (
        ["edit", "photo.png", "mask.png", "p", "-o", "folder.png"],
        "folder.png is a folder: add a file name to it.",
    ),
    "overwrites-image": (
        ["edit", "photo.png", "mask.png", "p", "-o", "./photo.png"],
        "photo.png would be overwritten: choose another name for what is written.",
    ),
    "overwrites-mask": (
        ["edit", "photo.png", "mask.png", "p", "-o", "mask.png"],
        "mask.png would be overwritten: choose another name for what is written.",
    ),
    "report-folder": (
        ["edit", "photo.png", "mask.png", "p", "-o", "o.png", "--report", "no/r.json"],
        "The folder of r.json does not exist: create it, or choose another one.",
    ),
    "report-is-output": (
        ["edit", "photo.png", "mask.png", "p", "-o", "o.png", "--report", "o.png"],
        "o.png would be overwritten: choose another name for what is written.",
    ),
    "nothing-but-the-sentence": (
        ["edit", "photo.png", "black.png", "p", "-o", "o.jpg"],
        "The mask black.png is all black: paint white what may change.",
    ),
    "jpeg-alpha": (
        ["edit", "clear.png", "mask.png", "p", "-o", "o.jpg"],
        "o.jpg cannot hold the picture's transparency: end its name in .png or .webp.",
    ),
    "generate-suffix": (["generate", "p", "-o", "o"], "o does not end in .png, .webp or .jpg: choose one of these."),
    "generate-folder": (
        ["generate", "p", "-o", "no/o.png"],
        "The folder of o.png does not exist: create it, or choose another one.",
    ),
    "no-output": (
        ["generate", "p"],
        "the following arguments are required: -o/--output; see deltabrush generate --help.",
    ),
    "no-prompt": (
        ["generate", "-o", "o.png"],
        "the following arguments are required: PROMPT; see deltabrush generate --help.",
    ),
    "unknown-option": (
        ["generate", "p", "-o", "o.png", "--stpes", "3"],
        "unrecognized arguments: --stpes 3; see deltabrush generate --help.",
    ),
    "abbreviated": (
        ["generate", "p", "-o", "o.png", "--step", "3"],
        "unrecognized arguments: --step 3; see deltabrush generate --help.",
    ),
    "unknown-editor-option": (["--hots=x"], "unrecognized arguments: --hots=x; see deltabrush --help."),
    "no-project": (["open", "gone.deltabrush"], "gone.deltabrush does not exist: check the name."),
    "a-project-that-is-none": (
        ["open", "photo.png"],
        "photo.png is not a Deltabrush project: choose a file that ends in .deltabrush.",
    ),
    "unknown-command": (
        ["paint"],
        "COMMAND: invalid choice: 'paint' (choose from 'open', 'generate', 'edit', 'bench', "
        "'eval', 'models'); see deltabrush --help.",
    ),
    "editor-option": (
        ["--port", "99", "generate", "p", "-o", "o.png"],
        "--port belongs to the editor, not to generate; see deltabrush --help.",
    ),
    "no-browser-option": (
        ["--no-browser", "models"],
        "--no-browser belongs to the editor, not to models; see deltabrush --help.",
    ),
    "device": (
        ["generate", "p", "-o", "o.png", "--device", "gpu"],
        "--device: must be auto, cpu, cuda, cuda:N or mps, not 'gpu'; see deltabrush generate --help.",
    ),
    "no-password": (
        ["--host", "0.0.0.0"],
        "Listening on 0.0.0.0 lets other machines in: add --auth USER:PASSWORD, or leave --host out.",
    ),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_is_one_sentence_and_exit_2_before_the_model_is_loaded(
    arguments: list[str], sentence: str, folder: Path, engine: ScriptedEngine, capsys: Any
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", sentence + "\n")
    assert engine.loaded_with is None
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("option", "limits", "values"),
    [
        ("--steps", "a whole number from 1 to 200", ["0", "-1", "201", "1000000000", "1.5", "nan", "ten", "", "٣"]),
        ("--seed", "a whole number from 0 to 9223372036854775807", ["-1", "9223372036854775808", "1e3", "9" * 5000]),
        ("--variations", "a whole number from 1 to 16", ["0", "17", "two"]),
        ("--guidance", "a number from 0 to 50", ["-0.1", "inf", "nan", "51", "much"]),
        ("--strength", "a number from 0.01 to 1", ["0", "1.01", "-inf", "nan", "1,5"]),
        ("--grow", "a whole number from -256 to 256", ["-257", "257", "0.5"]),
        ("--feather", "a whole number from 0 to 256", ["-1", "257", "x"]),
    ],
)
def test_numbers_out_of_range(
    option: str, limits: str, values: list[str], folder: Path, engine: ScriptedEngine, capsys: Any
) -> None:
    for value in values:
        assert main(["edit", "photo.png", "mask.png", "p", "-o", "out.png", f"{option}={value}"]) == 2
        assert capsys.readouterr().err == f"{option}: must be {limits}, not {value!r}; see deltabrush edit --help.\n"
    assert engine.loaded_with is None


@pytest.mark.parametrize(
    "size", ["512", "512x", "63x64", "64x8193", "4097x4096", "-64x64", "64.5x64", "64x64x3", "axb"]
)
def test_sizes_out_of_range(size: str, engine: ScriptedEngine, capsys: Any) -> None:
    assert main(["generate", "p", "-o", "out.png", f"--size={size}"]) == 2
    assert capsys.readouterr().err == (
        "--size: must be WIDTHxHEIGHT, such as 512x512, with sides from 64 to 8192 and at most 4.2 million pixels, "
        f"not {size!r}; see deltabrush generate --help.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["generate", "p"], "the following arguments are required: -o/--output; see deltabrush generate --help."),
        (
            ["edit", "large.png", "mask.png", "p", "-o", "out.png"],  # of which the decoder, too, would warn
            "large.png is 12000x12000: a picture may have sides up to 8192 and 16.8 million pixels, "
            "so make it smaller.",
        ),
    ],
    ids=["usage", "picture"],
)
def test_sentence_and_exit_code_reach_the_shell(arguments: list[str], sentence: str, folder: Path) -> None:
    Path("large.png").write_bytes(files.empty_png(12000, 12000))
    run = subprocess.run(
        [sys.executable, "-m", "editor.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (run.returncode, run.stdout, run.stderr) == (2, "", sentence + "\n")
