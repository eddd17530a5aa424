"""Where the page finds what belongs to a session, and assistants the editor. The key in an address is a secret that
only its own page holds, or its own program."""

from __future__ import annotations

from editor.session import EditSession

MCP = "/mcp"


def picture_url(session: EditSession, picture_id: str) -> str:
    """The address of the exact pixels, as PNG."""
    return f"/sessions/{session.key}/pictures/{picture_id}.png"


def thumbnail_url(session: EditSession, picture_id: str) -> str:
    return f"/sessions/{session.key}/thumbnails/{picture_id}.jpg"


def export_url(session: EditSession, picture_id: str) -> str:
    """The address, but for its suffix, that saves the picture in the output folder and sends it as a file to keep."""
    return f"/sessions/{session.key}/exports/{picture_id}"


def mask_url(session: EditSession) -> str:
    """The address of the painted part of the mask, as the page has sent it last."""
    return f"/sessions/{session.key}/mask.png"
