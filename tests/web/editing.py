"""What a person does on the page, and the exact pixels that the server then has."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, expect

TIMEOUT_MS = 60_000


class Editor:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.canvas: Locator = page.locator("#canvas canvas")

    def set(self, **values: Any) -> None:
        """Types values into the fields under "More", by their element id."""
        if not self.page.locator("#steps input").is_visible():
            self.page.locator("#more > button").click()
        for name, value in values.items():
            self.page.locator(f"#{name} input").first.fill(str(value))
        if "seed" in values:
            self.page.locator("#seed-lock input").check()

    def go(self, prompt: str) -> None:
        field = self.page.locator("#prompt textarea")
        if field.input_value() != prompt:  # each change is kept by the browser, for its own undo
            field.fill(prompt)
        self.page.locator("#go").click()

    def finish(self) -> None:
        """Waits until nothing runs."""
        expect(self.page.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)
        expect(self.page.locator("#go")).to_be_visible(timeout=TIMEOUT_MS)

    def generate(self, prompt: str) -> None:
        self.go(prompt)
        expect(self.page.locator("#go")).to_have_text("Paint it", timeout=TIMEOUT_MS)

    def paint(self, prompt: str) -> None:
        """Presses the button and waits until the result is on the screen."""
        shown = "(performance.getEntriesByName('deltabrush-picture')[0]?.startTime ?? 0)"
        before = self.page.evaluate(shown)
        self.go(prompt)
        self.page.wait_for_function(f"{shown} > {before}", timeout=TIMEOUT_MS)
        expect(self.page.locator("#keep")).to_be_visible(timeout=TIMEOUT_MS)
        self.finish()

    def open(self, data: bytes, name: str = "picture.png") -> None:
        versions = self.versions().count()
        self.page.locator('#top input[type="file"]').set_input_files(
            {"name": name, "mimeType": "application/octet-stream", "buffer": data}
        )
        expect(self.versions()).to_have_count(versions + 1, timeout=TIMEOUT_MS)

    def versions(self) -> Locator:
        """The entries of the history."""
        return self.page.locator("#history .pick")

    def takes(self) -> Locator:
        """The results that wait."""
        return self.page.locator("#takes button")

    def keep(self) -> None:
        versions = self.versions().count()
        self.page.locator("#keep").click()
        expect(self.versions()).to_have_count(versions + 1)

    def top(self, name: str) -> Locator:
        """A button of the bar above the canvas: new, undo, redo."""
        return self.page.locator(f'#top [data-send="{name}"]')

    def show(self, version: int) -> None:
        """Goes to an entry of the history, by its number."""
        self.versions().nth(version).click()
        expect(self.versions().nth(version)).to_have_attribute("aria-pressed", "true")

    def stroke(self, start: tuple[float, float], end: tuple[float, float], size: int = 48) -> None:
        """Drags the brush between two points in pixels of the picture, at the fitted view."""
        self.page.locator("#canvas .size").fill(str(size))
        (x0, y0), (x1, y1) = self.on_screen(start), self.on_screen(end)
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        self.page.mouse.move(x1, y1, steps=8)
        self.page.mouse.up()

    def use(self, tool: str, points: list[tuple[float, float]], size: int = 48) -> None:
        """Drags a tool through points of the picture, or clicks them where it wants clicks."""
        self.choose(tool)
        if tool in ("brush", "eraser"):
            self.page.locator("#canvas .size").fill(str(size))
        (first, *rest) = (self.on_screen(point) for point in points)
        self.page.mouse.move(*first)
        if tool == "polygon":
            for point in (first, *rest, first):
                self.page.mouse.click(*point)
            return
        self.page.mouse.down()
        for point in rest:
            self.page.mouse.move(*point, steps=12)
        self.page.mouse.up()

    def choose(self, tool: str) -> None:
        self.page.locator(f'[data-tool="{tool}"]').click()

    def button(self, name: str) -> Locator:
        """A button of the canvas that acts at once."""
        return self.page.locator(f'[data-do="{name}"]')

    def press(self, keys: str) -> None:
        """Presses keys with the canvas in focus."""
        self.canvas.focus()
        self.page.keyboard.press(keys)

    def on_screen(self, point: tuple[float, float]) -> tuple[float, float]:
        """Where a point of the picture is in the window: the picture is centred and as large as fits."""
        box = self.canvas.bounding_box()
        assert box is not None
        width, height = self.picture().size
        scale = min(box["width"] / width, box["height"] / height)
        left, top = box["x"] + (box["width"] - width * scale) / 2, box["y"] + (box["height"] - height * scale) / 2
        return left + point[0] * scale, top + point[1] * scale

    def picture(self) -> Image.Image:
        """The shown picture, exact, as the server has it."""
        return self._fetch(self.page.locator('#top [data-format="png"]').get_attribute("href"), "exports")

    def version(self) -> Image.Image:
        """The current version, exact: what the shown candidates were made from."""
        return self._fetch(self.page.locator('#history [aria-pressed="true"] img').get_attribute("src"), "thumbnails")

    def _fetch(self, address: str | None, kind: str) -> Image.Image:
        assert address is not None
        exact = address.partition("?")[0].replace(f"/{kind}/", "/pictures/").replace(".jpg", ".png")
        return Image.open(io.BytesIO(self._bytes("exact => fetch(exact)", exact)))

    def _bytes(self, response: str, argument: Any = None) -> bytes:
        # fetched by the page, so that Origin, cookies and the gate are as they are for a person
        read = f"async given => [...new Uint8Array(await (await ({response})(given)).arrayBuffer())]"
        return bytes(self.page.evaluate(read, argument))

    def mask(self) -> np.ndarray:
        """The mask as the button would send it, uint8 [H, W]."""
        mask = np.zeros(self.picture().size[::-1], np.uint8)
        sent = self.page.evaluate('() => document.querySelector("#canvas canvas").readMask()')
        if sent is not None:
            data = self._bytes("png => fetch(png)", sent["png"])
            part = np.asarray(Image.open(io.BytesIO(data)).convert("L"))
            mask[sent["top"] : sent["top"] + len(part), sent["left"] : sent["left"] + part.shape[1]] = part
        return mask

    def seen(self, point: tuple[float, float]) -> tuple[int, ...]:
        """The colour on the screen at a point of the picture."""
        self.page.wait_for_timeout(100)  # a frame or two
        x, y = self.on_screen(point)
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        scale = shot.width / self.page.viewport_size["width"]
        return shot.getpixel((round(x * scale), round(y * scale)))

    def message(self) -> Locator:
        return self.page.locator("#message p")


def differing(one: Image.Image, other: Image.Image) -> np.ndarray:
    """Where two pictures differ, bool [H, W]."""
    return (np.asarray(one.convert("RGB")) != np.asarray(other.convert("RGB"))).any(axis=2)


def picture_file(size: tuple[int, int], kind: str = "PNG", **options) -> bytes:
    """A grey picture, as the bytes of a file."""
    buffer = io.BytesIO()
    Image.new("RGB", size, (120, 120, 120)).save(buffer, kind, **options)
    return buffer.getvalue()
