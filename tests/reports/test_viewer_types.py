"""The viewer's script reads what the report writes: the fields stand in TypeScript and in Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holodeck_action.reports.page import viewer_data

SOURCE = (Path(__file__).parents[2] / "viewer" / "src" / "data.ts").read_text(encoding="utf-8")
IN_PYTHON = {"PastRun": "Past", "RunFacts": "Run", "ToolCall": "Tool", "Evaluation": "Evaluated"}
INTERFACES = dict(re.findall(r"export interface (\w+) \{(.*?)\}(?=\n\n|\n?$)", SOURCE, re.DOTALL))


@pytest.mark.parametrize("name", INTERFACES)
def test_fields_are_those_of_the_report(name: str) -> None:
    text = re.sub(r"\{[^{}]*\}", "", re.sub(r"/\*.*?\*/", "", INTERFACES[name], flags=re.DOTALL))
    fields = re.findall(r"(?:^|;|\n)\s*(\w+):", text)
    assert fields
    assert sorted(fields) == sorted(getattr(viewer_data, IN_PYTHON.get(name, name)).__annotations__)


def test_every_interface_is_found() -> None:
    assert len(INTERFACES) == SOURCE.count("export interface ") > 10
