"""A page of two suites with cases of the same name, and a page that leaves details out."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from bench.records import random_record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import PageView, render_page
from tests.browser.conftest import Reader
from tests.browser.test_reading import heading, shown, titles, until
from tests.commands.project import Project

pytestmark = pytest.mark.browser


def test_two_suites_in_one_page(reader: Reader, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        project = Project(tmp_path / name)
        cases = [{"name": case, "input": "q", "ground_truth": case} for case in ("same", f"only {name}")]
        project.suite(cases, name=f"suite {name}")
        project.answers([{"case": "same", "response": "same"}, {"case": f"only {name}", "response": "x"}])
        project.policy(target="recorded:answers.jsonl")
    assert Project(tmp_path).run_process("run", "a/agent.yaml", "b/agent.yaml", "-o", "out").code == 1
    page = reader.open(tmp_path / "out" / "report.html", accept_downloads=True)
    names = [name.split() for name in page.locator(".overview h3").all_inner_texts()]
    assert names[:2] == [["suite", "a", "a"], ["suite", "b", "b"]]
    page.get_by_label("Suite").select_option("suite b")
    until(page, titles, ["only b", "same"])
    page.click(".option:has-text('same')")
    until(page, lambda page: page.url.partition("#")[2], "case=same&suite=1")
    other = reader.open(tmp_path / "out" / "report.html", "#case=same&suite=1", accept_downloads=True)
    until(other, heading, "same")
    assert "b/agent.yaml" in other.inner_text(".facts-line")
    other.keyboard.press("l")
    other.wait_for_selector(".ask")
    other.keyboard.press("r")
    with other.expect_download() as download:
        other.click("text=labels.csv (1)")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"))))
    assert rows == [{"suite": "suite b", "case": "same", "turn": "0", "trial": "0", "metric": "", "label": "pass"}]


def test_a_page_says_what_it_leaves_out_and_how_to_get_it(reader: Reader, tmp_path: Path) -> None:
    view = PageView([conclude(random_record(500))], 0, results="out/results.json")
    small = tmp_path / "small.html"
    # A page of the size at which the command leaves something out takes minutes to make.
    small.write_bytes(b"".join(render_page(view, most_details=10_000)))
    page = reader.open(small)
    assert shown(page) == 500
    assert "not in this page" in page.inner_text(".overview")
    page.locator(".list").focus()
    page.keyboard.press("End")
    page.wait_for_selector("text=This page leaves out the details of this case")
    assert "report out/results.json --format html --case" in page.inner_text(".case")
