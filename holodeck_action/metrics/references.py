"""Several expected answers to one question: which of them counts for a metric that compares texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.suite.model.cases import EVERY
from holodeck_action.text.plain import excerpt


def counted_result(references: Mapping[str, Sequence[str]], results: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the result that counts, with the expected answer in its reasoning and metadata.

    Args:
        references: the expected answers, by whether any of them must be matched, or all.
        results: the result for each of them; each has a number as score, of which higher is better.
    """
    [(matching, texts)] = references.items()
    choose, phrase = (min, "the worst match") if matching == EVERY else (max, "the best match")
    at = choose(range(len(results)), key=lambda index: float(results[index].score or 0))
    found, text = results[at], texts[at]
    return replace(
        found,
        reasoning=f"{found.reasoning}; expected answer {at + 1} of {len(texts)} is {phrase}: {excerpt(text)}",
        metadata={**found.metadata, "reference": text},
    )
