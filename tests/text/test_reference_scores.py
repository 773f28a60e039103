"""Our scores against those that `scripts/build_reference_scores.py` recorded from the real libraries."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.metrics.text.meteor import meteor
from holodeck_action.metrics.text.overlap import bleu, rouge


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    text = gzip.decompress(Path(__file__).with_name("reference_scores.jsonl.gz").read_bytes()).decode("ascii")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) > 4000
    return rows


def _differences(rows: list[dict[str, Any]], ours: list[Any], theirs: list[Any]) -> list[tuple[str, str, Any, Any]]:
    return [
        (row["response"][:200], row["reference"][:200], mine, expected)
        for row, mine, expected in zip(rows, ours, theirs, strict=True)
        if mine != expected
    ]


def test_bleu_is_sacrebleu_s(rows: list[dict[str, Any]]) -> None:
    ours = [bleu(row["response"], row["reference"]) for row in rows]
    # The built-in `sum` of floats, which the library uses, became more exact in Python 3.12.
    theirs = [min(row["bleu"][sys.version_info >= (3, 12)], 1.0) for row in rows]
    assert _differences(rows, ours, theirs) == []


@pytest.mark.parametrize(("use_stemmer", "column"), [(False, "rouge"), (True, "rouge_stemmed")])
def test_rouge_is_rouge_score_s(rows: list[dict[str, Any]], use_stemmer: bool, column: str) -> None:
    ours = [list(rouge(row["response"], row["reference"], use_stemmer=use_stemmer).values()) for row in rows]
    assert _differences(rows, ours, [row[column] for row in rows]) == []


@pytest.mark.full
def test_meteor_is_nltk_s_on_debian_s_wordnet(rows: list[dict[str, Any]]) -> None:
    ours = [meteor(row["response"], row["reference"]) for row in rows]
    assert _differences(rows, ours, [row["meteor"] for row in rows]) == []


def test_the_pairs_exercise_every_stage(rows: list[dict[str, Any]]) -> None:
    """A table of scores that are all 0 or 1 would prove nothing."""
    for column in ("rouge", "rouge_stemmed"):
        assert len({tuple(row[column]) for row in rows}) > 1000
    assert len({row["meteor"] for row in rows}) > 1500
    assert sum(row["rouge"] != row["rouge_stemmed"] for row in rows) > 500
    assert max(len(row["response"]) for row in rows) > 100_000
