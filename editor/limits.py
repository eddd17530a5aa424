"""How large a picture may be, in pixels. Apart, so that the command line knows it without loading anything."""

MIN_SIDE = 64
MAX_SIDE = 8192
MAX_PIXELS = 4096 * 4096  # 16.8 million
