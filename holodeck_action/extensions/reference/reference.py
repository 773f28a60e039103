"""Computes BLEU, ROUGE and METEOR with the reference libraries. Needs the packages of the `reference` extra."""

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
"""Names and versions of the installed libraries."""


class TableWordNet:
    """Implements the part of NLTK's WordNet interface that METEOR uses, with this program's table of synonyms.

    Each word has exactly one synset.
    """

    class Lemma:
        """A synonym in a synset."""

        def __init__(self, name: str) -> None:
            self._name = name

        def name(self) -> str:
            """Return the synonym."""
            return self._name

    class Synset:
        """A set of synonyms."""

        def __init__(self, names: frozenset[str]) -> None:
            self._names = names

        def lemmas(self) -> list[TableWordNet.Lemma]:
            """Return the synonyms of the set."""
            return [TableWordNet.Lemma(name) for name in self._names]

    def synsets(self, word: str) -> list[TableWordNet.Synset]:
        """Return the only synset of a word."""
        return [self.Synset(synonyms[word])]


@cache
def _scorer(use_stemmer: bool) -> Any:
    return RougeScorer(list(ROUGE_VARIANTS), use_stemmer=use_stemmer)


def reference_scores(
    metric: str, response: str, reference: str, *, use_stemmer: bool = False, variant: str = "rougeL"
) -> Mapping[str, float]:
    """Return the scores, 0..1, of a response against one reference text.

    Args:
        metric: `bleu`, `rouge` or `meteor`.
        response: text to score.
        reference: text to compare the response with.
        use_stemmer: for ROUGE, whether words are stemmed.
        variant: for ROUGE, the variant whose F-measure is the score.

    Returns:
        The score under the key `score`; for ROUGE, also the F-measure of each of the three variants under its name.
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
