"""Servers and browsers for the tests of the page."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from painting_engine import PaintingEngine
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.running_program import launch
from editor.web.serve import Server, listen

# of a browser that was here before, but has no session to go on with; a reload keeps what the window has
AS_A_NEW_WINDOW = """
    if (!sessionStorage.getItem("deltabrush-session")) {
        localStorage.clear();
        localStorage.setItem("deltabrush-visited", "1");
    }
"""


@contextmanager
def serving(engine, output_dir: Path, **options) -> Iterator[str]:
    """The address of the whole application, run in a thread."""
    listener = listen("127.0.0.1", 0)
    server = Server(engine, listener, output_dir, output_dir / "sessions", **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def painting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaintingEngine, str, Path]]:
    """One server for all tests, so that browsers load Gradio once; every page is a session of its own."""
    engine, outputs = PaintingEngine(), tmp_path_factory.mktemp("outputs")
    with serving(engine, outputs) as url:
        yield engine, url, outputs


@pytest.fixture
def engine(painting_server: tuple[PaintingEngine, str, Path]) -> PaintingEngine:
    engine = painting_server[0]
    engine.before_step = lambda step: time.sleep(0.02)
    engine.calls.clear()
    return engine


@pytest.fixture
def address(engine: PaintingEngine, painting_server: tuple[PaintingEngine, str, Path]) -> str:
    return painting_server[1]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Callable[..., BrowserContext]:
    """Browser windows by their options; they are kept, so that Gradio's files stay in their cache."""
    return functools.cache(lambda **options: browser.new_context(viewport={"width": 1280, "height": 800}, **options))


@pytest.fixture
def visit(contexts: Callable[..., BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server in a tab of its own: `visit(address, **context options)`."""
    pages = []

    def open_page(url: str, **options) -> Page:
        page = contexts(**options).new_page()
        page.add_init_script(AS_A_NEW_WINDOW)
        pages.append(page)
        page.goto(url)
        page.locator("#go").wait_for()
        page.wait_for_function("sessionStorage.getItem('deltabrush-session')")
        return page

    yield open_page
    for page in pages:
        page.close()
