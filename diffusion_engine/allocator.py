"""Memory that is freed is kept for the next tensor, instead of given back to the system and asked for again.

A network call frees and allocates the same megabytes at every layer. glibc returns such blocks at once, and the kernel
has to clear each page when it is touched anew: an eighth of the time of a training step on two cores, and more while
other programs run beside it.
"""

from __future__ import annotations

import ctypes
import sys

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
KEPT = 2**31 - 1  # bytes at the end of the heap that are not given back
STEP = 256 * 2**20  # bytes by which the heap grows
OWN_MAPPING = 32 * 2**20  # blocks from here on are mapped one by one; glibc allows no more


def keep_freed_memory() -> bool:
    """Sets glibc's allocator of this process so; False where there is another one."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    settings = ((_M_MMAP_THRESHOLD, OWN_MAPPING), (_M_TRIM_THRESHOLD, KEPT), (_M_TOP_PAD, STEP))
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in settings)
