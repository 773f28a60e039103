"""Chunks of structured documents: their sizes, their names, what they hold."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.chunking import count_tokens, token_spans
from holodeck_action.extensions.knowledge.headings import Domain
from holodeck_action.extensions.knowledge.structure import ChunkRules, make_document
from tests.extensions.knowledge.knowledge.test_structure import DOMAINS, LINES

HANDBOOK = """Read this first.

# Handbook

## Part 1

### 4.2 Passwords

They are long.

### 4.2 Passwords

They are secret.

## Über uns: wir!

Text.
"""


def test_a_chunk_begins_with_its_headings_and_is_named_after_its_section() -> None:
    chunks = make_document("rules/handbook.md", HANDBOOK, ChunkRules()).chunks
    assert [(chunk.id, chunk.text) for chunk in chunks] == [
        ("rules/handbook.md#top", "Read this first."),
        ("rules/handbook.md#4.2", "Handbook > Part 1 > 4.2 Passwords\n\nThey are long."),
        ("rules/handbook.md#4.2-2", "Handbook > Part 1 > 4.2 Passwords\n\nThey are secret."),
        ("rules/handbook.md#über-uns-wir", "Handbook > Über uns: wir!\n\nText."),
    ]
    assert chunks[1].title == "Handbook > Part 1 > 4.2 Passwords"
    assert [chunk.numbers for chunk in chunks] == [(), ("4.2",), ("4.2",), ()]


def test_no_two_chunks_have_one_name() -> None:
    chunks = make_document("a.md", "# A\n\n1\n\n# A\n\n2\n\n# A 2\n\n3\n\n# A\n\n4", ChunkRules()).chunks
    assert [chunk.id for chunk in chunks] == ["a.md#a", "a.md#a-2", "a.md#a-2-2", "a.md#a-3"]


def test_a_long_section_has_several_chunks_that_overlap() -> None:
    body = "\n\n".join(f"Paragraph {number} says something about pumps." for number in range(40))
    chunks = make_document("a.md", f"# Pumps\n\n{body}", ChunkRules(most_tokens=100, overlap=20)).chunks
    assert [chunk.id for chunk in chunks[:3]] == ["a.md#pumps", "a.md#pumps~2", "a.md#pumps~3"]
    assert all(chunk.text.startswith("Pumps\n\n") for chunk in chunks)
    first, second = (chunk.text.removeprefix("Pumps\n\n") for chunk in chunks[:2])
    shared = next(size for size in range(len(first), 0, -1) if second.startswith(first[-size:]))
    assert count_tokens(first[-shared:]) == 20
    plain = make_document("a.md", f"# Pumps\n\n{body}", ChunkRules(most_tokens=100, overlap=0)).chunks
    assert sum(count_tokens(chunk.text) for chunk in plain) < sum(count_tokens(chunk.text) for chunk in chunks)


def test_a_heading_without_text_has_a_chunk_where_none_below_shows_it() -> None:
    assert [chunk.text for chunk in make_document("a.md", "# Only", ChunkRules()).chunks] == ["Only"]
    texts = [chunk.text for chunk in make_document("a.md", "# One\n\n# Two\n\ntext", ChunkRules()).chunks]
    assert texts == ["One", "Two\n\ntext"]


def test_outer_headings_give_way_where_they_would_fill_the_chunk() -> None:
    heading = "a heading of exactly ten words or perhaps eleven words"
    text = "\n\n".join(f"{'#' * level} {level} {heading}" for level in range(1, 7)) + "\n\ntext"
    chunks = make_document("a.md", text, ChunkRules(most_tokens=100)).chunks
    assert chunks[-1].text == f"… > 5 {heading} > 6 {heading}\n\ntext"
    # What is left out there has a chunk of its own.
    assert any(f"1 {heading}" in chunk.text for chunk in chunks)


def test_by_token_headings_do_not_divide() -> None:
    chunks = make_document("a.md", HANDBOOK, ChunkRules(strategy="token")).chunks
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("a.md#1", HANDBOOK.strip())]
    assert chunks[0].numbers == ("4.2", "4.2")
    assert [chunk.id for chunk in make_document("a.md", HANDBOOK * 20, ChunkRules("token", most_tokens=100)).chunks][
        1
    ] == "a.md#2"


def test_the_chunk_of_a_section() -> None:
    found = make_document("a.md", HANDBOOK, ChunkRules())
    first = found.chunk_of(next(n for n, section in enumerate(found.sections) if section.label == "Handbook"))
    assert first is not None
    # The heading has no text: its first subsection with text stands for it.
    assert first.id == "a.md#4.2"


@given(
    st.lists(LINES | st.text(max_size=200) | st.just("A word or two follow. " * 30), max_size=15).map("\n".join),
    st.sampled_from(DOMAINS),
    st.sampled_from(["structure", "token"]),
    st.sampled_from([100, 140, 800]),
    st.integers(0, 50),
)
def test_no_chunk_is_too_long_and_nothing_is_lost(
    text: str, domain: Domain, strategy: Literal["structure", "token"], most: int, overlap: int
) -> None:
    chunks = make_document("a.txt", text, ChunkRules(strategy, domain, most, overlap)).chunks
    assert all(count_tokens(chunk.text) <= most for chunk in chunks)
    assert all(chunk.text.strip() for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    held = "".join(character for chunk in chunks for character in chunk.text)
    for start, end in token_spans(text):
        token = text[start:end].strip("#=-*_")
        assert token in held


@pytest.mark.full
@pytest.mark.parametrize(
    "line", ["(a)", "(a)(a)(a)(a)(a)(a)(a)", "# a", "# # ", "a\n==", "1.1.1.1.1.1.1.1.1.1.1.1 A\n", '"a" means', "§ 1 "]
)
def test_hostile_documents_take_no_longer_than_others(line: str) -> None:
    # With work that grows with the square of the lines, this takes minutes.
    make_document("a.md", f"{line}\n" * 20_000, ChunkRules(domain="us_legislative"))
    make_document("a.md", line * 20_000, ChunkRules(domain="legal_contract"))
