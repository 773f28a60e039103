"""A person marks answers right or wrong; `calibrate` takes the file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.browser.conftest import Reader
from tests.browser.shop import page_of, run_of_shop
from tests.browser.test_looks import violations
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
    # They outlast the visit, also as earlier versions stored them, and only those who label see them.
    page.evaluate(
        """() => {
            const [key] = Object.keys(localStorage).filter((name) => name.startsWith("holodeck-action labels"));
            const stored = JSON.parse(localStorage.getItem(key)).map(([place, { label }]) => [place, label]);
            localStorage.setItem(key, JSON.stringify(stored));
        }"""
    )
    page.reload()
    page.wait_for_selector("text=labels.csv (4)")
    assert page.locator(".ask").count() == 0
    with page.expect_download() as download:
        page.click("text=labels.csv (4)")
    assert download.value.path().read_bytes() == saved
    (tmp_path / "labels.csv").write_bytes(saved)
    for metric, judged in (("tone", 1), ("bleu", 3)):
        finished = Project(tmp_path).run("calibrate", "labels.csv", "--results", "run/results.json", "--metric", metric)
        assert finished.code == 0, finished.stderr
        assert f"{judged} labelled answers" in finished.stdout


COMMENT = '=HYPERLINK("https://evil.example")\n<img src=x onerror=window.__owned=1>'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_label_carries_who_gave_it_and_why(reader: Reader, tmp_path: Path, scheme: str) -> None:
    place = page_of(tmp_path, run_of_shop())
    page = reader.open(place, "#case=case-0", accept_downloads=True, color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector(".turn")
    page.keyboard.press("l")
    page.get_by_label("Your name, as annotator of the labels").fill("Ann, B.")
    page.click('[aria-label="Wrong: tone"]')
    page.get_by_label("Note on tone").fill(COMMENT)
    # A note needs no label, and keys that are typed into it do nothing else.
    page.get_by_label("Note on the answer").press_sequentially("ask wrljk again")
    until(page, lambda page: page.locator(".option .tag:text('labelled')").count(), 1)
    assert violations(page) == []
    with page.expect_download() as download:
        page.click("text=labels.csv (2)")
    saved = download.value.path()
    who = {"case": "case-0", "turn": "0", "trial": "0", "annotator": "Ann, B."}
    assert list(csv.DictReader(io.StringIO(saved.read_bytes().decode(), newline=""))) == [
        {**who, "metric": "tone", "label": "fail", "comment": f"'{COMMENT}"},
        {**who, "metric": "", "label": "", "comment": "ask wrljk again"},
    ]
    (tmp_path / "labels.csv").write_bytes(saved.read_bytes())
    flags = ("--results", "run/results.json", "--metric", "tone")
    finished = Project(tmp_path).run("calibrate", "labels.csv", *flags)
    assert finished.code == 0, finished.stderr
    assert "note: labels.csv: 1 row has a comment and no label, so nothing to compare" in finished.stderr
    assert 'line 2: comment: Ann, B.: =HYPERLINK("https://evil.example")' in finished.stdout
    # Another reader opens the file, and what they do not touch stays Ann's.
    other = reader.open(place, "#case=case-0", accept_downloads=True)
    other.wait_for_selector(".turn")
    other.keyboard.press("l")
    other.get_by_label("Your name, as annotator of the labels").fill("Ben")
    with other.expect_file_chooser() as chooser:
        other.click("[aria-label='Open a saved labels.csv']")
    chooser.value.set_files(tmp_path / "labels.csv")
    other.wait_for_selector("text=2 of 2 rows opened")
    assert other.get_by_label("Note on tone").input_value() == COMMENT
    other.keyboard.press("w")
    with other.expect_download() as download:
        other.click("text=labels.csv (2)")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_bytes().decode(), newline="")))
    assert [(row["metric"], row["label"], row["annotator"]) for row in rows] == [
        ("tone", "fail", "Ann, B."),
        ("", "fail", "Ben"),
    ]
    other.reload()
    other.wait_for_selector(".turn")
    other.keyboard.press("l")
    assert other.get_by_label("Your name, as annotator of the labels").input_value() == "Ben"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "case,turn,trial,metric,label\ncase-0,0,0,,pass\ncase-99,0,0,,pass\ncase-1,0,0,,0.7\n",
            "1 of 3 rows opened; the",
        ),
        ("input,response,label\nq,a,pass\n", "This file is not opened: this page does not keep its column input"),
        ("text\n", "This file is not opened: this page does not keep its column text"),
        ('case,label\n"a"b,pass\n', "This file is not opened: it has no columns case and label"),
    ],
)
def test_a_file_that_the_page_did_not_save_is_told_in_a_sentence(
    reader: Reader, tmp_path: Path, content: str, sentence: str
) -> None:
    (tmp_path / "labels.csv").write_text(content, encoding="utf-8")
    page = reader.open(page_of(tmp_path, run_of_shop()))
    page.wait_for_selector(".option")
    page.keyboard.press("l")
    with page.expect_file_chooser() as chooser:
        page.click("[aria-label='Open a saved labels.csv']")
    chooser.value.set_files(tmp_path / "labels.csv")
    page.wait_for_selector(f".toast:has-text('{sentence}')")
