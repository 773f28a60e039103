"""The pages of docs/conformance/ are as they are built, and the tables have enough rows, each once."""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.build_conformance import PAGES, PARTS, ROOT, build_page, claims, documents
from tests.tables import walk

pytestmark = pytest.mark.needs()

ROWS = 1500
"""As many rows as there are at least."""


def test_there_is_a_page_for_each_document_and_no_other() -> None:
    assert sorted(page.stem for page in PAGES.iterdir()) == sorted(documents())


@walk("name", documents())
def test_a_page_is_as_it_is_built(name: str) -> None:
    assert (PAGES / f"{name}.md").read_text(encoding="utf-8") == build_page(name), "run make conformance"


def test_claims_are_complete_and_once_on_a_page() -> None:
    assert [row for row, times in Counter(claim[:3] for claim in claims()).items() if times > 1] == []
    assert [
        claim for claim in claims() if claim.part not in PARTS or (claim.part == "works") == bool(claim.reason)
    ] == []
    assert all(document.rows and all(document.rows.values()) for document in documents().values())
    assert len(claims()) >= ROWS


def test_the_tests_that_rows_name_exist() -> None:
    named = {claim.test.partition("::")[::2] for claim in claims() if claim.test}
    files = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file, _ in named}
    assert [(file, test) for file, test in named if f"def {test}(" not in files[file]] == []
