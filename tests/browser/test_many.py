"""Ten thousand cases: the list is drawn as it is scrolled, and filters answer at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.records import random_record
from tests.browser.conftest import Reader
from tests.browser.shop import page_of
from tests.browser.test_reading import heading, shown, until

pytestmark = pytest.mark.browser
CASES = 10_000


def test_a_long_list_is_drawn_as_it_is_scrolled(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, random_record(CASES)))
    until(page, shown, CASES)
    assert page.locator(".option").count() < 60
    page.keyboard.press("/")
    page.keyboard.type("rule 7777.")
    until(page, shown, 1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    until(page, heading, "case 7777")
    page.fill("input[type=search]", "")
    until(page, shown, CASES)
    # The open case is in sight again, and the end is reached.
    page.wait_for_selector(".option[aria-selected=true]")
    page.locator(".list").focus()
    page.keyboard.press("End")
    last = page.locator(".option[aria-selected=true]")
    until(page, lambda _: last.get_attribute("aria-posinset"), str(CASES))
    assert last.is_visible()
    assert page.locator(".option").count() < 60
