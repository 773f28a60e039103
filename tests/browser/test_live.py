"""A person follows a run while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Reader
from tests.browser.test_reading import heading, until
from tests.commands.project import Project
from tests.extensions.view.test_view import SLOW, served

pytestmark = pytest.mark.browser


def test_a_page_follows_its_run(reader: Reader, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.numbered(4)
    project.write("slow.py", SLOW)
    project.policy(target="python:slow:answer")
    running = project.start("run", "-o", "out")
    try:
        with served(project) as site:
            journal = project.out / "journal.jsonl"
            project.wait_until(lambda: journal.is_file() and journal.read_bytes().count(b'{"case"') == 2)
            page = reader.open(f"http://{site.host}{site.runs()[0][0]}")
            page.wait_for_selector("text=Running: 2 of 4 cases")
            # The journal knows no names.
            page.click(".option:has-text('case-1')")
            until(page, heading, "case-1")
            page.fill("input[type=search]", "case")
            project.write("go", "")
            page.wait_for_selector(".badge:has-text('passed')", timeout=60_000)
            page.wait_for_selector("text=Running", state="detached", timeout=60_000)
            # What the reader did stays.
            until(page, heading, "case 1")
            assert page.input_value("input[type=search]") == "case"
            page.wait_for_selector(".chip:has-text('passed 4')")
        running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate(timeout=60)
