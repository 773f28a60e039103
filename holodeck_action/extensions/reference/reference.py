"""BLEU, ROUGE and METEOR by the libraries that ours equal. Needs the packages of the `reference` extra."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from nltk.tokenize import word_tokenize
from nltk.translate.meteor_score import meteor_score
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import sentence_bleu

from holodeck_action.metrics.standard import ROUGE_VARIANTS
from holodeck_action.metrics.text.meteor import synonyms

LIBRARIES = tuple(f"{name} {version(name)}" for name in ("sacrebleu", "rouge-score", "nltk"))
"""Names and versions of those that are installed."""


class TableWordNet:
    """As much of NLTK's WordNet reader as METEOR asks of it: one synset, whose lemmas are the synonyms of our table."""

    class Lemma:
        """A word with a name."""

        def __init__(self, name: str) -> None:
            self._name = name

        def name(self) -> str:
            """The word."""
            return self._name

    class Synset:
        """Words that mean the same."""

        def __init__(self, names: frozenset[str]) -> None:
            self._names = names

        def lemmas(self) -> list[TableWordNet.Lemma]:
            """The words."""
            return [TableWordNet.Lemma(name) for name in self._names]

    def synsets(self, word: str) -> list[TableWordNet.Synset]:
        """The one synset of a word."""
        return [self.Synset(synonyms[word])]


@cache
def _scorer(use_stemmer: bool) -> Any:
    return RougeScorer(list(ROUGE_VARIANTS), use_stemmer=use_stemmer)


def reference_scores(
    metric: str, response: str, reference: str, *, use_stemmer: bool = False, variant: str = "rougeL"
) -> Mapping[str, float]:
    """Score a response against one reference text, each number in 0..1.

    Args:
        metric: `bleu`, `rouge` or `meteor`.
        response: the text that is scored.
        reference: the text it is compared with.
        use_stemmer: of ROUGE.
        variant: of ROUGE: the F-measure that is the score.

    Returns:
        The score under the name `score`; for ROUGE also all three F-measures under theirs.
    """
    if metric == "bleu":
        # A perfect match is 100.00000000000004.
        return {"score": min(sentence_bleu(response, [reference]).score / 100, 1.0)}
    if metric == "rouge":
        found = _scorer(use_stemmer).score(reference, response)
        variants = {name: float(found[name].fmeasure) for name in ROUGE_VARIANTS}
        return {"score": variants[variant], **variants}
    theirs, ours = (word_tokenize(text, preserve_line=True) for text in (reference, response))
    return {"score": float(meteor_score([theirs], ours, wordnet=TableWordNet(), alpha=0.9, beta=3.0, gamma=0.5))}
