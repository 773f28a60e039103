"""`calibrate` measures the judge of `preference` against labels that compare two answers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from holodeck_action.decide.agreement import kappa_of_counts
from holodeck_action.text.csv_cells import guard_cell
from tests.commands.project import Finished, Project
from tests.extensions.calibration.labelling import sheet
from tests.extensions.preference.shop import Shop, first
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.needs("preference")
WORDS = ("win", "tie", "loss")
Z = 1.959963984540054


def oracle_kappa(pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Cohen's κ and its standard error, from the single pairs instead of a table (Fleiss, Cohen & Everitt 1969).

    The error is that of the delta method: the spread of the influence of each pair on κ.
    """
    n = len(pairs)
    human = {word: sum(one == word for one, _ in pairs) / n for word in WORDS}
    judge = {word: sum(other == word for _, other in pairs) / n for word in WORDS}
    agreed = sum(one == other for one, other in pairs) / n
    chance = sum(human[word] * judge[word] for word in WORDS)
    kappa = (agreed - chance) / (1 - chance)
    influences = [
        (one == other) / (1 - chance) - (judge[one] + human[other]) * (1 - kappa) / (1 - chance) for one, other in pairs
    ]
    mean = math.fsum(influences) / n
    return kappa, math.sqrt(math.fsum((each - mean) ** 2 for each in influences) / n / n)


