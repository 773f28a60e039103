"""BM25 against a plain implementation of its formula, exact search, and section numbers in queries."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.ranking import Bm25, ExactSearch, NumberedText, numbers_in, split_terms

TEXTS = [
    "The pump starts at 40 degrees. The pump stops at 20 degrees.",
    "Valves are checked every month.",
    "A pump needs oil, a valve needs grease, and a pump house needs a key.",
    "",
    "Section 4.2 is about keys. Keys open doors.",
]


def plain_bm25(texts: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Robertson and Zaragoza 2009, formula 3.15, with Lucene's idf; written from the formula, term by term."""
    split = [re.findall(r"\d+(?:[.\-–]\d+)+|\w+", text.casefold()) for text in texts]
    average = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        score = 0.0
        for term in re.findall(r"\d+(?:[.\-–]\d+)+|\w+", query.casefold()):
            having = sum(term in other for other in split)
            idf = math.log(1 + (len(split) - having + 0.5) / (having + 0.5))
            frequency = words.count(term)
            if frequency:
                score += idf * frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * len(words) / average))
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["pump", "the pump", "pump pump oil", "valve 4.2 keys", "absent", "Keys!"])
def test_bm25_is_the_formula(query: str) -> None:
    found = Bm25(TEXTS).scores(query)
    expected = plain_bm25(TEXTS, query)
    assert found == {place: pytest.approx(score) for place, score in enumerate(expected) if score}


WORDS = st.lists(st.sampled_from(["pump", "valve", "oil", "the", "4.2", "key"]), max_size=12).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=8).filter(any), WORDS)
def test_bm25_is_the_formula_on_any_texts(texts: list[str], query: str) -> None:
    index = Bm25(texts)
    found = index.scores(query)
    expected = plain_bm25(texts, query)
    assert [found.get(place, 0.0) for place in range(len(texts))] == pytest.approx(expected)
    assert all(0.0 < score < index.upper_bound(query) for score in found.values())


def test_no_texts() -> None:
    assert Bm25([]).scores("pump") == {}
    assert Bm25(["", ""]).scores("pump") == {}


def test_words() -> None:
    assert split_terms("Straße 4.2(a), 10-12 e-mail don't") == ["strasse", "4.2", "a", "10-12", "e", "mail", "don", "t"]


EXACT = ExactSearch(
    [
        NumberedText("Rules > 4.2 Passwords\n\nKeep the pass word secret.", ("4.2",)),
        NumberedText("Rules > 4.2 > (a)\n\nPasswords are changed every 90 days.", ("4.2(a)",)),
        NumberedText("Rules > 4.20 Doors\n\nDoors are locked; keep the password.", ("4.20",)),
        NumberedText("Nothing here."),
    ]
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("section 4.2", {0: 1.0, 1: 0.5}),
        ("What does § 4.2(a) say?", {1: 1.0}),
        ("4.20", {2: 1.0}),
        ("section 4", {0: 0.5, 1: 0.5, 2: 0.5}),
        ('who wrote "every 90 days"', {1: 1.0}),
        ("“keep the password”", {2: 1.0}),
        ('"locked; keep" in section 4.2', {2: 1.0, 0: 1.0, 1: 0.5}),
        ("passwords are changed", {1: 1.0}),
        ("passwords", {}),
        ("word secret keep", {}),
        ('""', {}),
    ],
)
def test_exact_search(query: str, expected: dict[int, float]) -> None:
    assert EXACT.scores(query) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sections 7 and clause 8.1.2", ("7", "8.1.2")),
        ("§§ 1.2(a)(1)", ("1.2(a)(1)",)),
        ("Article IV", ("iv",)),
        ("costs $4.20, 3.5% of it", ()),
        ("version 1.2.3", ("1.2.3",)),
        ("12 monkeys", ()),
    ],
)
def test_numbers_in_a_query(text: str, expected: tuple[str, ...]) -> None:
    assert numbers_in(text) == expected
