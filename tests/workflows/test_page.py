"""The page of GitHub quotes what the program says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.workflows.files import ROOT

PAGE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `(.*?)` \| ", PAGE.partition("## When something is missing")[2], re.MULTILINE)
GAP = "\0"
FILLED_IN = ("pull-requests: write", "checks: write", r"results\.json")


def _texts() -> Iterator[str]:
    """Texts of the program; what is filled in at run time is a gap."""
    for file in (ROOT / "holodeck_action").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)  # type: ignore[misc]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


SAID = [text.replace("`", "") for text in _texts()]


def test_the_table_has_rows() -> None:
    assert len(QUOTED) > 15


@pytest.mark.parametrize("sentence", QUOTED)
def test_a_sentence_of_the_table_is_one_of_the_program(sentence: str) -> None:
    said = {sentence, *(re.sub(name, GAP, sentence) for name in FILLED_IN)}
    assert any(part in text for part in said for text in SAID), sentence
