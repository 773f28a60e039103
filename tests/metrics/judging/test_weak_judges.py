"""Every judged metric with every kind of judge: a copied answer is an error, an honest one is not.

The table of docs/judged-metrics.md comes from here; UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holodeck_action.record.evaluation import Evaluation
from tests.commands.project import Project
from tests.metrics.judging.judged_metrics import Judged, Product, judge_answers, judge_pairs, judged_metrics
from tests.metrics.judging.weak_judges import JUDGES, honest

pytestmark = [pytest.mark.full, pytest.mark.needs("azure", "deepeval", "presets", "preference", "simulation")]

DOCS = Path(__file__).parents[3] / "docs" / "judged-metrics.md"
_HONEST = 2_000
_WORDS = {"bad_verdict": "error"}
"""The words of the table for an error code; other errors are not expected."""


def folder(parent: Path, name: str) -> Project:
    made = parent / name
    made.mkdir()
    return Project(made)


def outcome(found: list[Evaluation]) -> str:
    """The lowest score, or the error if no judge of a column gave a score."""
    scores = [float(each.score) for each in found if isinstance(each.score, int | float)]
    if scores:
        return f"{min(scores):.3g}"
    return " or ".join(sorted({_WORDS[each.error.code] for each in found if each.error is not None}))


def test_no_copied_verdict_is_a_score_and_no_good_one_is_an_error(tmp_path: Path) -> None:
    rows: dict[str, dict[str, list[Evaluation]]] = {}
    for column, judges in JUDGES.items():
        for number, judge in enumerate(judges):
            for name, run in (("answers", judge_answers), ("pairs", judge_pairs)):
                judged: Judged = run(folder(tmp_path, f"{column} {number} {name}"), judge)
                for metric, evaluation in judged.evaluations:
                    rows.setdefault(metric, {}).setdefault(column, []).append(evaluation)
    table = {metric: {column: outcome(found) for column, found in row.items()} for metric, row in rows.items()}
    assert [metric for metric, row in table.items() if row["good"] == "error"] == []
    for column in ("copying", "rambling", "cut"):
        assert {metric: row[column] for metric, row in table.items() if row[column] != "error"} == {}, column
    check_table("\n".join(_lines(table)))


def _lines(table: dict[str, dict[str, str]]) -> Iterator[str]:
    yield f"| metric | {' | '.join(JUDGES)} |"
    yield f"|---|{'--:|' * len(JUDGES)}"
    for metric, row in table.items():
        yield f"| `{metric}` | {' | '.join(row[column] for column in JUDGES)} |"


def check_table(table: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    start = text.index(f"| metric | {next(iter(JUDGES))} |")
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
