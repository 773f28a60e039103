"""A browser that reads pages as a person does, and tells what they tried to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.render_comment_picture import BROWSER_OPTIONS
from scripts.render_comment_picture import find_browser as program

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program(os.environ), args=list(BROWSER_OPTIONS))
        yield started
        started.close()


@dataclass
class Reader:
    """Opens pages; at the end, none of them may have asked for anything or complained."""

    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def open(self, place: Path | str, hash: str = "", ready: str = ".app", **options: Any) -> Page:
        """Open a file or an address in a profile of its own, and wait until the cases (or `ready`) are there."""
        context = self.browser.new_context(**{"viewport": WIDE, **options})
        context.set_default_timeout(15_000)
        context.add_init_script("window.__owned = 0")
        self.contexts.append(context)
        page = context.new_page()
        address = place if isinstance(place, str) else place.as_uri()
        page.on("dialog", lambda dialog: self._note(f"dialog {dialog.message}", dialog.dismiss))
        page.on("popup", lambda other: self.events.append(f"popup {other.url}"))
        page.on("pageerror", lambda error: self.events.append(f"error {error}"))
        page.on("console", lambda message: self.events.append(f"console {message.type} {message.text}"))
        page.on("request", lambda request: self._requested(request.url, address))
        page.goto(address + hash)
        page.wait_for_selector(ready)
        return page

    def _note(self, event: str, then: Any) -> None:
        self.events.append(event)
        then()

    def _requested(self, url: str, address: str) -> None:
        allowed = url.partition("#")[0] == address or url.startswith("blob:")
        if not allowed and not (address.startswith("http://127.0.0.1:") and url.startswith(address.rpartition("/")[0])):
            self.events.append(f"request {url}")


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    made = Reader(browser)
    yield made
    for context in made.contexts:
        for page in context.pages:
            assert page.evaluate("window.__owned") == 0
        context.close()
    assert made.events == []
