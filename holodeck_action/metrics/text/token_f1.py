"""Token F1 in the style of SQuAD."""

from __future__ import annotations

import re
import string

from holodeck_action.metrics.text.overlap import f_measure, overlap

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalised_tokens(text: str) -> list[str]:
    """The words of a text in lower case, without ASCII punctuation and without the articles a, an and the."""
    text = text.lower().translate(_NO_PUNCTUATION)
    words = text.split()
    if "".join(words).isalnum():
        return [word for word in words if word not in _ARTICLES]
    # Beside other symbols (a dash, a bullet) an article is one inside a piece too.
    return _ARTICLE.sub(" ", text).split()


def token_f1(response: str, reference: str) -> float:
    """The F1 of the words that `response` and `reference` share, in 0..1.

    The answer F1 of SQuAD v1.1 (Rajpurkar et al., EMNLP 2016): multiset overlap of the normalised words. As in SQuAD
    2.0, two texts of which nothing is left are equal (1.0), and one of which nothing is left shares nothing (0.0).
    """
    ours, theirs = normalised_tokens(response), normalised_tokens(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    return f_measure(overlap(ours, theirs), len(ours), len(theirs))
