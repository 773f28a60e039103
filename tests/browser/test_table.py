"""The table of cases: sorted, chosen and read as a person does, with ten thousand rows too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.records import random_record
from tests.browser.conftest import PHONE, WIDE, Reader
from tests.browser.shop import compared_page, page_of, run_of_shop
from tests.browser.test_looks import violations
from tests.browser.test_reading import heading, shown, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
CASES = 10_000


def heads(page: Page) -> list[str]:
    return [str(text) for text in page.locator(".heads [role=columnheader]").all_inner_texts()]


def cells(page: Page, column: int) -> list[str]:
    """The texts of a column, from top to bottom."""
    found: list[str] = page.evaluate(
        """(column) => [...document.querySelectorAll(".grid .row")]
            .sort((one, other) => one.ariaRowIndex - other.ariaRowIndex)
            .map((row) => row.children[column].innerText)""",
        column,
    )
    return found


def test_a_case_is_a_row_with_question_answers_and_scores(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(compared_page(tmp_path, run_of_shop(better=True), run_of_shop()))
    page.keyboard.press("g")
    page.wait_for_selector(".grid .row")
    names = heads(page)
    assert names[:3] == ["Case", "Input", "Expected"]
    assert {"Answer", "Why not passed"} <= set(names)
    assert any(name.startswith("Answer on ") for name in names)
    until(page, lambda found: "…" in cells(found, 1), False)
    rows = len(cells(page, 0))
    # A click on a head sorts, a second one the other way round.
    page.get_by_role("columnheader", name="Case").get_by_role("button").click()
    page.wait_for_selector("[aria-sort=ascending]")
    up = cells(page, 0)
    assert [text.casefold() for text in up] == sorted(text.casefold() for text in up)
    page.get_by_role("columnheader", name="Case").get_by_role("button").click()
    assert page.locator("[aria-sort=descending]").inner_text().startswith("Case")
    down = cells(page, 0)
    assert [text.casefold() for text in down] == sorted((text.casefold() for text in down), reverse=True)
    # Columns are chosen.
    page.locator(".choice summary").click()
    page.get_by_label("Input", exact=True).uncheck()
    page.get_by_label("Why not passed", exact=True).uncheck()
    assert not {"Input", "Why not passed"} & set(heads(page))
    # A row opens the case, and Escape leads back to the table.
    page.locator(".row .open").first.click()
    until(page, heading, down[0].splitlines()[0])
    page.keyboard.press("Escape")
    page.wait_for_selector(".grid .row")
    assert len(cells(page, 0)) == rows
    page.keyboard.press("g")
    page.wait_for_selector(".list")


def test_columns_are_widened_and_texts_shown_in_full(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, run_of_shop()))
    page.keyboard.press("g")
    page.wait_for_selector(".grid .row")
    head = page.get_by_role("columnheader", name="Input")
    before = head.bounding_box()
    assert before is not None
    handle = page.get_by_role("separator", name="Width of Input")
    for _ in range(3):
        handle.press("ArrowRight")
    until(page, lambda _: round((head.bounding_box() or before)["width"] - before["width"]), 60)
    box = handle.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + 44, box["y"] + 4, steps=4)
    page.mouse.up()
    until(page, lambda _: round((head.bounding_box() or before)["width"] - before["width"]), 100)
    row = page.locator(".grid .row").first
    low = row.bounding_box()
    assert low is not None
    page.get_by_role("button", name="Full texts").click()
    until(page, lambda _: (row.bounding_box() or low)["height"] > 2 * low["height"], True)
    until(page, lambda found: "…" in cells(found, 1), False)
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_table(reader: Reader, tmp_path: Path, scheme: str) -> None:
    place = page_of(tmp_path, run_of_shop())
    for size in (WIDE, PHONE):
        page = reader.open(place, color_scheme=scheme, bypass_csp=True, viewport=size)
        page.keyboard.press("g")
        page.wait_for_selector(".grid .row")
        assert violations(page) == []


def test_ten_thousand_rows_are_drawn_as_they_are_scrolled(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, random_record(CASES)))
    page.keyboard.press("g")
    until(page, shown, CASES)
    assert page.locator(".grid .row").count() < 60
    page.locator(".grid").evaluate("(grid) => { grid.scrollTop = grid.scrollHeight }")
    last = page.locator(f".row[aria-rowindex='{CASES + 1}']")
    last.wait_for()
    until(page, lambda _: "…" in last.inner_text().splitlines(), False)
    assert page.locator(".grid .row").count() < 60
    page.get_by_role("columnheader", name="Time").get_by_role("button").click()
    page.keyboard.press("/")
    page.keyboard.type("rule 7777.")
    until(page, shown, 1)
    assert page.locator(".row .open").inner_text().strip() == "case 7777"
