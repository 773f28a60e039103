"""Annotations: what is said, on which line, in which order, within which limits, and as workflow commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.github.annotations import (
    DETAILS_LIMIT,
    MESSAGE_LIMIT,
    MOST_ANNOTATIONS,
    TITLE_LIMIT,
    Annotation,
    as_check_annotation,
)
from holodeck_action.github.case_annotations import annotate, passing_keys
from holodeck_action.github.rest.api import connect
from holodeck_action.github.runner import MESSAGE_LIMIT as COMMAND_LIMIT
from holodeck_action.github.runner import annotation_commands
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import CaseRecord, ToolAssertion, ToolInvocation, TrialRecord
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import QuarantineEntry
from tests.action.runner import Command, read_log
from tests.github import calls
from tests.github.fake import FakeGitHub, Token
from tests.github.reports import at, case_at, metric, placed, report_of
from tests.record.records import case, turn
from tests.reports.hostile import hostile_case, hostile_record, hostile_texts, storable_texts

SHA = "a" * 40


def _places(made: tuple[Annotation, ...]) -> list[tuple[int, int | None]]:
    return [(annotation.line, annotation.column) for annotation in made]


def _quarantined(name: str, reason: str) -> QuarantineEntry:
    return QuarantineEntry(case=name, reason=reason, owner="me", expires=date(2099, 12, 31))


# What and where


def test_a_failing_turn_has_one_annotation_on_its_line() -> None:
    report = report_of(
        case_at(
            10,
            metric(0.31),
            metric(0.2, 0.9, evaluator_name="rouge"),
            metric(0.9, evaluator_name="meteor"),
            name="refund-policy",
            response="No.\nNever.",
            ground_truth="Within 30 days.",
        )
    )
    (made,) = annotate([report])
    assert (made.path, made.line, made.column, made.level) == ("shop/agent.yaml", 10, 5, "failure")
    assert made.title == "FAILED refund-policy · rouge 0.20, needs 0.90: compared (+1 more)"
    assert made.message == (
        "bleu 0.31, needs 0.50: compared\n"
        "rouge 0.20, needs 0.90: compared\n"
        "answer:\nNo.\nNever.\n"
        "expected: Within 30 days.\n"
        "run it alone: holodeck-action run shop/agent.yaml --case=case-0\n"
        "the threshold 0.5 of bleu is set at shop/agent.yaml:1\n"
        "the threshold 0.9 of rouge is set at shop/agent.yaml:1"
    )
    assert made.details == "input: question\nanswer:\nNo.\nNever.\nexpected: Within 30 days."


def test_cases_with_the_same_error_share_an_annotation() -> None:
    def broken(line: int, name: str, message: str) -> CaseRecord:
        failed = turn(source=at(line), response=None, error=ErrorInfo("AgentError", message, "crashed"))
        return placed(line, failed, name=name)

    refused = [broken(10 * n, f"c{n}", f"the key was refused (status 401), request {n}0") for n in range(1, 8)]
    other = broken(90, "slow", "no answer")
    first, second = annotate([report_of(*refused, other)])
    assert (first.line, first.level, first.title) == (
        10,
        "warning",
        "IN ERROR 7 cases · error: the key was refused (status 401), request 10",
    )
    assert "\ncases: c1, c2, c3, c4, c5 and 2 more\n" in first.message
    assert first.details == ""
    assert second.title == "IN ERROR slow · error: no answer"


def test_a_failing_metric_of_the_case_itself_stands_on_its_own_line() -> None:
    own, shared = at(14, 9), at(900, 7)
    report = report_of(
        case_at(10, metric(0.3, source=own), metric(0.4, 0.6, source=shared, evaluator_name="rouge")),
        case_at(20, metric(0.9, source=shared, evaluator_name="rouge")),
    )
    made = annotate([report])
    assert _places(made) == [(14, 9), (10, 5)]
    assert [item.title for item in made] == [
        "FAILED case-0 · bleu 0.30, needs 0.50: compared",
        "FAILED case-0 · rouge 0.40, needs 0.60: compared",
    ]
    assert "rouge" not in made[0].message
    assert "bleu" not in made[1].message
    assert made[0].key != made[1].key


@pytest.mark.parametrize(
    "source",
    [at(9, 9), at(10, 4), at(20, 5), at(25, 9), at(14, 9, "other.yaml"), None],
    ids=["before", "before in the line", "next case", "within the next case", "another file", "unknown"],
)
def test_a_metric_outside_of_the_case_stands_on_the_turn(source: SourceMark | None) -> None:
    report = report_of(case_at(10, metric(0.3, source=source)), case_at(20, metric(0.9, source=source)))
    assert _places(annotate([report])) == [(10, 5)]


def test_a_metric_behind_the_last_case_is_the_suites_when_other_cases_have_it() -> None:
    behind = at(900, 7)
    report = report_of(case_at(10, metric(0.9, source=behind)), case_at(20, metric(0.3, source=behind)))
    assert _places(annotate([report])) == [(20, 5)]


def test_a_metric_behind_all_cases_is_not_the_last_ones() -> None:
    within, behind = at(22, 9), at(26, 7)
    report = report_of(
        case_at(10, metric(0.9), last=at(12, 20)),
        case_at(20, metric(0.2, source=within), metric(0.3, source=behind), last=at(22, 40)),
    )
    assert _places(annotate([report])) == [(22, 9), (20, 5)]


def test_cases_and_metrics_on_one_line_are_told_apart_by_column() -> None:
    first = replace(case_at(1, metric(0.3, source=at(1, 60))), source=at(1, 40))
    second = replace(case_at(1, metric(0.2, source=at(1, 120))), source=at(1, 100))
    assert _places(annotate([report_of(first, second)])) == [(1, 120), (1, 60)]


def test_turns_are_annotated_apart_and_numbered() -> None:
    turns = [
        turn(metric(score), index=index, source=at(11 + index), input=f"q{index}")
        for index, score in enumerate((0.4, 0.9, 0.1))
    ]
    made = annotate([report_of(placed(10, *turns, name="talk", multi_turn=True))])
    assert [(item.line, item.title) for item in made] == [
        (13, "FAILED talk turn 2 · bleu 0.10, needs 0.50: compared"),
        (11, "FAILED talk turn 0 · bleu 0.40, needs 0.50: compared"),
    ]
    assert made[0].key != made[1].key


def test_what_could_not_be_evaluated_is_a_warning() -> None:
    crashed = turn(source=at(10), response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    (made,) = annotate([report_of(placed(10, crashed, name="down"))])
    assert (made.level, made.title) == ("warning", "IN ERROR down · error: it crashed")
    assert "it crashed" in made.message


def test_a_failing_metric_apart_leaves_a_warning_for_one_that_was_not_evaluated() -> None:
    soft = metric(None, status="failed", error=ErrorInfo("EvaluationError", "no judge", "j"), evaluator_name="judged")
    report = report_of(case_at(10, metric(0.3, source=at(14, 9)), soft))
    made = annotate([report])
    assert [(item.line, item.level) for item in made] == [(14, "failure"), (10, "warning")]
    assert made[1].title == "IN ERROR case-0 · judged not evaluated: no judge"
    assert "judged not evaluated: no judge" in made[1].message


def test_a_hard_error_fails_its_case() -> None:
    hard = metric(None, status="failed", error=ErrorInfo("EvaluationError", "no judge", "j"), fail_on_error=True)
    (made,) = annotate([report_of(case_at(10, hard))])
    assert (made.level, made.title) == ("failure", "FAILED case-0 · bleu not evaluated: no judge")


def test_missed_tools_are_said_first() -> None:
    missed = ToolAssertion("search(q=refund)", False, -1, "tool search was not called")
    calls = (ToolInvocation("search", {"q": "x"}, {"hits": 0}), ToolInvocation("mail", {}, error="refused"))
    asked = turn(metric(0.3), source=at(10), tool_assertions=(missed,), tool_invocations=calls)
    (made,) = annotate([report_of(placed(10, asked))])
    assert made.title == "FAILED case-0 · tool search was not called (+1 more)"
    assert made.message.startswith("tool search was not called\nbleu 0.30, needs 0.50: compared\n")
    assert made.details.endswith(
        'tool call 1: search(q="x")\n  result: {"hits": 0}\ntool call 2: mail()\n  error: refused'
    )


def test_quarantined_cases_that_fail_are_notices_and_those_that_hold_are_nothing() -> None:
    cases = (case_at(10, metric(0.3)), case_at(20, metric(0.9)), case_at(30, metric(0.9)))
    entries = tuple(_quarantined(name, "flaky") for name in ("case-0", "case-1"))
    (made,) = annotate([report_of(*cases, quarantine=entries)])
    assert (made.level, made.line, made.title) == ("notice", 10, "QUARANTINED case-0 · bleu 0.30, needs 0.50: compared")
    assert "quarantined until 2099-12-31: flaky" in made.message


def test_cases_that_were_not_run_share_one_warning_per_suite() -> None:
    report = report_of(*(placed(line, trials=()) for line in (10, 20, 30)), stopped="SIGTERM")
    (made,) = annotate([report])
    assert (made.level, made.line, made.title) == ("warning", 10, "NOT RUN 3 cases of suite")
    assert made.message == "not run: the run stopped before this case"
    assert len(annotate([report, report])) == 2


def test_repeated_trials_are_counted_and_the_first_that_failed_is_shown() -> None:
    trials = tuple(
        TrialRecord(index, (turn(metric(score), source=at(10), response=f"answer {index}"),))
        for index, score in enumerate((0.9, 0.2, 0.1))
    )
    report = report_of(replace(case_at(10), trials=trials, repeat=3, min_pass=2, planned_evaluations=1))
    (made,) = annotate([report])
    assert "trials: 1 of 3 trials passed, 2 of 3 needed, flaky" in made.message
    assert "answer: answer 1" in made.message
    assert made.title.endswith("bleu 0.20, needs 0.50: compared")


def test_a_trial_that_broke_before_its_first_turn_stands_on_the_case() -> None:
    broken = TrialRecord(0, (), error=ErrorInfo("AgentError", "no session", "session"))
    (made,) = annotate([report_of(replace(case_at(10), trials=(broken,), planned_evaluations=1))])
    assert (made.level, made.line, made.title) == ("warning", 10, "IN ERROR case-0 · no session")


@pytest.mark.parametrize(
    ("evaluation", "short"),
    [
        (metric(0.8, 0.2, polarity="minimize"), "bleu 0.80, at most 0.20: compared"),
        (metric(0.49999999, 0.5), "bleu 0.49999999, needs 0.50: compared"),
        (metric(False, None), "bleu: compared"),
        (metric("bad", None, pass_values=("good",)), 'bleu "bad", needs good: compared'),
        (metric(0.7, 0.5, metadata={"passed": False}), "bleu 0.7: compared"),
        (metric(3, 5, metadata={"passed": False}), "bleu 3, needs 5: compared"),
    ],
)
def test_a_title_says_the_score_against_the_threshold(evaluation: Any, short: str) -> None:
    (made,) = annotate([report_of(case_at(10, evaluation))])
    assert made.title == f"FAILED case-0 · {short}"


def test_a_verdict_of_the_graders_own_comes_with_its_numbers() -> None:
    (made,) = annotate([report_of(case_at(10, metric(3, 5, metadata={"passed": False}, explanation="too short")))])
    assert made.message.startswith("bleu 3, needs 5: too short\n")


# Order


def test_the_worst_comes_first() -> None:
    crashed = turn(source=at(1), response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    report = report_of(
        case_at(2, metric(0.4)),
        placed(1, crashed),
        case_at(3, metric(0.1)),
        case_at(4, metric(0.4)),
        case_at(5, metric(0.9, 0.2, polarity="minimize")),
        case_at(6, metric(False, None)),
        case_at(7, metric(0.0)),
        quarantine=(_quarantined("case-6", "known"),),
    )
    other = report_of(case_at(8, metric(0.3)), folder="other")
    assert [item.line for item in annotate([report, other])] == [6, 5, 3, 8, 2, 4, 1, 7]


# Positions that no line can have


@pytest.mark.parametrize(
    ("folder", "file", "path"),
    [
        ("shop", "agent.yaml", "shop/agent.yaml"),
        ("", "agent.yaml", "agent.yaml"),
        ("a/b", "../cases.yaml", "a/cases.yaml"),
        ("a/b", "../../cases.yaml", "cases.yaml"),
        ("a", "./x//y.yaml", "a/x/y.yaml"),
        ("läden/東京", "a b:c,d%.yaml", "läden/東京/a b:c,d%.yaml"),
        ("shop", "../../cases.yaml", None),
        ("shop", "/etc/passwd", None),
        ("/etc", "passwd", None),
        ("..", "agent.yaml", None),
        ("shop", "..", None),
        ("shop", "", None),
        ("shop", "a\\b.yaml", None),
        ("shop\\x", "b.yaml", None),
        ("shop", "a\nb.yaml", None),
        ("shop", "a\u202eb.yaml", None),
        ("shop", "a\x1bb.yaml", None),
        ("shop", "x" * 5000, None),
        (None, "agent.yaml", None),
    ],
)
def test_paths_are_those_of_the_repository(folder: str | None, file: str, path: str | None) -> None:
    made = annotate([report_of(case_at(10, metric(0.3), file=file), folder=folder)])
    assert [item.path for item in made] == ([] if path is None else [path])


@pytest.mark.parametrize("line", [0, -1, 2**31, 10**30])
def test_a_line_that_no_file_has_gives_no_annotation(line: int) -> None:
    assert annotate([report_of(case_at(line, metric(0.3)))]) == ()


def test_a_turn_without_a_line_stands_on_its_case_and_a_wrong_column_is_left_out() -> None:
    asked = replace(case_at(10, metric(0.3)), source=at(8, -1))
    trials = tuple(
        replace(trial, turns=tuple(replace(item, source=at(0)) for item in trial.turns)) for trial in asked.trials
    )
    (made,) = annotate([report_of(replace(asked, trials=trials))])
    assert _places((made,)) == [(8, None)]
    assert "start_column" not in as_check_annotation(made)


def test_a_row_of_what_has_no_lines_has_no_annotation() -> None:
    asked = case_at(10, metric(0.3))
    rows = tuple(
        replace(trial, turns=tuple(replace(item, source=at(8, 0)) for item in trial.turns)) for trial in asked.trials
    )
    assert annotate([report_of(replace(asked, source=at(8, 0), last=at(8, 0), trials=rows))]) == ()


# Suggestions


@given(st.text(alphabet="ab '\"$`;\\*-", min_size=1, max_size=12))
def test_the_command_to_run_a_case_alone_names_exactly_it(case_id: str) -> None:
    report = report_of(case_at(10, metric(0.3)))
    (shown,) = report.attention
    (made,) = annotate([replace(report, attention=(replace(shown, id=case_id),))])
    commands = [line for line in made.message.splitlines() if line.startswith("run it alone: ")]
    if " ".join(case_id.split()) != case_id:
        assert commands == []
        return
    words = shlex.split(commands[0].removeprefix("run it alone: "))
    assert words == ["holodeck-action", "run", "shop/agent.yaml", f"--case={case_id}"]


# Keys


def test_keys_are_the_same_in_every_run_and_differ_between_suites() -> None:
    before = report_of(case_at(10, metric(0.3)), case_at(20, metric(0.9)))
    moved = report_of(case_at(44, metric(0.1), response="other"), case_at(60, metric(0.9)))
    (one,), (two,) = annotate([before]), annotate([moved])
    (three,) = annotate([report_of(case_at(10, metric(0.3)), folder="other")])
    assert one.key == two.key != three.key


def _split(own: float, shared: float) -> Report:
    return report_of(
        case_at(10, metric(own, source=at(14, 9)), metric(shared, evaluator_name="rouge")),
        case_at(20, metric(0.9, evaluator_name="rouge")),
    )


def test_what_holds_now_is_told_by_the_keys_of_what_failed() -> None:
    own, shared = annotate([_split(0.3, 0.2)])
    if own.line != 14:
        own, shared = shared, own
    both = {own.key, shared.key}
    assert passing_keys([_split(0.3, 0.2)]).isdisjoint(both)
    assert passing_keys([_split(0.9, 0.2)]) & both == {own.key}
    assert passing_keys([_split(0.3, 0.9)]) & both == {shared.key}
    assert passing_keys([_split(0.9, 0.9)]) >= both


@pytest.mark.parametrize("how", ["error", "skipped", "quarantined", "gone", "nothing run"])
def test_what_was_not_judged_does_not_hold(how: str) -> None:
    (failed,) = annotate([report_of(case_at(10, metric(0.3)), case_at(20, metric(0.9)))])
    passing = case_at(20, metric(0.9))
    crashed = turn(source=at(10), response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    reports: dict[str, Callable[[], list[Report]]] = {
        "error": lambda: [report_of(placed(10, crashed), passing)],
        "skipped": lambda: [report_of(placed(10, trials=()), passing)],
        "quarantined": lambda: [
            report_of(case_at(10, metric(0.9)), passing, quarantine=(_quarantined("case-0", "known"),))
        ],
        "gone": lambda: [report_of(folder="elsewhere")],
        "nothing run": list,
    }
    assert failed.key not in passing_keys(reports[how]())


# Limits


@pytest.mark.full
def test_more_failing_cases_than_get_details_stay_within_the_limits_of_a_check_run(hub: FakeGitHub) -> None:
    made = hostile_record(MOST_ANNOTATIONS + 50, 20_000)
    made = replace(made, provenance=replace(made.provenance, folder="shop"))
    report = build_report(made, decide(made))
    marks = annotate([report])
    assert len(marks) == MOST_ANNOTATIONS + 50
    assert all(mark.details for mark in marks[:MOST_ANNOTATIONS])
    assert not any(mark.details for mark in marks[MOST_ANNOTATIONS:])
    for mark in marks:
        _check_limits(mark)
    hub.add_token("ghs_job", Token(login="github-actions[bot]", kind="installation", permissions={"checks": "write"}))
    repository = hub.add_repository("octo/shop")
    repository.add_pull(7, head_sha=SHA)
    with connect("ghs_job", hub.url, "octo/shop", pause=lambda _: None) as api:
        run = calls.create_check(api, SHA, "holodeck", "1")
        calls.annotate(api, run.id, [as_check_annotation(mark) for mark in marks[:50]])
    assert len(repository.check_runs(SHA)[0]["annotations"]) == 50


def _check_limits(mark: Annotation) -> None:
    assert 0 < len(mark.title.encode()) <= TITLE_LIMIT
    assert "\n" not in mark.title
    assert 0 < len(mark.message) <= MESSAGE_LIMIT
    assert len(mark.details.encode()) <= DETAILS_LIMIT


@pytest.mark.full
@given(st.text(max_size=400), st.sampled_from(["x", "é", "日", "\U0001f600"]))
def test_no_text_is_longer_than_its_place(text: str, letter: str) -> None:
    long = text.encode(errors="ignore").decode() + letter * 30_000
    for mark in annotate([_hostile(long)]):
        _check_limits(mark)


def _hostile(text: str) -> Report:
    return report_of(hostile_case(text, source=at(3)))


@given(storable_texts)
def test_hostile_text_hides_nothing_and_commands_nothing(text: str) -> None:
    for mark in annotate([_hostile(text)]):
        shown = f"{mark.title}\n{mark.message}\n{mark.details}"
        assert set(shown) & {"\x1b", "\x00", "\u202e", "\u200b", "\ud800"} == set()
        assert read_log(shown.encode()).commands == ()


# Workflow commands


def _mark(number: int, level: Any = "failure", **changes: Any) -> Annotation:
    made = Annotation("a.yaml", number, 3, level, f"title {number}", f"message {number}", "", "0" * 16)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("count", "reserved", "shown", "hidden"),
    [(0, 1, 0, 0), (9, 1, 9, 0), (10, 1, 8, 2), (10, 0, 10, 0), (11, 0, 9, 2), (2000, 1, 8, 1992), (3, 10, 0, 0)],
)
def test_at_most_ten_of_a_level_and_the_last_counts_the_rest(
    count: int, reserved: int, shown: int, hidden: int
) -> None:
    commands = annotation_commands([_mark(number) for number in range(1, count + 1)], reserved=reserved)
    log = read_log("\n".join(commands).encode())
    assert len(log.commands) == len(commands) <= 10 - reserved
    assert [command.properties["line"] for command in log.commands if "file" in command.properties] == [
        str(number) for number in range(1, shown + 1)
    ]
    last = [command for command in log.commands if "file" not in command.properties]
    assert [command.data for command in last] == (
        [f"{hidden:,} more are not shown here: see the job summary"] if hidden else []
    )


def test_every_level_has_its_own_room() -> None:
    marks = [_mark(number, level) for number in range(1, 13) for level in ("failure", "warning", "notice")]
    log = read_log("\n".join(annotation_commands(marks, reserved=1)).encode())
    assert {name: len(log.named(name)) for name in ("error", "warning", "notice")} == {
        "error": 9,
        "warning": 10,
        "notice": 10,
    }


TEXTS = st.one_of(
    hostile_texts,
    st.text(alphabet="%0AD2C3:,=\r\n ab\U0001f600", max_size=60),
    st.text(min_size=1, max_size=3).map(lambda text: text * 2500),
)


@given(TEXTS, TEXTS, st.text(alphabet="a:,=%/ é", min_size=1, max_size=20), st.one_of(st.none(), st.integers(1, 99)))
def test_the_runner_reads_exactly_what_was_meant(title: str, message: str, path: str, column: int | None) -> None:
    # Titles are lines without space at the ends, as `annotate` makes them.
    title = " ".join(title.split()) or "-"
    (command,) = annotation_commands([_mark(7, path=path, column=column, title=title, message=message)], reserved=0)
    log = read_log(f"{command}\n".encode(errors="replace"))
    units = message.encode("utf-16-le", "replace")[: 2 * COMMAND_LIMIT].decode("utf-16-le", "ignore")
    properties = {"file": path, "line": "7", "title": title.encode(errors="replace").decode()}
    if column is not None:
        properties["col"] = str(column)
    assert log.commands == (Command("error", units, properties),)
    assert log.text == ("",)
    assert len(units.encode("utf-16-le")) <= 2 * COMMAND_LIMIT


@given(storable_texts)
def test_commands_of_a_hostile_suite_are_those_that_were_meant(text: str) -> None:
    marks = annotate([_hostile(text)])
    log = read_log("\n".join(annotation_commands(marks, reserved=1)).encode())
    assert [(command.name, command.data) for command in log.commands] == [("error", mark.message) for mark in marks]


def test_an_informational_or_passing_case_has_no_annotation() -> None:
    report = report_of(case("P", source=at(10)), case_at(20, metric(0.1, asserts=False), asserting=False))
    assert annotate([report]) == ()
