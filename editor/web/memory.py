"""What caches hold, for the page: bytes of each picture of a session, and of each kind of memory with its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffusion_engine import UserError

if TYPE_CHECKING:
    from diffusion_engine import EditableDiffusionEngine
    from editor.session import EditSession


def memory_value(engine: EditableDiffusionEngine, session: EditSession) -> dict[str, Any]:
    """Ready for JSON. items: pictures that hold anything; others: bytes of other sessions and of waiting variations."""
    report, versions = engine.memory(), session.versions()
    held = {version: sum(tiers.values()) for version, tiers in report.by_version.items()}
    items: list[dict[str, Any]] = [
        {"id": entry.id, "name": entry.name, "bytes": held[versions[entry.id]]}
        for entry in session.history
        if held.get(versions.get(entry.id, ""))
    ]
    tiers = [{"name": name, "held": report.held[name], "budget": budget} for name, budget in report.budget.items()]
    return {"tiers": tiers, "items": items, "others": sum(held.values()) - sum(item["bytes"] for item in items)}


def version_of(session: EditSession, entry_id: str) -> str:
    """The engine's version that stands for an entry; raises UserError where there is none."""
    found = session.versions().get(entry_id)
    if found is None:
        raise UserError("Nothing is kept of that picture.")
    return found