def oracle_wilson(successes: int, n: int) -> tuple[float, float]:
    """The roots of (p − p₀)² = z²·p₀(1 − p₀)/n."""
    rate, square = successes / n, Z * Z / n
    a, b, c = 1 + square, -(2 * rate + square), rate * rate
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def counts(pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
    return [[sum(pair == (one, other) for pair in pairs) for other in WORDS] for one in WORDS]


def test_kappa_of_three_verdicts_agrees_with_an_oracle() -> None:
    drawn = random.Random(32)
    compared = 0
    for _ in range(1000):
        n = drawn.randint(1, 60)
        chances = [drawn.random() + 0.01 for _ in range(9)]
        cells = [(one, other) for one in WORDS for other in WORDS]
        pairs = drawn.choices(cells, chances, k=n)
        found = kappa_of_counts(counts(pairs))
        if len({word for pair in pairs for word in pair}) == 1:
            assert found.value is None
            continue
        kappa, error = oracle_kappa(pairs)
        assert found.value == pytest.approx(kappa, abs=1e-12)
        if n < 10:
            assert (found.low, found.high) == (None, None)
            continue
        table = counts(pairs)
        chance = sum(sum(table[i]) * sum(row[i] for row in table) for i in range(3)) / n**2
        low, high = oracle_wilson(sum(table[i][i] for i in range(3)), n)
        assert found.low == pytest.approx(max(-1, min(kappa - Z * error, (low - chance) / (1 - chance))), abs=1e-9)
        assert found.high == pytest.approx(min(1, max(kappa + Z * error, (high - chance) / (1 - chance))), abs=1e-9)
        compared += 1
    assert compared > 500


class Pairs(Shop):
    """A shop with a judged comparison of 12 cases: this run wins 6, ties 2 (one flipped), and loses 4."""

    BASE = ("bad",) * 6 + ("ugly", "plain") + ("good",) * 4
    HEAD = ("good",) * 6 + ("=odd\n", "plainer") + ("bad",) * 4
    JUDGE = ("win",) * 6 + ("tie",) * 2 + ("loss",) * 4

    def __init__(self, project: Project, models: FakeModels) -> None:
        def judge(one: str, other: str) -> str:
            if {one, other} == {"plain", "plainer"}:
                return first(one, other)
            marks = ["good" in text for text in (one, other)]
            return "tie" if marks[0] == marks[1] else "first" if marks[0] else "second"

        super().__init__(project, models, judge)
        self.suite(12)
        self.base([*self.BASE])
        finished = self.head([*self.HEAD])
        assert finished.code == 0, finished.stdout + finished.stderr

    def rows(self, labels: Sequence[str], **more: Any) -> list[dict[str, Any]]:
        return [
            {
                "input": f"question {n}",
                "response": guard_cell(self.HEAD[n]),
                "other_response": guard_cell(self.BASE[n]),
                "label": label,
                **more,
            }
            for n, label in enumerate(labels)
        ]

    def calibrate(self, rows: list[dict[str, Any]] | str, *flags: str) -> Finished:
        self.project.write("labels.csv", rows if isinstance(rows, str) else sheet(rows))
        return self.run("calibrate", "labels.csv", *flags)

    def card(self, rows: list[dict[str, Any]], *flags: str, code: int = 0) -> dict[str, Any]:
        finished = self.calibrate(rows, "--format", "json", *flags)
        assert finished.code == code, finished.stdout + finished.stderr
        found: dict[str, Any] = json.loads(finished.stdout)
        return found


@pytest.fixture
def pairs(project: Project, models: FakeModels) -> Pairs:
    return Pairs(project, models)


LABELS = ("win",) * 5 + ("tie", "tie", "win") + ("loss",) * 3 + ("win",)
RECORD = ("--results", "out/results.json")


def test_the_judge_is_compared_with_labels_of_pairs(pairs: Pairs) -> None:
    asked = len(pairs.models.requests)
    card = pairs.card(pairs.rows(LABELS, annotator="ann", comment="so"), *RECORD, "-o", "card")
    assert len(pairs.models.requests) == asked
    both = [*zip(LABELS, pairs.JUDGE, strict=True)]
    assert card["pairs"] == {"counts": counts(both), "flipped": 1}
    assert (card["metric"], card["n"], card["threshold"]) == ("preference", 12, None)
    assert card["judge"]["agreement"]["value"] == 9 / 12
    assert (card["judge"]["agreement"]["low"], card["judge"]["agreement"]["high"]) == pytest.approx(
        oracle_wilson(9, 12)
    )
    assert card["judge"]["kappa"]["value"] == pytest.approx(oracle_kappa(both)[0])
    assert [card[name]["value"] for name in ("sensitivity", "specificity")] == [None, None]
    assert [(each["line"], each["human"], each["judge"]) for each in card["disagreements"]] == [
        (7, "tie", "win"),
        (10, "win", "tie"),
        (14, "win", "loss"),
    ]
    shown = pairs.calibrate(pairs.rows(LABELS, annotator="ann", comment="so"), *RECORD).stdout
    assert "judge card: preference by openai/judge: 12 labelled pairs of answers\n" in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in (
        "human: win 5 1 1",
        "win rate, human 0.667",
        "win rate, judge 0.583",
        "flipped with the order 1 of 12",
    ):
        assert line in lines
    assert "judge: loss, human: win: line 14\n" in shown
    assert "line 14: comment: ann: so\n" in shown
    markdown = pairs.calibrate(pairs.rows(LABELS), *RECORD, "--format", "markdown").stdout
    assert "| | judge: win | judge: tie | judge: loss |\n|---|--:|--:|--:|\n| human: win | 5 | 1 | 1 |\n" in markdown
    gates = ("--min-agreement-lower-bound", "0.3", "--min-kappa-lower-bound")
    assert [pairs.calibrate(pairs.rows(LABELS), *RECORD, *gates, least).code for least in ("0.1", "0.9")] == [0, 1]


@pytest.mark.full
def test_labels_outlast_the_run(pairs: Pairs) -> None:
    rows = pairs.rows(LABELS)
    expected = pairs.card(rows, *RECORD)
    # Both runs change places: each label is turned round.
    pairs.answers("head.jsonl", [*pairs.BASE])
    pairs.answers("base.jsonl", [*pairs.HEAD])
    pairs.run("run", "--target", "recorded:base.jsonl", "-o", "base2")
    against = ("--target", "recorded:head.jsonl", "--baseline", "file:base2", "-o", "out2")
    pairs.run("run", *against)
    turned = pairs.card(rows, "--results", "out2/results.json")
    assert turned["pairs"]["counts"] == [row[::-1] for row in expected["pairs"]["counts"][::-1]]
    assert turned["judge"] == expected["judge"]
    # A later run has other answers to most questions.
    pairs.answers("head.jsonl", ["good"] * 3 + ["another"] * 9)
    later = ("run", "--target", "recorded:head.jsonl", "--baseline", "file:base", "-o", "out3")
    pairs.run(*later)
    card = pairs.card(rows, "--results", "out3/results.json")
    assert (card["n"], card["pairs"]["counts"][0]) == (3, [3, 0, 0])
    assert "9 labelled pairs are not in the record and therefore not compared" in card["notices"]
    assert "too few labels for an interval of κ or α: 3, 10 needed" in card["notices"]
    pairs.answers("head.jsonl", ["another"] * 12)
    pairs.run(*later)
    refused = pairs.calibrate(rows, "--results", "out3/results.json")
    assert (refused.code, "has none of the labelled pairs of answers" in refused.stderr) == (2, True)


@pytest.mark.full
def test_the_judge_is_asked_about_labelled_pairs(pairs: Pairs) -> None:
    rows = pairs.rows(LABELS, ground_truth="a truth")
    expected = pairs.card(pairs.rows(LABELS), *RECORD)
    asked = len(pairs.models.requests)
    planned = pairs.calibrate(rows, "--dry-run")
    assert (planned.code, "24 calls of openai/judge" in planned.stdout) == (0, True), planned
    assert len(pairs.models.requests) == asked
    card = pairs.card(rows, "--record", "tape", "-o", "card")
    assert len(pairs.models.requests) == asked + 24
    assert all("Expected answer:" in request.text for request in pairs.models.requests[asked:])
    for name in ("pairs", "judge", "disagreements", "configuration"):
        assert card[name] == expected[name], name
    replayed = pairs.card(rows, "--replay", "tape")
    assert {**replayed, "created_at": ""} == {**card, "created_at": ""}
    assert pairs.calibrate(rows, "--threshold", "0.5").stderr == (
        "error: preference compares two answers, so that --threshold has no effect; leave it out\n"
    )
    limited = pairs.calibrate(rows, "--max-tokens", "1")
    assert limited.code == 4, limited.stderr
    # The card goes with the suite: runs report it, and a change of the rubric makes it stale.
    pairs.project.write("cards/judge.json", (pairs.project.folder / "card/judge-card.json").read_text())
    pairs.suite(12, policy={"judges": {"cards": ["cards/judge.json"]}})
    assert pairs.run("validate").code == 0
    reported = pairs.head([*pairs.HEAD])
    assert "preference: judge card of" in reported.stdout
    assert f"12 labels, agreement {9 / 12:.3f} [" in reported.stdout
    assert "sensitivity" not in reported.stdout
    pairs.suite(12, policy={"judges": {"cards": ["cards/judge.json"]}}, rubric="Prefer rhymes.")
    assert "is stale and is not used for corrections. Changed since it was made: settings of the metric" in (
        pairs.head([*pairs.HEAD]).stdout
    )
    edited = json.loads((pairs.project.folder / "cards/judge.json").read_text())
    edited["pairs"]["counts"][0][0] += 1
    pairs.project.write("cards/judge.json", json.dumps(edited))
    assert "contradicts itself: n does not fit the rest of the card" in pairs.run("validate").stderr


def test_a_pair_that_the_judge_could_not_judge_is_missing(pairs: Pairs) -> None:
    pairs.models.answer(lambda request: "no verdict")
    pairs.head([*pairs.HEAD])
    finished = pairs.calibrate(pairs.rows(LABELS), *RECORD)
    assert (finished.code, "12 of 12 labelled answers were not judged" in finished.stderr) == (3, True), finished.stderr


@pytest.mark.needs("honeyhive")
def test_several_people_and_single_answers_in_one_file(pairs: Pairs) -> None:
    rows = [
        {**row, "label_2": second, "case": "", "metric": ""}
        for row, second in zip(pairs.rows(LABELS), pairs.JUDGE, strict=True)
    ]
    single = dict.fromkeys(rows[0], "") | {"case": "case 0", "label": "fail", "metric": ""}
    card = pairs.card([*rows, single], *RECORD, "--metric", "preference")
    assert card["humans"]["first_two"]["agreement"]["value"] == 9 / 12
    length = pairs.card([*rows, single], *RECORD, "--metric", "length")
    assert (length["n"], "pairs" in length) == (1, False)
    # Of labels that all compare two answers, the metric is found by itself, and no other can be meant.
    assert pairs.card(rows, *RECORD)["metric"] == "preference"
    refused = pairs.calibrate(rows, *RECORD, "--metric", "length")
    assert "'length' needs labels of which each is about one answer" in refused.stderr
    refused = pairs.calibrate([single], *RECORD, "--metric", "preference")
    assert "no label is about the metric 'preference'" in refused.stderr
    assert "needs labels of which each compares two answers" in refused.stderr
    pairs.project.write("labels.csv", sheet(rows))
    exported = pairs.run("export", "out/results.json", "--format", "honeyhive", "--labels", "labels.csv")
    found = json.loads(exported.stdout)["human_ai_comparisons"]
    assert [each["agreement_score"] for each in found[::2]] == [1.0] * 5 + [0.5, 1.0, 0.5] + [1.0] * 3 + [0.0]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("q,a,b,better,", "2: column `label`: 'better' is not a label of two answers: write win if response is"),
        ("q,a,b,,", "2: column `label`: '' is not a label of two answers"),
        ("q,a,a,tie,", "2: column `other_response`: both answers are the same, which is always a tie"),
        (",a,b,win,", "2: column `input`: the field is empty; give the question of both answers"),
        ("q,a,b,win,case 0", "2: column `case`: must be empty: a label of two answers is found by their texts"),
        ("q,a,b,win,\nq,b,a,loss,", "3: repeats the pair of line 2; give one row for each pair"),
    ],
)
def test_a_label_that_cannot_be_used_is_told_at_its_line(pairs: Pairs, row: str, sentence: str) -> None:
    refused = pairs.calibrate(f"input,response,other_response,label,case\n{row}\n", *RECORD)
    assert refused.code == 2
    assert f"error: labels.csv:{sentence}" in refused.stderr


def test_the_columns_of_both_answers_are_needed(pairs: Pairs) -> None:
    refused = pairs.calibrate("other_response,label,case\nb,win,\n", *RECORD)
    assert "labels.csv:1: the column `other_response` requires the columns `input` and `response`" in refused.stderr


def test_the_key_is_in_no_output(pairs: Pairs) -> None:
    finished = pairs.calibrate(pairs.rows(LABELS), "--format", "markdown")
    assert KEY not in finished.stdout + finished.stderr
