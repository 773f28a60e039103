"""A person reads several runs in the columns of one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from bench.records import random_record
from holodeck_action.record.record import Record
from tests.browser.conftest import PHONE, WIDE, Reader
from tests.browser.shop import run_of_shop, written
from tests.browser.test_looks import violations
from tests.browser.test_reading import heading, shown, until
from tests.browser.test_table import cells, heads
from tests.commands.project import Project
from tests.extensions.view.test_view import served
from tests.record.records import case, record

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
CASES = 10_000


def runs_of_shop() -> dict[str, Record]:
    """A run, a better one with a case less, and one whose last case answers with other words."""
    same = run_of_shop()
    *cases, last = same.cases
    (trial,) = last.trials
    (turn,) = trial.turns
    said = replace(last, trials=(replace(trial, turns=(replace(turn, response="Other <b>words</b>."),)),))
    return {"new": same, "better": run_of_shop(better=True), "other": replace(same, cases=(*cases, said))}


def page_of_runs(folder: Path, runs: dict[str, Record]) -> Path:
    for name, made in runs.items():
        written(folder, name, made)
    finished = Project(folder).run("report", *runs, "--format", "html", "-o", "runs.html")
    assert (finished.code, finished.stderr) == (0, "")
    return folder / "runs.html"


def column(page: Page, start: str) -> list[str]:
    (at,) = (at for at, name in enumerate(heads(page)) if name.startswith(start))
    return cells(page, at)


def test_compare_says_which_run_leads_over_the_cases_that_it_decided(reader: Reader, tmp_path: Path) -> None:
    runs = {
        name: record(*(case("P" if number < passed else "F") for number in range(count)))
        for name, passed, count in (("weak", 4, 20), ("strong", 20, 20), ("close", 19, 20), ("dropped", 3, 3))
    }
    place = page_of_runs(tmp_path, runs)
    page = reader.open(place, "#compare", bypass_csp=True)
    said = page.inner_text(".overview header p")
    assert said == "strong passes most cases; beyond chance it is not better than dropped, close."
    cards = {card.locator("h3").inner_text(): card.inner_text() for card in page.locator(".card").all()}
    assert list(cards) == ["strong", "dropped", "close", "weak"]
    assert "100 % of 20 cases passed, 95 %: 83.9 % to 100 %" in cards["strong"]
    assert "Of 20 cases that strong decided too, 0 better and 16 worse: worse beyond chance" in cards["weak"]
    assert cards["close"].endswith("Of 20 cases that strong decided too, 0 better and 1 worse")
    assert cards["dropped"].endswith("Of 3 cases that strong decided too, 0 better and 0 worse")
    for size in (WIDE, PHONE):
        assert violations(reader.open(place, "#compare", bypass_csp=True, viewport=size)) == []


def test_a_run_is_a_column_and_differences_come_first(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of_runs(tmp_path, runs_of_shop()))
    page.wait_for_selector(".grid .row")
    until(page, lambda found: "…" in "".join(column(found, "new")), False)
    assert [name.split(" ")[0] for name in heads(page)[4:7]] == ["new", "better", "other"]
    assert cells(page, 0)[:3] == ["refund", "gift card", "voucher"]
    assert column(page, "Differs")[:4] == ["worse than better", "better than better", "not in every run", "–"]
    assert column(page, "better")[2] == "This run does not have the case."
    assert column(page, "other")[2].strip() == "Other <b>words</b>."
    assert [label.get_attribute("aria-label") for label in page.locator(".row[aria-rowindex='2'] .run svg").all()] == [
        "failed", "passed", "failed",
    ]  # fmt: skip
    # A click on a run's head brings its problems first, and an order of the list brings the differences back.
    page.get_by_role("columnheader", name="better").get_by_role("button").click()
    page.wait_for_selector("[aria-sort=ascending]")
    assert cells(page, 0)[0] == "two turns"
    page.get_by_label("Order").select_option("differences")
    until(page, lambda found: cells(found, 0)[0], "refund")
    # The case shows one of them beside the run.
    page.locator(".row .open").first.click()
    until(page, heading, "refund")
    page.keyboard.press("b")
    until(page, lambda found: found.locator(".sides h5").all_inner_texts()[:2], ["better", "This run"])
    page.keyboard.press("b")
    page.wait_for_selector("[aria-pressed=true]:has-text('Beside other')")
    page.keyboard.press("b")
    until(page, lambda found: found.locator(".sides h5").all_inner_texts()[:2], ["Expected", "Answer"])
    # The words of other runs are found, too.
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("other <b>words")
    until(page, shown, 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_columns(reader: Reader, tmp_path: Path, scheme: str) -> None:
    place = page_of_runs(tmp_path, runs_of_shop())
    for size in (WIDE, PHONE):
        page = reader.open(place, color_scheme=scheme, bypass_csp=True, viewport=size)
        page.wait_for_selector(".grid .row")
        assert violations(page) == []
        page.locator(".row .open").first.click()
        page.wait_for_selector(".turn")
        page.keyboard.press("b")
        assert violations(page) == []


def test_runs_are_chosen_in_the_list_of_view(reader: Reader, tmp_path: Path) -> None:
    for name, made in runs_of_shop().items():
        written(tmp_path, name, made)
    project = Project(tmp_path)
    with served(project, "new/results.json", "better/results.json", "other/results.json") as site:
        page = reader.open(site.address, ready="form")
        page.get_by_label("Choose better/results.json").uncheck()
        page.get_by_role("button", name="side by side").click()
        page.wait_for_selector(".grid .row")
        assert sorted(name.split(" ")[0] for name in heads(page)[4:6]) == ["new", "other"]


def test_ten_thousand_rows_of_three_runs(reader: Reader, tmp_path: Path) -> None:
    made = random_record(CASES)
    hostile = "<img src=x onerror=window.__owned=1>"
    page = reader.open(page_of_runs(tmp_path, dict.fromkeys(("a", "b", hostile), made)))
    until(page, shown, CASES)
    assert any(name.startswith(hostile) for name in heads(page))
    assert page.locator(".grid .row").count() < 60
