"""The program in a process of its own, and a browser to use it with: for measurements, screenshots and tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def program() -> Generator[str]:
    """The address of the program, with the starter model and nothing of the person's own."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port := free_port()), "--no-browser", "--offline"]
        folders = ["--output-dir", folder, "--sessions-dir", folder]
        command = [sys.executable, "-m", "editor.cli", *options, *folders]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it is open
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def launch(playwright: Any) -> Any:
    """Chromium, as tests/web/install_browser.sh installs it, or the one that DELTABRUSH_CHROMIUM names."""
    found = os.environ.get("DELTABRUSH_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    return playwright.chromium.launch(executable_path=found, args=FLAGS)
