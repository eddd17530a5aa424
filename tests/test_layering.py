"""House rules that a machine can hold: who imports whom, how long a file may be, and that weights never run code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("editor", "diffusion_engine", "kernels", "benchmarks", "training")
WEB = ("gradio", "fastapi", "starlette", "uvicorn")


def sources(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> list[Path]:
    return [ROOT / "app.py", *(p for f in folders for p in sorted((ROOT / f).rglob("*")) if p.suffix in suffixes)]


def test_imports_go_one_way() -> None:
    """The contracts of pyproject.toml, checked by import-linter."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"[1-9]\d* kept, 0 broken", result.stdout)


@pytest.mark.parametrize(
    "package,but,forbidden",
    [
        ("kernels", "", (*WEB, "diffusers", "transformers", "PIL", "diffusion_engine", "editor")),
        ("diffusion_engine", "", (*WEB, "editor", "benchmarks", "app")),
        ("editor", "editor.web", (*WEB, "app")),
    ],
    ids=["kernels", "diffusion_engine", "editor but for its web part"],
)
def test_importing_a_package_imports_nothing_above_it(package: str, but: str, forbidden: tuple[str, ...]) -> None:
    """Every module of the package is imported in a fresh interpreter, and what came with it is looked at.

    Kernels for a GPU are left out: they are imported only where their compiler is installed.
    """
    program = f"""
import importlib, pathlib, sys
for file in sorted(pathlib.Path({package!r}).rglob("*.py")):
    name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
    if file.stem != "triton" and not ({but!r} and name.startswith({but!r})):
        importlib.import_module(name)
print(*sorted(set({forbidden!r}) & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


def test_no_file_is_longer_than_500_lines() -> None:
    files = sources(*PACKAGES, "tests", suffixes=(".py", ".js", ".css", ".html", ".sh"))
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert len(lengths) > 50
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}


def test_nothing_reads_files_that_can_run_code() -> None:
    risky = re.compile(
        r"\b(pickle|cPickle|dill|joblib|marshal|shelve)\b|\btorch\.load\b|weights_only|allow_pickle=True"
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources(*PACKAGES)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if risky.search(line)
    ]
    assert found == []
