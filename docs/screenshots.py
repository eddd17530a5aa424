"""Takes the screenshots of docs/screenshots with the starter model: python -m docs.screenshots."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from benchmarks.running_program import launch, program

FOLDER = Path(__file__).parent / "screenshots"
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 900, "height": 700}


def run(page: Page, prompt: str) -> None:
    """Presses the button and waits for the result."""
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#go:enabled").click()
    page.locator("#stop").wait_for()
    page.locator("#go").wait_for(timeout=300_000)
    page.wait_for_timeout(500)


def stroke(page: Page, *points: tuple[float, float]) -> None:
    """Drags the brush through points, as shares of the square picture in the middle of the canvas."""
    box = page.locator("#canvas canvas").bounding_box()
    assert box is not None
    side = min(box["width"], box["height"])
    left, top = box["x"] + (box["width"] - side) / 2, box["y"] + (box["height"] - side) / 2
    first, *rest = [(left + x * side, top + y * side) for x, y in points]
    page.mouse.move(*first)
    page.mouse.down()
    for point in rest:
        page.mouse.move(*point, steps=8)
    page.mouse.up()
    page.wait_for_timeout(800)


def seed(page: Page, value: int) -> None:
    """The same pictures each time."""
    page.locator("#more > button").click()
    page.locator("#seed input").first.fill(str(value))
    page.locator("#seed-lock input").check()
    page.locator("#more > button").click()


def save(page: Page, name: str) -> None:
    page.wait_for_timeout(600)
    page.screenshot(path=FOLDER / f"{name}.png")


def take(page: Page) -> None:
    save(page, "empty")
    page.locator("[data-example]").first.click()
    page.locator("#cost p:has-text('faster')").wait_for(timeout=60_000)
    save(page, "painting")
    seed(page, 3)
    page.locator("#variations label").nth(3).click()
    run(page, "a full moon")
    save(page, "variations")
    page.locator("#keep").click()
    page.locator("#variations label").nth(0).click()
    for number, (prompt, points) in enumerate([("a shooting star", (0.22, 0.2)), ("a fish", (0.3, 0.85))], start=2):
        stroke(page, points, (points[0] + 0.1, points[1] + 0.04))
        run(page, prompt)
        page.locator("#keep").click()
        page.locator("#history .pick").nth(number).wait_for()
    page.locator("#history .pick").nth(1).click()
    page.wait_for_timeout(500)
    stroke(page, (0.6, 0.7), (0.68, 0.78), (0.6, 0.78))
    run(page, "a sailboat")
    page.locator("#keep").click()
    page.locator("#history .pick").nth(4).wait_for()
    save(page, "history")
    page.locator("#top .theme").click()
    save(page, "dark")
    page.locator("#top .theme").click()
    page.set_viewport_size(NARROW)
    save(page, "narrow")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with program() as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport=WIDE)
        page.add_init_script("localStorage.setItem('deltabrush-visited', '1')")
        page.goto(address)
        page.locator("#go:enabled").wait_for()
        take(page)
        browser.close()


if __name__ == "__main__":
    main()
