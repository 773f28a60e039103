"""docs/dependencies.md: each package of the card is in the installation that the page names, and a test needs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.tables import walk

ROOT = Path(__file__).parents[2]
CARD = (
    *("pydantic", "pyyaml", "click", "jinja2", "sacrebleu", "rouge-score", "nltk", "deepeval"),
    *("azure-ai-evaluation", "pygithub"),
)
_ROW = re.compile(r"\| ([a-z0-9-]+) \| [^|]+ \| (the program|extra `(\w+)`) \| `(tests/[\w/]+\.py)` \|")


def rows() -> dict[str, tuple[str, str]]:
    """Return the extra of each package, empty for the program itself, and the file of tests that need it."""
    lines = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").splitlines()
    return {row[1]: (row[3] or "", row[4]) for row in map(_ROW.fullmatch, lines) if row}


def test_the_page_has_a_row_for_each_package_of_the_card() -> None:
    assert tuple(rows()) == CARD


@pytest.mark.needs
@walk("package", CARD)
def test_a_package_is_in_the_installation_that_the_page_names(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra, tests = rows()[package]
    listed = {"": project["dependencies"], **project["optional-dependencies"]}
    names = {name: [re.split(r"[\[><=~!; ]", need)[0] for need in needs] for name, needs in listed.items()}
    assert [name for name, needs in names.items() if package in needs] == [extra]
    assert (ROOT / tests).is_file()
