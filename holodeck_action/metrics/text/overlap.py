"""Metrics of overlapping n-grams: BLEU, ROUGE and token F1.

BLEU equals sacreBLEU's `sentence_bleu` with default settings. ROUGE-1, ROUGE-2 and ROUGE-L F-measures equal the results
of rouge-score's `RougeScorer`. Token F1 follows SQuAD.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Hashable, Iterable

from holodeck_action.metrics.text.porter import stems
from holodeck_action.metrics.text.tokens import tokens_13a
from holodeck_action.text.lazy_patterns import lazy_pattern


def _ngrams(tokens: list[str], n: int) -> Iterable[Hashable]:
    return tokens if n == 1 else zip(*(tokens[start:] for start in range(n)), strict=False)


def overlap(candidate: list[str], reference: list[str], n: int = 1) -> int:
    """Return the size of the multiset intersection of the n-grams of length `n` of two token lists."""
    free = Counter(_ngrams(reference, n))
    matches = 0
    for ngram in _ngrams(candidate, n):
        if left := free.get(ngram):
            free[ngram] = left - 1
            matches += 1
    return matches


def f_measure(matches: int, candidate: int, reference: int) -> float:
    """Return the harmonic mean of precision, `matches / candidate`, and recall, `matches / reference`; 0.0 if `matches`
    is 0."""
    if not matches:
        return 0.0
    precision, recall = matches / candidate, matches / reference
    return 2 * precision * recall / (precision + recall)


_MAX_ORDER = 4


def bleu(response: str, reference: str) -> float:
    """Return sentence BLEU of `response` against one `reference`, 0..1.

    It is bit-identical to sacreBLEU's `sentence_bleu(response, [reference]).score / 100`: tokeniser 13a,
    case-sensitive, n-grams up to 4 with effective order, exponential smoothing (Chen and Cherry, WMT 2014, method 3),
    brevity penalty (Papineni et al., ACL 2002). sacreBLEU returns 100.00000000000004 for a perfect match; here the
    result is at most 1. Texts without a common token score 0.0.
    """
    ours, theirs = tokens_13a(response), tokens_13a(reference)
    matched = overlap(ours, theirs)
    if not matched:
        return 0.0
    logs: list[float] = []
    smoothing = 1.0
    for order in range(1, min(_MAX_ORDER, len(ours)) + 1):
        # Without a common n-gram there is no common longer one.
        if order > 1 and matched:
            matched = overlap(ours, theirs, order)
        total = len(ours) - order + 1
        if matched:
            precision = 100.0 * matched / total
        else:
            smoothing *= 2
            precision = 100.0 / (smoothing * total)
        logs.append(math.log(precision))
    brevity = math.exp(1 - len(theirs) / len(ours)) if len(ours) < len(theirs) else 1.0
    # The built-in sum, as in the library: its rounding differs between Python 3.11 and 3.12.
    return min(brevity * math.exp(sum(logs) / len(logs)) / 100, 1.0)


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = lazy_pattern(r"\b(?:a|an|the)\b")


def normalised_tokens(text: str) -> list[str]:
    """Return the lower-case words of a text, without ASCII punctuation and without the articles a, an and the."""
    text = text.lower().translate(_NO_PUNCTUATION)
    words = text.split()
    if "".join(words).isalnum():
        return [word for word in words if word not in _ARTICLES]
    # Next to other symbols (a dash, a bullet) an article may be part of a piece.
    return _ARTICLE.sub(" ", text).split()


def token_f1(response: str, reference: str) -> float:
    """Return the F1 of the words that `response` and `reference` share, 0..1.

    It is the answer F1 of SQuAD v1.1 (Rajpurkar et al., EMNLP 2016): multiset overlap of the normalised words. As in
    SQuAD 2.0, two texts without words are equal (1.0), and a text without words scores 0.0 against any other text.
    """
    ours, theirs = normalised_tokens(response), normalised_tokens(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    return f_measure(overlap(ours, theirs), len(ours), len(theirs))


_WORDS = lazy_pattern("[a-z0-9]+")
_BLOCK_BITS = 1 << 13


def rouge_tokens(text: str, *, use_stemmer: bool) -> list[str]:
    """Return the runs of ASCII letters and digits in the lower-case text; if `use_stemmer` is set, runs of more than 3
    characters are stemmed.
    """
    words: list[str] = _WORDS.findall(text.lower())
    if use_stemmer:
        words = [stems[word] if len(word) > 3 else word for word in words]
    return words


def lcs_length(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common subsequence of two token lists.

    Bit-parallel (H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): a row of the usual table is one
    integer, in which a zero bit marks an increase of the length. Columns are processed in blocks of 8,192, and carries
    are passed to the next block, so that memory stays linear for texts of any length.
    """
    if left == right:
        return len(left)
    if len(left) > len(right):
        left, right = right, left
    # Only tokens in both lists can be part of the subsequence.
    shared = set(left).intersection(right)
    columns = [token for token in left if token in shared]
    rows = [token for token in right if token in shared]
    length = 0
    carries = bytearray(len(rows))
    for start in range(0, len(columns), _BLOCK_BITS):
        block = columns[start : start + _BLOCK_BITS]
        masks: dict[str, int] = {}
        for bit, token in enumerate(block):
            masks[token] = masks.get(token, 0) | 1 << bit
        width = len(block)
        full = (1 << width) - 1
        row = full
        passed = bytearray()
        for token, carry in zip(rows, carries, strict=True):
            common = row & masks.get(token, 0)
            total = row + common + carry
            passed.append(total >> width)
            row = (total | row - common) & full
        length += width - row.bit_count()
        carries = passed
    return length


def rouge(response: str, reference: str, *, use_stemmer: bool = False) -> dict[str, float]:
    """Return the F-measures `rouge1`, `rouge2` and `rougeL` of `response` against `reference`, each 0..1.

    They are bit-identical to `RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer).score(reference, response)`
    (C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004). Words consist of ASCII letters and
    digits; a text without words scores 0.0, even against another text without words.
    """
    ours = rouge_tokens(response, use_stemmer=use_stemmer)
    theirs = rouge_tokens(reference, use_stemmer=use_stemmer)
    unigrams = overlap(ours, theirs)
    bigrams = overlap(ours, theirs, 2) if unigrams else 0
    return {
        "rouge1": f_measure(unigrams, len(ours), len(theirs)),
        "rouge2": f_measure(bigrams, len(ours) - 1, len(theirs) - 1),
        "rougeL": f_measure(lcs_length(ours, theirs) if unigrams else 0, len(ours), len(theirs)),
    }
