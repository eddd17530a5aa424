"""`deltabrush models`: what is on this machine already. Looks at folders only, never at the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STARTER_FOLDER = Path(__file__).resolve().parents[1] / "assets" / "starter-model"


@dataclass(frozen=True)
class InstalledModel:
    """`name` is what --model takes; `size` in bytes."""

    name: str
    folder: Path
    size: int


def installed_models() -> list[InstalledModel]:
    """The starter model, then the diffusers models of the Hugging Face cache by name."""
    models = _downloaded_models()
    if _is_model(STARTER_FOLDER):
        models.insert(0, InstalledModel("starter", STARTER_FOLDER, _folder_size(STARTER_FOLDER)))
    return models


def print_models() -> None:
    """Prints one line per model: name, size, folder."""
    from huggingface_hub import constants

    models = installed_models()
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        print(f"{model.name:{width}}  {model.size / 1e6:8.1f} MB  {model.folder}")
    print(f"Downloads are kept in {constants.HF_HUB_CACHE}.")


def _downloaded_models() -> list[InstalledModel]:
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:  # nothing was ever downloaded
        return []
    models = []
    for repository in sorted(repositories, key=lambda repository: repository.repo_id):
        newest = max(repository.revisions, key=lambda revision: revision.last_modified, default=None)
        if newest is not None and _is_model(newest.snapshot_path):
            models.append(InstalledModel(repository.repo_id, newest.snapshot_path, repository.size_on_disk))
    return models


def _is_model(folder: Path) -> bool:
    return (folder / "model_index.json").is_file()


def _folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
