"""How large a picture may be: what the engine works on, and no longer than files are read."""

from diffusion_engine.limits import MAX_PIXELS, MIN_SIDE

__all__ = ["MAX_PIXELS", "MAX_SIDE", "MIN_SIDE"]
MAX_SIDE = 8192
