"""docs/statistics.md says what the program says, and its tables are what the simulations give."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from bench.confirmations import caught_share, unchanged_row
from bench.pages import current_table, markdown_table
from bench.simulation import COMMAND, PAGE, SIZES_HEADS, Trials, gate_row, interval_row, size_rows
from holodeck_action.decide.compare.comparing import compare
from holodeck_action.decide.compare.comparison import Comparison, Difference, MetricComparison
from holodeck_action.decide.survey import judge_cases
from holodeck_action.record.record import BaseRun
from holodeck_action.reports.comparison import rate_text, state_text
from holodeck_action.suite.model.policy import Baseline
from tests.commands.project import Project
from tests.record.records import case, record

SAID = "worse if this metric is considered alone (−23 to −0.4 points), but not beyond chance among the 3 compared"
TEXT = PAGE.read_text(encoding="utf-8")
PROSE = " ".join(TEXT.split())


def shown(name: str) -> str:
    return current_table(PAGE, name, COMMAND)


def rows(name: str) -> dict[tuple[str, ...], list[float]]:
    """Percentages of a table by the words of its row."""
    found = {}
    for line in shown(name).splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found[tuple(cell for cell in cells if "%" not in cell)] = [float(cell[:-2]) for cell in cells if "%" in cell]
    return found


def comparison(lost: int, gained: int) -> Comparison:
    """One of 50 cases of which 6 fail on the base."""
    base = record(*(case(letter) for letter in "P" * 44 + "F" * 6))
    head = record(*(case(letter) for letter in "F" * lost + "P" * (44 - lost + gained) + "F" * (6 - gained)))
    return compare(base, head, Baseline(), base_run=BaseRun("file:main"), judged=judge_cases(head))


def changed(lost: int, gained: int) -> Difference:
    """Its pass rate."""
    found = comparison(lost, gained).pass_rate
    assert found is not None
    return found


def test_the_comments_sentence_and_the_example_are_what_the_program_says() -> None:
    found = changed(11, 1)
    assert rate_text(comparison(11, 1)) in PROSE
    assert found.state == "regressed"
    assert found.low is not None
    assert found.high is not None
    assert found.p_value is not None
    assert found.p_value == pytest.approx(14 / 4096)
    assert f"{-100 * found.high:.1f} to {-100 * found.low:.1f} points" in PROSE
    assert f"once in {round(1 / found.p_value, -1):.0f} runs" in PROSE


@pytest.mark.full
def test_the_comments_sentences_are_those_of_a_run(project: Project) -> None:
    quoted = re.findall(r"^> (.+)$", TEXT.partition("## What the comment says")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(quoted) == 2
    cases = [f"case {number}" for number in range(50)]
    project.suite([{"name": name, "input": name, "ground_truth": "yes"} for name in cases])
    for name, right in (("base", range(44)), ("head", [*range(11, 44), 44])):
        answers = [{"case": each, "response": "yes" if at in right else "no"} for at, each in enumerate(cases)]
        project.answers(answers, f"{name}.jsonl")
    project.run("run", "agent.yaml", "--target", "recorded:base.jsonl", "-o", "base")
    project.run(
        "run", "agent.yaml", "--target", "recorded:head.jsonl", "-o", "out", "--baseline", "file:base/results.json"
    )
    said = (project.out / "report.md").read_text(encoding="utf-8").replace("`base/results.json`", "`main`")
    assert [sentence for sentence in quoted if sentence not in said] == []


def test_a_change_of_one_metric_alone_is_not_called_noise() -> None:
    """Its interval excludes no change, and the test corrected for all that is compared does not."""
    found = comparison(6, 0)
    rate = found.pass_rate
    assert rate is not None
    several = replace(rate, p_shown=0.06, state="inconclusive", low=-0.23, high=-0.004)
    among = replace(found, pass_rate=several, metrics=(MetricComparison("a", "maximize", several),) * 2)
    assert f"pass rate {SAID}" == rate_text(among)
    assert SAID in PROSE
    assert state_text(several, among) == (
        "worse if this metric is considered alone, but not beyond chance among the 3 compared"
    )
    assert "within noise" in rate_text(replace(found, pass_rate=replace(several, high=0.01)))


def test_the_inconclusive_example_is_what_the_program_says() -> None:
    found = changed(3, 2)
    assert (found.state, f"{100 * found.difference:.0f} points") == ("inconclusive", "-2 points")
    assert found.low is not None
    assert found.high is not None
    assert f"the coin gives {found.p_value:.2f}" in PROSE
    assert f"the interval is −{-100 * found.low:.1f} to +{100 * found.high:.1f} points" in PROSE
    cases, _, rest = found.settles.partition(" × ")
    assert rest == "1 trial would detect a change of 8 points"
    assert f"{cases} would detect a change of 8 points" in PROSE


def test_the_table_of_sizes_is_computed() -> None:
    assert shown("sizes") == markdown_table(SIZES_HEADS, size_rows())


@pytest.mark.full
def test_rows_of_the_tables_come_out_again() -> None:
    assert markdown_table((), [gate_row(20, Trials(1), -0.1)]).splitlines()[-1] in shown("gates")
    assert markdown_table((), [interval_row("scores of which one in ten falls", 20)]).splitlines()[-1] in shown(
        "intervals"
    )


def test_the_gate_on_the_comparison_keeps_what_it_promises() -> None:
    simulated = rows("gates")
    assert len(simulated) == 27
    false_alarms = [values[0] for words, values in simulated.items() if words[2] == "none"]
    assert max(false_alarms) <= 5.0
    assert simulated["50", "5", "-20"][0] >= 98.0
    wrongly_cleared = [values[1] for words, values in simulated.items() if words[2] == "-20"]
    assert max(wrongly_cleared) <= 2.5
    # What a plain comparison does with an agent that did not change.
    assert min(values[3] for words, values in simulated.items() if words[2] == "none") > 30.0


def test_intervals_hold_the_truth_and_tests_do_not_cry_wolf() -> None:
    simulated = rows("intervals")
    assert len(simulated) == 15
    assert min(values[0] for values in simulated.values()) >= 92.0
    unchanged = ("pass or fail, 1 trial", "share of 5 trials")
    assert max(values[3] for words, values in simulated.items() if words[0] in unchanged) <= 6.5


@pytest.mark.full
def test_confirming_keeps_an_unchanged_agent_green_and_catches_breaks() -> None:
    found = rows("confirmations")
    alarms = {key[1]: shares for key, shares in found.items() if key[0] == "unchanged"}
    assert [alarms[rate][1] <= 5 for rate in ("1.0", "0.98", "0.95")] == [True] * 3
    assert all(confirm <= fail for fail, confirm in alarms.values())
    caught = {key[1].split()[-1]: shares[1] for key, shares in found.items() if key[0] == "changed"}
    assert caught["0"] >= 99
    assert caught["0.2"] >= 95
    assert caught["0.5"] >= 60
    # A few whole runs give the same picture.
    fail, confirm = unchanged_row("0.95", runs=8)
    assert fail >= 0.5
    assert confirm <= 0.25
    assert caught_share(0.2, runs=2) >= 0.9
