"""The pages of docs/conformance/ are as they are built, and the marks `claims` cover every heading of each document."""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.build_conformance import PAGES, build_page, claims, documents
from tests.tables import walk

pytestmark = pytest.mark.needs()

DOCUMENTS = documents()
ROWS = 1500
"""As many rows as there are at least."""


def test_there_is_a_page_for_each_document_and_no_other() -> None:
    assert sorted(page.stem for page in PAGES.iterdir()) == sorted(DOCUMENTS)


@walk("name", DOCUMENTS)
def test_a_page_is_as_it_is_built(name: str) -> None:
    assert (PAGES / f"{name}.md").read_text(encoding="utf-8") == build_page(name), "run make conformance"


@walk("name", DOCUMENTS)
def test_every_heading_has_a_claim(name: str) -> None:
    assert [*DOCUMENTS[name].headings] == [*dict.fromkeys(DOCUMENTS[name].headings)]
    assert {*DOCUMENTS[name].headings} - {claim.heading for claim in claims() if claim.document == name} == set()


def test_claims_are_of_known_headings_and_once_on_a_page() -> None:
    known = {(name, heading) for name, document in DOCUMENTS.items() for heading in document.headings}
    assert {(claim.document, claim.heading) for claim in claims()} - known == set()
    assert [row for row, times in Counter(claim[:3] for claim in claims()).items() if times > 1] == []


def test_there_are_as_many_claims_as_promised() -> None:
    assert len(claims()) >= ROWS
