"""How large a picture may be: to be opened, and to be worked on at once (a larger one is edited by crops)."""

from diffusion_engine.limits import MAX_PIXELS as MAX_WORK_PIXELS
from diffusion_engine.limits import MIN_SIDE

__all__ = ["MAX_GUIDANCE", "MAX_PIXELS", "MAX_SEED", "MAX_SIDE", "MAX_STEPS", "MAX_WORK_PIXELS", "MIN_SIDE"]
MAX_SIDE = 8192
MAX_PIXELS = 4096 * 4096
MAX_STEPS = 200
MAX_GUIDANCE = 50
MAX_SEED = 2**63 - 1
