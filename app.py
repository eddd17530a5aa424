"""Starts the editor: the same as the command `deltabrush`."""

import sys

from editor.cli import main

if __name__ == "__main__":
    sys.exit(main())
