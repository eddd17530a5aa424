"""The command line, with the scripted engine in the real one's place."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffusion_engine import EngineError
from editor.cli import main
from editor.images import open_picture
from tests.editor import picture_files as files
from tests.editor.scripted_engine import ScriptedEngine, ScriptedReport

REPOSITORY = Path(__file__).resolve().parents[2]


def _edit(*options: str, image: str = "photo.png", mask: str = "mask.png", output: str = "out.png") -> int:
    return main(["edit", image, mask, "a cactus", "-o", output, *options])


@pytest.mark.parametrize("size", [(96, 64), (1023, 769), (65, 641)], ids=str)
def test_row9_an_edit_changes_the_painted_place_and_nothing_else(
    size: tuple[int, int], folder: Path, engine: ScriptedEngine
) -> None:
    files.noise(*size).save("photo.png")
    files.mask(*size).save("mask.png")
    assert _edit("--feather", "0") == 0
    before, after = np.asarray(Image.open("photo.png")), np.asarray(Image.open("out.png"))
    inside = np.asarray(Image.open("mask.png")) > 0
    assert after.shape == before.shape
    assert (after[inside] == engine.colour).all()
    assert np.array_equal(after[~inside], before[~inside])
    assert engine.closed


def test_a_photo_on_its_side_is_edited_and_written_upright(folder: Path, engine: ScriptedEngine) -> None:
    upright = np.asarray(files.smooth(128, 96))
    stored = Image.fromarray(files.turned(upright, 6))
    Path("photo.jpg").write_bytes(files.with_orientation(stored, "JPEG", 6, quality=95))
    files.mask(128, 96, (0, 0, 20, 10)).save("mask.png")
    assert _edit("--feather", "0", "--report", "report.json", image="photo.jpg") == 0
    with Image.open("out.png") as written:
        assert written.size == (128, 96)
        assert (np.asarray(written)[:10, :20] == engine.colour).all()
        assert np.abs(np.asarray(written)[20:].astype(int) - upright[20:]).mean() < 2
        assert written.getexif() == {}
    assert json.loads(Path("report.json").read_text())["changed_outside"] == 0


@pytest.mark.parametrize("output", ["out.png", "out.webp"])
def test_D1_transparency_comes_back(output: str, folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    pixels = np.asarray(Image.open("clear.png")).copy()
    pixels[:12, :, 3] = 0
    Image.fromarray(pixels).save("clear.png")
    assert _edit("--feather", "0", image="clear.png", output=output) == 0
    after, inside = np.asarray(Image.open(output)), np.asarray(Image.open("mask.png")) > 0
    assert np.array_equal(after[..., 3], pixels[..., 3])
    assert np.array_equal(after[~inside], pixels[~inside])
    assert "The mask covers transparent pixels; they stay transparent." in capsys.readouterr().err


@pytest.mark.parametrize("output", ["out.png", "out.webp", "out.jpg"])
def test_D6_an_edit_keeps_the_camera_s_tags_unless_told_not_to(
    output: str, folder: Path, engine: ScriptedEngine
) -> None:
    files.noise(64, 96).save("photo.jpg", exif=files.camera_exif())
    assert _edit(image="photo.jpg", output=output) == 0
    with Image.open(output) as written:
        assert written.getexif()[0x0110] == "EOS R5"
        assert 0x0112 not in written.getexif()
        assert b"digitalsourcetype/compositeWithTrainedAlgorithmicMedia" in written.info["xmp"]
    made = open_picture(output).made
    assert (made["prompt"], made["seed"], made["guidance"], made["source"]) == ("a cactus", 0, 5.0, "Deltabrush")
    assert _edit("--no-metadata", image="photo.jpg", output=output) == 0
    bare = open_picture(output)
    assert (bare.exif, bare.made) == (None, {})
    assert b"cactus" not in Path(output).read_bytes()


def test_options_reach_the_engine(folder: Path, engine: ScriptedEngine) -> None:
    assert (
        _edit(
            "--seed",
            "7",
            "--strength",
            "0.5",
            "--guidance",
            "3.5",
            "--mode",
            "dense",
            "--negative",
            "fog",
            "--model",
            "some/model",
            "--device",
            "cuda:1",
            "--dtype",
            "bf16",
            "--offline",
        )
        == 0
    )
    assert engine.loaded_with == {"model": "some/model", "device": "cuda:1", "dtype": "bf16", "offline": True}
    asked = {name: value for name, value in engine.asked.items() if name not in ("mask", "blend")}
    assert asked == {
        "prompt": "a cactus",
        "negative_prompt": "fog",
        "seed": 7,
        "strength": 0.5,
        "guidance": 3.5,
        "mode": "dense",
    }


def test_engine_options_may_stand_before_the_command_and_are_not_lost(folder: Path, engine: ScriptedEngine) -> None:
    assert main(["--model", "some/model", "edit", "photo.png", "mask.png", "a cactus", "-o", "out.png"]) == 0
    assert engine.loaded_with == {"model": "some/model"}


@pytest.mark.parametrize(
    ("options", "edit_area", "shown_fully"),
    [
        ([], 40 * 30, 32 * 22),
        (["--feather", "0"], 40 * 30, 40 * 30),
        (["--grow", "-5"], 30 * 20, 22 * 12),
    ],
    ids=["feather-4", "feather-0", "shrink-5"],
)
def test_grow_and_feather(
    options: list[str], edit_area: int, shown_fully: int, folder: Path, engine: ScriptedEngine
) -> None:
    assert _edit(*options) == 0
    assert np.count_nonzero(engine.asked["mask"]) == edit_area
    assert np.count_nonzero(engine.asked["blend"] == 255) == shown_fully


@pytest.mark.parametrize(("options", "edit_area"), [([], 44 * 34), (["--hard"], 40 * 30)], ids=["soft", "hard"])
def test_faint_edges_of_the_mask_count_unless_it_is_hard(
    options: list[str], edit_area: int, folder: Path, engine: ScriptedEngine
) -> None:
    mask = files.mask(96, 64, (18, 8, 62, 42)).point([0] * 255 + [100])
    mask.paste(200, (20, 10, 60, 40))
    mask.save("mask.png")
    assert _edit(*options) == 0
    assert np.count_nonzero(engine.asked["mask"]) == edit_area


def test_grown_masks_are_round(folder: Path, engine: ScriptedEngine) -> None:
    assert _edit("--grow", "5") == 0
    assert engine.asked["mask"][10 - 5, 30] and not engine.asked["mask"][10 - 5, 20 - 5]


def test_variations_are_numbered_and_seeded_in_order(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    assert _edit("--variations", "3", "--seed", "5", "--report", "report.json") == 0
    assert sorted(path.name for path in folder.glob("out*")) == ["out-1.png", "out-2.png", "out-3.png"]
    assert json.loads(Image.open("out-2.png").info["deltabrush"])["seed"] == 6
    assert json.loads(Path("report.json").read_text())["seeds"] == [5, 6, 7]
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_report_says_what_was_done(folder: Path, engine: ScriptedEngine) -> None:
    assert _edit("--report", "report.json", "--strength", "0.5", "--grow", "2") == 0
    report = json.loads(Path("report.json").read_text())
    variation = report.pop("variations")[0]
    assert report.pop("version")
    assert report == {
        "prompt": "a cactus",
        "negative_prompt": "",
        "strength": 0.5,
        "grow_px": 2,
        "feather_px": 4,
        "steps": 4,
        "guidance": 5.0,
        "sampler": "ddim",
        "model": "scripted",
        "width": 96,
        "height": 64,
        "seeds": [0],
        "changed_outside": 0,
    }
    assert variation["report"]["active_fraction"] == 0.25
    assert (variation["file"], variation["seed"], variation["changed_outside"]) == ("out.png", 0, 0)


@pytest.mark.parametrize(
    ("mode", "cost"),
    [
        ("sparse", "sparse, 2.00 s (25.0 % of the rows, 4.0x faster than dense)"),
        ("dense", "dense, 2.00 s"),
    ],
)
def test_one_line_says_what_an_edit_cost(
    mode: str, cost: str, folder: Path, engine: ScriptedEngine, capsys: Any
) -> None:
    engine.report = ScriptedReport(mode)
    assert _edit("--seed", "9") == 0
    assert capsys.readouterr().out == f"out.png  96x64  seed 9  {cost}  changed outside: 0\n"


def test_a_pixel_that_changed_outside_is_counted(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    engine.leak = True
    assert _edit("--report", "report.json") == 1
    assert json.loads(Path("report.json").read_text())["changed_outside"] == 1
    assert capsys.readouterr().err.startswith("Pixels outside the mask changed (1), which is a fault of the program")


def test_jpeg_is_lossy_but_the_engine_s_own_pixels_are_counted(
    folder: Path, engine: ScriptedEngine, capsys: Any
) -> None:
    assert _edit("--report", "report.json", output="out.jpg") == 0
    assert Image.open("out.jpg").format == "JPEG"
    assert capsys.readouterr().err.startswith("Note: JPEG changes every pixel a little; .png and .webp keep")
    assert json.loads(Path("report.json").read_text())["changed_outside"] == 0


def test_generate(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    assert (
        main(
            [
                "generate",
                "dunes",
                "-o",
                "out.png",
                "--size",
                "320x200",
                "--steps",
                "9",
                "--seed",
                "3",
                "--guidance",
                "0",
                "--negative",
                "fog",
            ]
        )
        == 0
    )
    assert engine.asked == {"size": (320, 200), "seed": 3, "steps": 9, "guidance": 0}
    assert Image.open("out.png").size == (320, 200)
    made_with = json.loads(Image.open("out.png").info["deltabrush"])
    assert (made_with["prompt"], made_with["negative_prompt"], made_with["seed"]) == ("dunes", "fog", 3)
    assert b"digitalsourcetype/trainedAlgorithmicMedia" in Image.open("out.png").info["xmp"]
    assert capsys.readouterr().out == "out.png  320x200\n"


def test_generate_without_metadata(folder: Path, engine: ScriptedEngine) -> None:
    assert main(["generate", "dunes", "-o", "out.png", "--no-metadata"]) == 0
    assert set(Image.open("out.png").info) == {"srgb"}


def test_words_the_model_will_not_read_are_named(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    engine.known_words = {"dunes"}
    assert main(["generate", "dunes " * 75 + "zeppelin", "-o", "out.png"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Note: The model does not know: zeppelin.",
        'Note: The prompt is too long; the model does not read its end: "zeppelin".',
    ]


def test_an_engine_that_fails_is_one_sentence_and_exit_1(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    def fail() -> None:
        raise EngineError("Out of memory: choose fewer variations.")

    engine.on_step = fail
    assert _edit() == 1
    assert capsys.readouterr() == ("", "Out of memory: choose fewer variations.\n")
    assert engine.closed
    assert not Path("out.png").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["edit", "photo.png", "mask.png", "a cactus", "-o", "out.png"],
        ["generate", "dunes", "-o", "out.png"],
    ],
    ids=["edit", "generate"],
)
@pytest.mark.parametrize("at_step", [1, 3, 7])  # 7: the last one, after which the engine does not look again
def test_F1_ctrl_c_stops_within_a_step_and_writes_nothing(
    command: list[str], at_step: int, folder: Path, engine: ScriptedEngine, capsys: Any
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def press() -> None:
        if engine.steps_run == at_step:
            os.kill(os.getpid(), signal.SIGINT)

    engine.on_step = press
    assert main(command) == 130
    assert capsys.readouterr() == ("", "Stopped.\n")
    assert engine.steps_run == at_step
    assert engine.closed
    assert not Path("out.png").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait_for_the_step(folder: Path, engine: ScriptedEngine, capsys: Any) -> None:
    def press_twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second Ctrl-C was ignored")

    engine.on_step = press_twice
    assert _edit() == 130
    assert engine.closed


def test_ctrl_c_while_the_model_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def load(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("diffusion_engine.EditableDiffusionEngine.from_pretrained", load)
    assert _edit() == 130
    assert capsys.readouterr().err == "Stopped.\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_on_a_terminal_and_none_in_a_pipe(
    folder: Path, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, pipe = _Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    assert _edit() == 0
    monkeypatch.setattr("sys.stderr", pipe)
    assert _edit() == 0
    for stage in ("record: 100%", "denoise: 100%", "decode: 100%"):
        assert stage in terminal.getvalue()
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "module", "passed_on"),
    [
        (["bench", "unet"], "unet", []),
        (["bench", "decoder", "--json", "out.json"], "decoder", ["--json", "out.json"]),
        (["bench", "edit", "--model", "sd15", "--help"], "edit", ["--model", "sd15", "--help"]),
        (["eval", "--json", "out.json", "--scenes", "3"], "evaluate", ["--json", "out.json", "--scenes", "3"]),
        (["eval", "--help"], "evaluate", ["--help"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_benchmarks_get_the_rest_of_the_line_and_give_the_exit_code(
    arguments: list[str], module: str, passed_on: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[list[str]] = []
    benchmark = ModuleType(f"benchmarks.{module}")
    benchmark.main = lambda argv: received.append(argv) or 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"benchmarks.{module}", benchmark)
    assert main(arguments) == 7
    assert received == [passed_on]


def test_no_command_opens_the_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    server = ModuleType("editor.web.serve")
    server.run = opened.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "editor.web", ModuleType("editor.web"))
    monkeypatch.setitem(sys.modules, "editor.web.serve", server)
    assert (
        main(
            [
                "--port",
                "8000",
                "--host",
                "0.0.0.0",
                "--auth",
                "anna:secret",
                "--output-dir",
                "pictures",
                "--cache-memory",
                "1.5",
                "--no-browser",
                "--mcp",
                "--device",
                "cpu",
                "--offline",
            ]
        )
        == 0
    )
    settings = opened[0]
    assert settings.project is None
    assert main(["--port", "8000", "open", "work.deltabrush", "--no-browser"]) == 0
    assert (opened[1].project, opened[1].port, opened[1].open_browser) == (Path("work.deltabrush"), 8000, False)
    assert (settings.port, settings.host, settings.auth) == (8000, "0.0.0.0", "anna:secret")
    assert (settings.output_dir, settings.cache_memory_bytes, settings.mcp) == (Path("pictures"), 3 * 2**29, True)
    assert (settings.open_browser, settings.device, settings.offline, settings.model) == (False, "cpu", True, "starter")


def test_help_loads_nothing_heavy() -> None:
    script = """if True:
        import sys
        from editor.cli import main
        try:
            main(["--help"])
        except SystemExit as done:
            assert done.code == 0
        loaded = {"torch", "numpy", "PIL", "gradio", "diffusers", "tqdm"} & set(sys.modules)
        sys.exit(f"loaded {loaded}" if loaded else 0)
    """
    run = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "generate" in run.stdout and "--auth" in run.stdout
