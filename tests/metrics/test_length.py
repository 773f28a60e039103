"""The length metric against an independent statement of its rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.length import LengthMetric, count_sentences, count_words
from tests.tables import walk

MARKS = ".!?…"
CLOSERS = "\"'”’»)]"


def sentences_by_hand(text: str) -> int:
    """Walk the text once: collect parts, end one at a mark before white space, a full-width mark, a blank line."""
    parts, part, at = [], "", 0
    while at < len(text):
        character = text[at]
        if character in MARKS and not (at and text[at - 1] in MARKS):
            end = at
            while end < len(text) and text[end] in MARKS:
                end += 1
            while end < len(text) and text[end] in CLOSERS:
                end += 1
            if end == len(text) or text[end].isspace():
                parts.append(part)
                part, at = "", end
                continue
        if character in "。！？":
            parts.append(part)
            part, at = "", at + 1
            continue
        if character == "\n":
            end = at
            while end < len(text) and text[end].isspace():
                end += 1
            if "\n" in text[at + 1 : end]:
                parts.append(part)
                part, at = "", end
                continue
        part += character
        at += 1
    return sum(any(character.isalnum() for character in part) for part in [*parts, part])


@given(st.text(alphabet="ab3 .!?…\n\t\"')。！-é", max_size=40))
def test_sentences(text: str) -> None:
    assert count_sentences(text) == sentences_by_hand(text)


@given(st.text(max_size=60))
def test_words_are_pieces_with_a_letter_or_digit(text: str) -> None:
    words, word = 0, False
    for character in [*text, " "]:
        if character.isspace():
            words += word
            word = False
        else:
            word = word or character.isalnum()
    assert count_words(text) == words


@walk(
    ("text", "words", "sentences"),
    [
        ("", 0, 0),
        ("...", 0, 0),
        ("One", 1, 1),
        ("It costs 3.14 dollars. Really?! Yes…", 6, 3),
        ('He said "no." Then he left.', 6, 2),
        ("A heading\n\nAnd a paragraph", 5, 2),
        ("one line\nanother line", 4, 1),
        ("今日は。元気？", 1, 2),
        ("well-known – don't", 2, 1),
    ],
)
def test_counts(text: str, words: int, sentences: int) -> None:
    assert (count_words(text), count_sentences(text)) == (words, sentences)


bounds = st.tuples(st.one_of(st.none(), st.integers(0, 12)), st.one_of(st.none(), st.integers(1, 12)))


@given(st.text(alphabet="ab .", max_size=30), bounds, bounds)
def test_score_is_the_worst_ratio(
    text: str, words: tuple[int | None, int | None], characters: tuple[int | None, int | None]
) -> None:
    settings: dict[str, Any] = {
        "min_words": words[0],
        "max_words": words[1],
        "min_characters": characters[0],
        "max_characters": characters[1],
    }
    impossible = any(low is not None and high is not None and low > high for low, high in (words, characters))
    if impossible or all(bound is None for bound in settings.values()):
        with pytest.raises(ValueError, match=r"bound|above"):
            LengthMetric(**settings)
        return
    result = LengthMetric(**settings).compute(response=text)
    # A blank answer answers nothing unless a minimum says that it may.
    ratios = [0.0] if not text.strip() and words[0] is None and characters[0] is None else []
    for length, (low, high) in ((count_words(text), words), (len(text), characters)):
        if low is not None and length < low:
            ratios.append(length / low)
        if high is not None and length > high:
            ratios.append(high / length)
    assert result.score == min(ratios, default=1.0)
    assert result.passed == (result.score == 1.0)
    assert (result["length_appropriateness"] == "appropriate") == (result.score == 1.0)


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_limit_alone_does_not_pass_a_blank_answer(blank: str) -> None:
    found = LengthMetric(max_words=20).compute(response=blank)
    assert (found.score, found.passed, found["length_appropriateness"]) == (0.0, False, "too_short")
    assert found.reasoning == "the answer is empty; min_words: 0 would allow that"
    assert LengthMetric(max_words=20, min_words=0).compute(response=blank).passed
    assert LengthMetric(max_words=20, min_characters=0).compute(response=blank).passed


def test_result_has_the_documented_fields() -> None:
    result = LengthMetric(min_words=3, max_words=5, max_sentences=1).compute(response="Two words. Short.")
    assert dict(result.metadata) == {
        "character_count": 17,
        "word_count": 3,
        "sentence_count": 2,
        "expected_length_range": {"min_words": 3, "max_words": 5, "max_sentences": 1},
        "length_appropriateness": "too_long",
    }
    assert result.score == 0.5
    assert result.reasoning == "the answer has 2 sentences, more than the maximum of 1"


def test_reasons() -> None:
    assert LengthMetric(min_words=4, max_characters=100).compute(response="One").reasoning == (
        "the answer has 1 word, fewer than the minimum of 4"
    )
    assert LengthMetric(min_words=1, max_characters=100).compute(response="One").reasoning == (
        "the answer has 3 characters, 1 word, within bounds"
    )
    empty = LengthMetric(min_words=1, min_characters=1).compute(response="")
    assert (empty.score, empty.passed, empty["length_appropriateness"]) == (0.0, False, "too_short")


def test_an_optimum_grades_inside_the_range_and_fails_nothing() -> None:
    evaluator = LengthMetric(min_words=2, max_words=10, optimal_words=4)
    for words, score, passed in ((4, 1.0, True), (3, 0.75, True), (8, 0.5, True), (1, 0.5, False), (20, 0.5, False)):
        result = evaluator.compute(response="word " * words)
        assert (result.score, result.passed) == (score, passed)
    assert result["expected_length_range"] == {"min_words": 2, "max_words": 10, "optimal_words": 4}
    assert evaluator.compute(response="a b").reasoning == ("the answer has 2 words, within bounds; 4 words are optimal")
    with pytest.raises(ValueError, match="optimal_words"):
        LengthMetric(max_words=3, optimal_words=4)


def test_threshold_decides_when_there_is_one() -> None:
    result = LengthMetric(max_words=3, threshold=0.75).compute(response="one two three four")
    assert (result.score, result.passed) == (0.75, True)


@walk(
    ("text", "sentences"),
    [
        ("." * 1_000_000 + "x", 1),
        (".)" * 500_000 + "x", 1),
        ("." + ")" * 999_999 + "x", 1),
        ("\n " * 500_000, 0),
        ("a. " * 300_000, 300_000),
    ],
)
def test_a_megabyte_of_marks_is_counted_at_once(text: str, sentences: int) -> None:
    # In quadratic time this would take hours, and pytest's own limit would end it.
    assert count_sentences(text) == sentences
