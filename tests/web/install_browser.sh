#!/bin/sh
# Prints where a Chromium for the browser tests is, and installs one if there is none.
# To use one of your own: DELTABRUSH_CHROMIUM=/path/to/chrome
set -eu
python="${PYTHON:-python}"

find_browser() {
    if [ -n "${DELTABRUSH_CHROMIUM:-}" ]; then command -v "$DELTABRUSH_CHROMIUM"; return; fi
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$name"; then return 0; fi
    done
    "$python" - <<'EOF'
import pathlib, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    path = pathlib.Path(playwright.chromium.executable_path)
print(path) if path.exists() else sys.exit(1)
EOF
}

install_browser() {
    if command -v apt-get > /dev/null; then
        sudo=""
        if [ "$(id -u)" != 0 ]; then sudo="sudo -n"; fi
        if $sudo apt-get update -q && $sudo apt-get install -qy chromium; then return; fi
    fi
    "$python" -m playwright install chromium
}

if find_browser; then exit 0; fi
if [ -n "${DELTABRUSH_CHROMIUM:-}" ]; then
    echo "DELTABRUSH_CHROMIUM names no program: $DELTABRUSH_CHROMIUM" >&2
    exit 1
fi
install_browser >&2
find_browser
