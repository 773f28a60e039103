"""ROUGE-1, ROUGE-2 and ROUGE-L F-measures, equal to those of rouge-score's `RougeScorer`."""

from __future__ import annotations

import re

from holodeck_action.metrics.text.overlap import f_measure, overlap
from holodeck_action.metrics.text.porter import stems

_WORDS = re.compile("[a-z0-9]+").findall
_BLOCK_BITS = 1 << 13


def rouge_tokens(text: str, *, use_stemmer: bool) -> list[str]:
    """Runs of ASCII letters and digits of the lower-cased text; with `use_stemmer`, those above 3 letters stemmed."""
    words: list[str] = _WORDS(text.lower())
    if use_stemmer:
        words = [stems[word] if len(word) > 3 else word for word in words]
    return words


def lcs_length(left: list[str], right: list[str]) -> int:
    """The length of the longest common subsequence of two token lists.

    Bit-parallel (H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): a row of the usual table is one
    integer in which a zero stands for each step. In blocks of 8,192 columns, each passing its carries to the next, so
    that memory stays linear for texts of any length.
    """
    if left == right:
        return len(left)
    if len(left) > len(right):
        left, right = right, left
    # Only tokens of both lists can be part of it.
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
    """The F-measures `rouge1`, `rouge2` and `rougeL` of `response` against `reference`, each in 0..1.

    `RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer).score(reference, response)`, bit for bit (C.-Y. Lin,
    "ROUGE: a package for automatic evaluation of summaries", 2004). Only ASCII letters and digits make words; a text
    without any scores 0.0, against an equally empty one too.
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
