"""The page of GitHub quotes what the program says."""

from __future__ import annotations

import re

import pytest

from tests.docs.texts import GAP, texts_of_the_program
from tests.workflows.files import ROOT

PAGE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `(.*?)` \| ", PAGE.partition("## When something is missing")[2], re.MULTILINE)
FILLED_IN = (
    "pull-requests: write",
    "checks: write",
    "issues: write",
    "actions: read",
    "contents: read",
    r"results\.json",
)


def test_the_table_has_rows() -> None:
    assert len(QUOTED) > 15


@pytest.mark.full
@pytest.mark.parametrize("sentence", QUOTED)
def test_a_sentence_of_the_table_is_one_of_the_program(sentence: str) -> None:
    said = {sentence, *(re.sub(name, GAP, sentence) for name in FILLED_IN)}
    texts = [text.replace("`", "") for text in texts_of_the_program()]
    assert any(part in text for part in said for text in texts), sentence
