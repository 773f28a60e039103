"""Every judged metric with every kind of judge: a copied answer is an error, an honest one is not.

The table of docs/judged-metrics.md comes from here; UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holodeck_action.record.evaluation import Evaluation
from tests.commands.project import Project
from tests.metrics.judging.judged_metrics import Judge, Product, exams, judge_answers, judge_pairs, judged_metrics
from tests.metrics.judging.weak_judges import COPYING, honest, judges

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(600),
    pytest.mark.needs("azure", "deepeval", "presets", "preference", "simulation"),
]

DOCS = Path(__file__).parents[3] / "docs" / "judged-metrics.md"
_HONEST = 2_000
_WORDS = {"bad_verdict": "error", "exam_failed": "exam failed"}
"""The words of the table for an error code; other errors are not expected."""


def folder(parent: Path, name: str) -> Project:
    made = parent / name
    made.mkdir()
    return Project(made)


def outcome(found: Evaluation) -> str:
    """The score, or the word for the error."""
    return f"{float(found.score):.3g}" if isinstance(found.score, int | float) else _WORDS[_code(found)]


def _code(found: Evaluation) -> str:
    return "" if found.error is None else found.error.code


def graded(parent: Path, name: str, judge: Judge, probe: str) -> Iterator[tuple[str, Evaluation]]:
    """Yield the evaluations of each metric by a judge."""
    yield from judge_answers(folder(parent, f"{name} answers"), judge, probe=probe).evaluations
    yield from judge_pairs(folder(parent, f"{name} pairs"), judge, probe=probe).evaluations


def test_no_copied_verdict_is_a_score(tmp_path: Path) -> None:
    """Without a probe, since a judge that has passed one may still copy."""
    found = [each for number, judge in enumerate(COPYING) for each in graded(tmp_path, f"{number}", judge, "never")]
    assert {name for name, _ in found} == {*exams()}
    assert [(name, each.score) for name, each in found if _code(each) != "bad_verdict"] == []


def test_no_bad_judge_that_is_probed_gives_a_score_and_the_good_one_gives_all(tmp_path: Path) -> None:
    pairs = exams()
    columns = judges(pair for pair in pairs.values() if pair is not None)
    table: dict[str, dict[str, str]] = {}
    for column, judge in columns.items():
        found = [*graded(tmp_path, column, judge, "always")]
        assert sorted(metric for metric, _ in found) == sorted(pairs)
        for metric, evaluation in found:
            table.setdefault(metric, {})[column] = outcome(evaluation)
    assert [metric for metric, row in table.items() if row["good"] in _WORDS.values()] == []
    for column in [*columns][1:]:
        probed = {metric: row[column] for metric, row in table.items() if pairs[metric] is not None}
        assert {metric: found for metric, found in probed.items() if found != "exam failed"} == {}, column
    for column in ("copying", "rambling", "cut"):
        free = {metric: row[column] for metric, row in table.items() if pairs[metric] is None}
        assert {metric: found for metric, found in free.items() if found != "error"} == {}, column
    check_table("\n".join(_lines([*columns], table)))


def _lines(columns: Sequence[str], table: dict[str, dict[str, str]]) -> Iterator[str]:
    yield f"| metric | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for metric, row in table.items():
        yield f"| `{metric}` | {' | '.join(row[column] for column in columns)} |"


def check_table(table: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    start = text.index(table.partition("\n")[0][:20])
    end = text.index("\n\n", start)
    if os.environ.get("UPDATE_GOLDEN"):
        DOCS.write_text(text[:start] + table + text[end:], encoding="utf-8")
    else:
        assert text[start:end] == table, f"the table of {DOCS.name} differs; UPDATE_GOLDEN=1 writes it anew"


def test_honest_verdicts_raise_no_alarm(tmp_path: Path) -> None:
    draw = random.Random(49)
    goods = [f"{draw.choice(('iron', 'glass', 'oak', 'brass'))} {thing}" for thing in THINGS]
    products = [Product(name, draw.choice(("forty", "ninety")), draw.choice(("three", "five"))) for name in goods]
    judged = judge_answers(folder(tmp_path, "honest"), honest(products, seed=49), products)
    assert len(judged.questions) >= _HONEST
    assert [(name, each.error.message) for name, each in judged.evaluations if each.error is not None] == []
    assert len(judged.evaluations) == len(products) * len(judged_metrics())


THINGS = (
    *("kettle", "lamp", "table", "stool", "clock", "shelf", "mirror", "basket", "ladder", "bench"),
    *("drawer", "candle", "pitcher", "hanger", "wardrobe", "teapot", "bookend", "planter", "desk", "frame"),
)
