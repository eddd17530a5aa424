"""Everything the editor's server is started with, checked before a socket is opened or a model loaded."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from diffusion_engine import UserError


@dataclass(frozen=True)
class Settings:
    """`model` is "starter", a hub id, a folder or a .safetensors file; `auth` is "user:password"; caches take bytes of
    memory, of main memory beside an accelerator, and of disk, None for what the machine can spare; `mcp` serves
    assistants too; `project` is a file to open at once. Raises UserError if the server cannot be started like this."""

    model: str = "starter"
    device: str = "auto"
    dtype: str = "auto"
    host: str = "127.0.0.1"
    port: int = 7860
    output_dir: Path = Path("outputs")
    sessions_dir: Path = platformdirs.user_data_path("deltabrush", appauthor=False) / "sessions"
    auth: str | None = field(default=None, repr=False)  # repr ends up in logs
    cache_memory_bytes: int | None = None
    cache_host_bytes: int | None = None
    cache_disk_bytes: int | None = None
    cache_dir: Path | None = None
    cache_dtype: str = "auto"
    offline: bool = False
    open_browser: bool = True
    mcp: bool = False
    project: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise UserError(f"--port must be from 1 to 65535, not {self.port}.")
        sizes = [
            ("--cache-memory", self.cache_memory_bytes),
            ("--cache-host", self.cache_host_bytes),
            ("--cache-disk", self.cache_disk_bytes),
        ]
        for option, nbytes in sizes:
            if nbytes is not None and nbytes < 0:
                raise UserError(f"{option} must be 0 or more.")
        if self.auth is not None and not all(self.auth.partition(":")):
            raise UserError("--auth must be a user and a password with a colon between them: --auth USER:PASSWORD.")
        if self.auth is None and not is_loopback(self.host):
            raise UserError(
                f"Listening on {self.host} lets other machines in: add --auth USER:PASSWORD, or leave --host out."
            )
        if self.mcp and find_spec("mcp_types") is None:  # a part of the package mcp since its version 2
            raise UserError("--mcp needs a package that is not installed: pip install 'deltabrush[mcp]'.")
        folders = [
            ("--output-dir", self.output_dir),
            ("--sessions-dir", self.sessions_dir),
            ("--cache-dir", self.cache_dir),
        ]
        for option, folder in folders:
            if folder is not None and folder.exists() and not folder.is_dir():
                raise UserError(f"{option} {folder} is a file: choose a folder.")


def is_loopback(host: str) -> bool:
    """True if only this machine can reach a server on `host`. Names other than localhost could mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
