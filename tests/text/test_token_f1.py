from __future__ import annotations

import re
import string
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from holodeck_action.metrics.text.overlap import token_f1
from tests.tables import walk

_WORDS = "the a An THE cat cat. Cat's the-cat a–b •a “the” ! 42 東京 \x00a é"
texts = st.one_of(
    st.lists(st.sampled_from(_WORDS.split(" ")), max_size=20).map(" ".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=40),
)


def _words(text: str) -> list[str]:
    """The rule said plainly: lower case, no ASCII punctuation, no articles, split at white space."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    for article in ("a", "an", "the"):
        kept = re.sub(rf"(?<!\w){article}(?!\w)", " ", kept)
    return kept.split()


@settings(max_examples=300)
@given(texts, texts)
def test_it_is_the_f1_of_the_multiset_of_words(response: str, reference: str) -> None:
    ours, theirs = Counter(_words(response)), Counter(_words(reference))
    common = (ours & theirs).total()
    if not ours or not theirs:
        expected = 1.0 if ours == theirs else 0.0
    elif not common:
        expected = 0.0
    else:
        precision, recall = common / ours.total(), common / theirs.total()
        expected = 2 * precision * recall / (precision + recall)
    assert token_f1(response, reference) == expected


@walk(
    ("response", "reference", "expected"),
    [
        ("The Eiffel Tower", "eiffel tower!", 1.0),
        ("Paris", "Paris, France", 2 / 3),
        ("cat cat cat", "cat", 0.5),
        ("", "", 1.0),
        ("the", "...", 1.0),
        ("", "Paris", 0.0),
        ("Paris", "the", 0.0),
        ("London", "Paris", 0.0),
    ],
)
def test_examples(response: str, reference: str, expected: float) -> None:
    assert token_f1(response, reference) == expected
