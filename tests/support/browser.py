"""Debian's Chromium driven by Playwright, as a person uses a page; and a REST API over a cluster in memory for it."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.plugin import leave_out
from support.rest_backend import MemoryBackend
from support.waiting import HUNG_S
from tailrace.runtime.clock import SystemClock
from tailrace_gateway.rest.server import open_rest

NAMES = ("chromium", "chromium-browser", "google-chrome")
_LAST_TURNS = 20
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 390, "height": 800}


def chromium() -> str:
    """The path of a Chromium; the test is left out, or fails, with the line that installs one."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    leave_out("apt-get install chromium")
    raise AssertionError


@contextmanager
def open_browser() -> Iterator[Any]:
    """A headless browser."""
    path = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        leave_out("pip install -c constraints.txt -e '.[browser-tests]'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=HUNG_S * 1000)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """One page of the console; what it may not do (errors, requests to elsewhere) is collected."""

    def __init__(self, browser: Any, address: str, viewport: dict[str, int], scheme: str = "light") -> None:
        """address: that of an admin port; with https:// its certificate is taken as it is."""
        self.origin = address if "://" in address else f"http://{address}"
        self.complaints: list[str] = []
        secure = self.origin.startswith("https:")
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, timezone_id="UTC", ignore_https_errors=secure
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(HUNG_S * 1000)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda line: self.complaints.append(line.text) if _is_bad(line) else None)
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(f"{self.origin}/"):
            self.complaints.append(f"asked {url}")

    def go(self, place: str) -> Any:
        """Opens #/place and returns the page."""
        self.page.goto(f"{self.origin}/#/{place}")
        self.page.wait_for_selector("h1")
        return self.page

    def verdict(self, level: str) -> str:
        """The text of the verdict, once it has that level: good, warn or bad."""
        found = self.page.wait_for_selector(f".verdict.{level} .text")
        return str(found.inner_text())

    def rows(self, label: str) -> list[list[str]]:
        """The cells of a table's rows, those that are drawn."""
        rows = self.page.locator(f'[role=region][aria-label="{label}"] tbody tr:not(.gap)')
        return [[str(text) for text in row.locator("td").all_inner_texts()] for row in rows.all()]

    def row(self, label: str, text: str) -> list[str]:
        """The cells of the first row with that text, once it is there."""
        row = self.page.locator(f'[role=region][aria-label="{label}"] tbody tr', has_text=text).first
        row.wait_for()
        return [str(cell) for cell in row.locator("td").all_inner_texts()]

    def close(self) -> None:
        self.context.close()


def _is_bad(line: Any) -> bool:
    """What the browser itself says of an answer that is no success is no error of the page."""
    return line.type in {"error", "warning"} and not line.text.startswith("Failed to load resource")


class MemoryGateway:
    """The REST API over a cluster in memory, in a thread; `stop` ends it as a gateway that goes away."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._started.wait(HUNG_S)

    async def _serve(self) -> None:
        async with open_rest(["127.0.0.1"], 0, self.backend, SystemClock(), random.Random(1)) as address:
            self.address = address
            self._started.set()
            await self._stopped.wait()
        for _ in range(_LAST_TURNS):  # of connections that the browser has closed
            await asyncio.sleep(0)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(HUNG_S)
            self._loop.close()


def accessibility(page: Any) -> list[str]:
    """What axe finds wrong in a page, in its words."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]
