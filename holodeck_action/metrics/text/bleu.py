"""BLEU of one sentence, equal to sacreBLEU's `sentence_bleu` with its default settings."""

from __future__ import annotations

import math

from holodeck_action.metrics.text.overlap import overlap
from holodeck_action.metrics.text.tokens import tokens_13a

_MAX_ORDER = 4


def bleu(response: str, reference: str) -> float:
    """Sentence BLEU of `response` against one `reference`, in 0..1.

    sacreBLEU's `sentence_bleu(response, [reference]).score / 100`, bit for bit: tokeniser 13a, case-sensitive, n-grams
    up to 4 with effective order, exponential smoothing (Chen and Cherry, WMT 2014, method 3), brevity penalty (Papineni
    et al., ACL 2002). Its arithmetic gives 100.00000000000004 for a perfect match; that excess over 1 is cut off. No
    token in common, or an empty response or reference, is 0.0.
    """
    ours, theirs = tokens_13a(response), tokens_13a(reference)
    matched = overlap(ours, theirs)
    if not matched:
        return 0.0
    logs: list[float] = []
    smoothing = 1.0
    for order in range(1, min(_MAX_ORDER, len(ours)) + 1):
        # Without a common n-gram there is no longer one either.
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
