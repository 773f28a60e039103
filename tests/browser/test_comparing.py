"""A person reads what changed: two runs side by side, and the trend of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Reader
from tests.browser.shop import compared_page, run_of_shop
from tests.browser.test_reading import heading, shown, titles, until
from tests.commands.project import Project

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared_page(tmp_path_factory.mktemp("compared"), run_of_shop(better=True), run_of_shop())


def test_changes_come_first_and_both_answers_stand_side_by_side(reader: Reader, compared: Path) -> None:
    page = reader.open(compared, "#compare")
    assert page.locator(".changes .tag").all_inner_texts()[:2] == ["regressed", "improved"]
    assert titles(page)[:3] == ["refund", "gift card", "voucher"]
    assert "bleu" in page.locator(".cards h3").all_inner_texts()
    page.keyboard.press("j")
    until(page, heading, "refund")
    page.wait_for_selector(".sides")
    assert page.locator(".sides h5").all_inner_texts()[:2] == ["Base", "This run"]
    assert page.locator(".sides").first.locator("ins").all_inner_texts() != []
    scores = page.locator('[aria-label="Scores of both answers"] tbody tr').first.inner_text().split()
    assert scores[:4] == ["bleu", "0.95", "0.2", "−0.75"]
    page.keyboard.press("b")
    until(page, lambda page: page.locator(".sides h5").all_inner_texts()[:2], ["Expected", "Answer"])
    page.click("text=Beside the base")
    until(page, lambda page: page.locator(".sides h5").all_inner_texts()[:2], ["Base", "This run"])


def test_each_case_is_a_line_from_its_score_before_to_that_now(reader: Reader, compared: Path) -> None:
    page = reader.open(compared, "#compare")
    page.wait_for_selector(".paired .bad")
    lines = page.locator('.paired[role="group"], .paired svg').first.locator(".case")
    said = [line.get_attribute("aria-label") for line in lines.all()]
    assert "refund: 0.95 → 0.2" in said
    assert {line.get_attribute("tabindex") for line in page.locator(".paired .calm").all()} == {"-1"}
    page.wait_for_selector(".answers ins")
    assert page.locator(".answers article button").all_inner_texts()[:2] == ["refund", "gift card"]
    page.locator('.paired .case[aria-label^="refund"]').first.focus()
    page.keyboard.press("Enter")
    until(page, heading, "refund")


def test_changes_can_be_filtered(reader: Reader, compared: Path) -> None:
    page = reader.open(compared)
    page.get_by_label("Change", exact=True).select_option("improved (1)")
    until(page, titles, ["gift card"])
    page.keyboard.press("4")
    page.get_by_label("Change", exact=True).select_option("Any change")
    page.click(".changes button:has-text('new')")
    until(page, titles, ["voucher"])
    until(page, shown, 1)


def test_the_trend_of_a_history(reader: Reader, tmp_path: Path) -> None:
    project = Project(tmp_path)
    for commit, wrong in (("a", ()), ("b", (1,)), ("c", (0, 1, 2))):
        project.write(".git/HEAD", f"{commit * 40}\n")
        project.numbered(12, frozenset(wrong))
        assert project.run_process("run", "-o", "out", "--history", "past").code == (1 if wrong else 0)
    assert project.run("report", "out/results.json", "--format", "html", "-o", "page.html").code == 0
    page = reader.open(tmp_path / "page.html", "#trend")
    assert page.locator(".trend svg").first.get_attribute("aria-label") == ("Pass rate: 3 runs, from 100 % to 75 %")
    page.click("summary:has-text('as a table')")
    assert [row.split("\t")[1] for row in page.locator("table tbody tr").all_inner_texts()] == [
        "100 %",
        "91.7 %",
        "75 %",
    ]
