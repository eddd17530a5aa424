"""The command line's options: names, ranges and help. Only the standard library, so that --help answers at once."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from editor.limits import MAX_GUIDANCE, MAX_SEED, MAX_SIDE, MAX_STEPS, MAX_WORK_PIXELS, MIN_SIDE

EDITOR_OPTIONS = {
    "host": "--host",
    "port": "--port",
    "auth": "--auth",
    "output_dir": "--output-dir",
    "sessions_dir": "--sessions-dir",
    "cache_memory_bytes": "--cache-memory",
    "cache_host_bytes": "--cache-host",
    "cache_disk_bytes": "--cache-disk",
    "cache_dir": "--cache-dir",
    "cache_dtype": "--cache-dtype",
    "open_browser": "--no-browser",
    "mcp": "--mcp",
}
ENGINE_OPTIONS = ("model", "device", "dtype", "offline")
BENCHMARKS = ("unet", "decoder", "edit", "memory")


class UsageError(Exception):
    """The command line makes no sense; the message is one sentence."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; see {self.prog} --help.")


def parse_arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(options, what follows `bench` and `eval` for the benchmark itself). `options.command` is None for the editor;
    options of the engine and of the editor are present only where they were given. Raises UsageError."""
    parser = _build_parser()
    options, rest = parser.parse_known_args(argv)
    if rest and options.command not in ("bench", "eval"):
        program = f"{parser.prog} {options.command}" if options.command else parser.prog
        raise UsageError(f"unrecognized arguments: {' '.join(rest)}; see {program} --help.")
    misplaced = [flag for name, flag in EDITOR_OPTIONS.items() if name in options]
    if misplaced and options.command not in (None, "open"):
        parser.error(f"{misplaced[0]} belongs to the editor, not to {options.command}")
    return options, rest


def program_version() -> str:
    """The installed version, or "source" where the program runs from its folder without being installed."""
    try:
        return metadata.version("deltabrush")
    except metadata.PackageNotFoundError:
        return "source"


def _build_parser() -> _Parser:
    parser = _Parser(
        prog="deltabrush",
        description="Paint a mask, type a prompt, and only what you painted is computed again. "
        "Without a command, opens the editor.",
    )
    parser.add_argument("--version", action="version", version=f"deltabrush {program_version()}")
    _add_editor_options(parser)
    _add_engine_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_open(commands.add_parser("open", help="open the editor with a project"))
    _add_generate(commands.add_parser("generate", help="paint a whole picture"))
    _add_edit(commands.add_parser("edit", help="paint one part of a picture again"))
    bench = commands.add_parser("bench", help="measure the speed against diffusers")
    kinds = bench.add_subparsers(dest="benchmark", metavar="{" + ",".join(BENCHMARKS) + "}", required=True)
    for name in BENCHMARKS:
        kinds.add_parser(name, add_help=False)  # --help, too, is the benchmark's own
    commands.add_parser("eval", help="measure the quality of sparse against dense edits", add_help=False)
    commands.add_parser("models", help="list what is installed, where, and how big")
    return parser


def _add_editor_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("editor", argument_default=argparse.SUPPRESS)
    group.add_argument("--host", help="address to listen on (default 127.0.0.1: this machine only)")
    group.add_argument("--port", type=_whole(1, 65535), help="default 7860")
    group.add_argument("--auth", metavar="USER:PASSWORD", help="ask for a password; needed with any other --host")
    group.add_argument("--output-dir", type=Path, metavar="FOLDER", help="where pictures are saved (default outputs)")
    group.add_argument(
        "--sessions-dir", type=Path, metavar="FOLDER", help="where work is kept (default: with your other data)"
    )
    group.add_argument(
        "--cache-memory",
        dest="cache_memory_bytes",
        type=_gigabytes,
        metavar="GB",
        help="memory for activations, of the device that computes (default: a third of what is free)",
    )
    group.add_argument(
        "--cache-host",
        dest="cache_host_bytes",
        type=_gigabytes,
        metavar="GB",
        help="main memory for activations that an accelerator has no room for (default: a third of what is free)",
    )
    group.add_argument(
        "--cache-disk",
        dest="cache_disk_bytes",
        type=_gigabytes,
        metavar="GB",
        help="disk space for activations that memory has no room for (default: a quarter of what is free)",
    )
    group.add_argument(
        "--cache-dir", type=Path, metavar="FOLDER", help="where on disk (default: with your other caches)"
    )
    group.add_argument(
        "--cache-dtype",
        choices=("auto", "fp32", "bf16", "fp16", "int8"),
        help="number format of activations: smaller ones save memory (see docs/memory.md)",
    )
    group.add_argument("--no-browser", dest="open_browser", action="store_false", help="do not open a browser window")
    group.add_argument("--mcp", action="store_true", help="let assistants use the editor too (see docs/api.md)")


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: else a command's own default would silently replace what was given before the command's name.
    group = parser.add_argument_group("engine", argument_default=argparse.SUPPRESS)
    group.add_argument("--model", help="starter (default), a Hugging Face id, a folder or a .safetensors file")
    group.add_argument("--device", type=_device, help="auto (default), cpu, cuda, cuda:N or mps")
    group.add_argument("--dtype", choices=("auto", "fp32", "bf16", "fp16"))
    group.add_argument("--offline", action="store_true", help="never look for a model on the network")


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", metavar="PROMPT", help="what to paint")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help=".png, .webp (both lossless) or .jpg; replaced if it exists",
    )
    parser.add_argument("--negative", metavar="PROMPT", help="what not to paint")
    parser.add_argument("--steps", type=_whole(1, MAX_STEPS), help="denoising steps (default: the model's)")
    parser.add_argument(
        "--guidance", type=_number(0, MAX_GUIDANCE), help="how closely to follow the prompt (default: the model's)"
    )
    parser.add_argument(
        "--no-metadata",
        dest="metadata",
        action="store_false",
        help="write into the file nothing but the picture: not how it was made, nor with what camera",
    )
    parser.add_argument("--seed", type=_whole(0, MAX_SEED), default=0, help="same seed, same picture (default 0)")
    _add_engine_options(parser)


def _add_open(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", type=Path, metavar="PROJECT", help="a file that ends in .deltabrush")
    _add_editor_options(parser)
    _add_engine_options(parser)


def _add_generate(parser: argparse.ArgumentParser) -> None:
    _add_sampling_options(parser)
    parser.add_argument("--size", type=_size, metavar="WxH", help="in pixels, such as 512x512 (default: the model's)")


def _add_edit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the picture: PNG, JPEG, WebP, GIF or BMP")
    parser.add_argument("mask", type=Path, metavar="MASK", help="a picture of the same size: white may change")
    _add_sampling_options(parser)
    parser.add_argument(
        "--variations",
        type=_whole(1, 16),
        default=1,
        metavar="N",
        help="paint N versions with seeds SEED, SEED+1, ... into FILE-1, FILE-2, ...",
    )
    parser.add_argument("--strength", type=_number(0.01, 1), default=1.0, help="how much to change (default 1)")
    parser.add_argument(
        "--grow",
        type=_whole(-256, 256),
        default=0,
        metavar="PX",
        help="widen the mask, or shrink it where negative (default 0)",
    )
    parser.add_argument(
        "--feather",
        type=_whole(0, 256),
        default=4,
        metavar="PX",
        help="width of the soft edge inside the mask, 0 for a hard one (default 4)",
    )
    parser.add_argument("--hard", action="store_true", help="count grey mask levels from 128 as painted, others as not")
    parser.add_argument(
        "--mode",
        choices=("auto", "sparse", "dense"),
        default="auto",
        help="compute only the painted part, or everything (default auto: what is faster)",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was done, in JSON")


def _whole(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return convert


def _number(least: float, most: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # also refuses nan
            raise argparse.ArgumentTypeError(f"must be a number from {least:g} to {most:g}, not {text!r}")
        return value

    return convert


def _gigabytes(text: str) -> int:
    return int(_number(0, 4096)(text) * 2**30)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})[x×](\d{1,6})", text, re.ASCII)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if min(size) < MIN_SIDE or max(size) > MAX_SIDE or size[0] * size[1] > MAX_WORK_PIXELS:
        raise argparse.ArgumentTypeError(
            f"must be WIDTHxHEIGHT, such as 512x512, with sides from {MIN_SIDE} to {MAX_SIDE} and at most "
            f"{MAX_WORK_PIXELS / 1e6:.1f} million pixels, not {text!r}"
        )
    return size


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"must be auto, cpu, cuda, cuda:N or mps, not {text!r}")
    return text
