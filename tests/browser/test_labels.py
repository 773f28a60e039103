"""A person marks answers right or wrong; `calibrate` takes the file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.browser.conftest import Reader
from tests.browser.shop import page_of, run_of_shop
from tests.browser.test_reading import until
from tests.commands.project import Project

pytestmark = pytest.mark.browser


def test_labels_are_saved_and_calibrate_takes_them(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, run_of_shop()), "#case=case-0", accept_downloads=True)
    page.wait_for_selector(".turn")
    assert page.locator(".ask").count() == 0
    page.keyboard.press("l")
    page.wait_for_selector(".ask")
    page.keyboard.press("w")
    page.wait_for_selector('[aria-label="Wrong: the answer"][aria-pressed=true]')
    page.click('[aria-label="Right: tone"]')
    page.keyboard.press("j")
    page.wait_for_selector("text=Turn 2 of 2")
    page.keyboard.press("r")
    page.wait_for_selector('[aria-label="Right: the answer"][aria-pressed=true]')
    page.keyboard.press("w")
    page.locator(".turn").nth(1).locator('.ask [aria-label="Wrong: the answer"]').click()
    page.locator(".turn").nth(1).locator('.ask [aria-label="Wrong: the answer"]').click()
    until(page, lambda page: page.locator(".option .tag:text('labelled')").count(), 2)
    with page.expect_download() as download:
        page.click("text=labels.csv (4)")
    saved = download.value.path().read_bytes()
    assert list(csv.DictReader(io.StringIO(saved.decode(), newline=""))) == [
        {"case": "case-0", "turn": "0", "trial": "0", "metric": "", "label": "fail"},
        {"case": "case-0", "turn": "0", "trial": "0", "metric": "tone", "label": "pass"},
        {"case": "case-1", "turn": "0", "trial": "0", "metric": "", "label": "pass"},
        {"case": "case-1", "turn": "1", "trial": "0", "metric": "", "label": "fail"},
    ]
    # They outlast the visit, and only those who label see them.
    page.reload()
    page.wait_for_selector("text=labels.csv (4)")
    assert page.locator(".ask").count() == 0
    (tmp_path / "labels.csv").write_bytes(saved)
    for metric, judged in (("tone", 1), ("bleu", 3)):
        finished = Project(tmp_path).run("calibrate", "labels.csv", "--results", "run/results.json", "--metric", metric)
        assert finished.code == 0, finished.stderr
        assert f"{judged} labelled answers" in finished.stdout
