"""The hidden state of a comment: read strictly, never too long, and what it says has changed."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import worst_exit_code
from holodeck_action.record.record import CaseRecord, Provenance, SuiteIdentity
from holodeck_action.reports.comment.changes import (
    MOST_FAILING,
    MOST_METRICS,
    STATE_LIMIT,
    State,
    compare,
    is_same_result,
    is_same_run,
    is_worse,
    state_of,
    suite_keys,
)
from holodeck_action.reports.report_views import Report
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import hostile_texts
from tests.reports.shown import failing, passing, report_of, varied

A, B, C = "a" * 40, "b" * 40, "c" * 40
MARKER = "<!-- holodeck-action:report:x -->"
START, END = "<!-- holodeck-action:state:", " -->"


def suite(trials: str, **changes: Any) -> Report:
    """The report of a suite with a case per letter; a case keeps its id whatever its trial did."""
    return report_of(record(*(case(letter) for letter in trials), **changes))


def of(*reports: Report, sha: str | None = A, run: str = "1/1", exit_code: int | None = None) -> State:
    code = worst_exit_code(report.exit_code for report in reports) if exit_code is None else exit_code
    return state_of(reports, code, sha, run)


def body(of_state: State) -> str:
    return f"{MARKER}\n{of_state.encode()}\n### text"


def data_of(of_state: State) -> dict[str, Any]:
    packed = base64.b64decode(of_state.encode()[len(START) : -len(END)], b"._")
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


def body_of(data: Any) -> str:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return f"{MARKER}\n{START}{base64.b64encode(zlib.compress(text), b'._').decode()}{END}\n"


def test_a_state_is_read_as_it_was_written() -> None:
    now = of(report_of(varied()), sha=A).compared_with(of(suite("PF"), sha=B))
    assert now.before is not None
    assert State.read(body(now)) == now
    assert State.read(body_of(data_of(now))) == now
    # GitHub may store other line ends.
    assert State.read(body(now).replace("\n", "\r\n")) == now
    assert "\n" not in now.encode()
    assert "--" not in now.encode()[4:-3]


@given(st.text())
def test_any_other_text_holds_no_state(text: str) -> None:
    assert State.read(text) is None
    assert State.read(f"{MARKER}\n{text}") is None
    assert State.read(f"{MARKER}\n{START}{text}{END}") is None


@given(st.binary())
def test_any_other_data_holds_no_state(data: bytes) -> None:
    assert State.read(body_of(data)) is None
    assert State.read(f"{MARKER}\n{START}{base64.b64encode(data, b'._').decode()}{END}") is None


@given(st.data())
def test_a_damaged_state_is_none(data: st.DataObject) -> None:
    whole = of(suite("PFE"))
    line = whole.encode()
    position = data.draw(st.integers(0, len(line) - 1))
    changed = data.draw(st.characters(exclude_characters=line[position]))
    for damaged in (line[:position], line[:position] + changed + line[position + 1 :], line + line):
        # The bits that fill up the last character of Base64 mean nothing.
        assert State.read(f"{MARKER}\n{damaged}") in (None, whole)
    assert State.read(line) is None
    assert State.read(f"{MARKER}\n\n{line}") is None


NOT_A_STATE: dict[str, Any] = {
    "version": 2,
    "sha": "A" * 40,
    "run": "1/1 -->",
    "exit_code": True,
    "result": "0" * 15,
    "suites": {},
    "before": [],
    "more": 1,
}
NOT_A_SUITE: dict[str, Any] = {
    "key": "0" * 9,
    "outcome": "fine",
    "failed": -1,
    "unknown": 1.5,
    "pass_rate": 1.1,
    "metrics": [["00000000", "1"]],
    "failing": "0" * 7,
    "more": None,
}


@pytest.mark.parametrize("field", NOT_A_STATE)
def test_a_field_of_a_state_that_cannot_be(field: str) -> None:
    data = data_of(of(suite("PF")))
    assert State.read(body_of(data)) is not None
    assert State.read(body_of(data | {field: NOT_A_STATE[field]})) is None
    if field != "more":
        del data[field]
        assert State.read(body_of(data)) is None


@pytest.mark.parametrize("field", NOT_A_SUITE)
def test_a_field_of_a_suite_that_cannot_be(field: str) -> None:
    data = data_of(of(suite("PF")))
    data["suites"][0][field] = NOT_A_SUITE[field]
    assert State.read(body_of(data)) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null"])
def test_a_number_that_is_none(number: str) -> None:
    data = data_of(of(suite("PF")))
    data["suites"][0]["metrics"] = [["00000000", 0.125]]
    assert State.read(body_of(data)) is not None
    assert State.read(body_of(json.dumps(data).replace("0.125", number).encode())) is None


def test_what_unpacks_to_much_is_not_read() -> None:
    text = json.dumps(data_of(of(suite("PF"))))
    assert State.read(body_of((text + " " * 1000).encode())) is not None
    assert State.read(body_of((text + " " * 100_000).encode())) is None
    assert State.read(body_of(b"[" * 60_000)) is None


def test_what_does_not_fit_is_left_out() -> None:
    many = report_of(record(*failing(MOST_FAILING, "answer")))
    others = replace(many, attention=tuple(replace(item, id=f"other {item.id}") for item in many.attention))
    now = of(many).compared_with(of(others, sha=B))
    assert now.suites[0].failing is not None
    assert now.before is not None
    assert now.before.suites[0].failing is None
    assert State.read(body(now)) == now
    more = of(report_of(record(*failing(MOST_FAILING + 1, "answer"))))
    assert more.suites[0].failing is None
    assert more.suites[0].failed == MOST_FAILING + 1


def measured(count: int) -> CaseRecord:
    metrics = [evaluation(1 / (number + 3), evaluator_name=f"metric {number}") for number in range(count)]
    return case_of(turn(*metrics))


@pytest.mark.full
@given(
    st.lists(
        st.tuples(
            st.sampled_from((0, 1, 60, MOST_FAILING, MOST_FAILING + 1)), st.sampled_from((0, 1, MOST_METRICS + 1))
        ),
        max_size=3,
    ),
    st.integers(1, 40),
    st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_a_state_is_never_too_long_and_keeps_what_it_can(
    suites: list[tuple[int, int]], times: int, is_known: bool
) -> None:
    reports = [
        report_of(record(*failing(count, "no"), *([measured(metrics)] if metrics else [])), f"suite {number}")
        for number, (count, metrics) in enumerate(suites)
    ] * times
    previous = of(*reports, sha=B if is_known else None, run="7/1")
    now = of(*reports).compared_with(previous)
    assert len(now.encode()) <= STATE_LIMIT
    assert State.read(body(now)) == now
    # The same run once more: the comment that stands there remembers the commit before.
    again = of(*reports).compared_with(State.read(body(now)))
    assert again == now
    assert now.exit_code == worst_exit_code(report.exit_code for report in reports)


def test_a_commit_is_compared_with_the_one_before_it() -> None:
    first = of(suite("PP"), sha=A)
    assert first.compared_with(None).before is None
    second = of(suite("PF"), sha=B).compared_with(first)
    assert second.before is not None
    assert second.before.sha == A
    rerun = of(suite("FF"), sha=B).compared_with(second)
    assert rerun.before == second.before
    third = of(suite("PP"), sha=C).compared_with(rerun)
    assert third.before is not None
    assert (third.before.sha, third.before.suites[0].failed) == (B, 2)


def test_what_nothing_was_evaluated_in_is_passed_over() -> None:
    good = of(suite("PP"), sha=A)
    problem = state_of((), 2, B, "2/1", ("agent.yaml: is not YAML",)).compared_with(good)
    assert problem.before is not None
    assert problem.before.sha == A
    assert of(suite("PF"), sha=C).compared_with(problem).before == problem.before


def test_new_and_fixed_cases() -> None:
    change = compare(suite("FPFPE"), *_old(suite("PFFPP")))
    assert change is not None
    assert (change.sha, change.outcome, change.new, change.fixed) == (B, "failed", frozenset({0}), 1)
    assert change.pass_rate == pytest.approx(50 - 60)
    # Nobody knows whether what was not judged is fixed, nor what is gone.
    for now in ("EPP", "P"):
        change = compare(suite(now), *_old(suite("FPP")))
        assert change is not None
        assert change.fixed == (1 if now == "P" else 0)
    too_many = report_of(record(*failing(MOST_FAILING + 1, "no")))
    change = compare(suite("F"), *_old(too_many))
    assert change is not None
    assert (change.new, change.fixed) == (None, None)


def _old(*reports: Report) -> tuple[str, Any]:
    before = of(suite("P"), sha=A).compared_with(of(*reports, sha=B)).before
    return suite_keys(reports)[0], before


def test_a_suite_that_was_not_there_has_not_changed() -> None:
    key, before = _old(suite("PF"))
    assert compare(suite("PF"), "0" * 8, before) is None
    assert compare(suite("PF"), key, None) is None


@pytest.mark.parametrize(
    ("old", "new", "polarity", "shown"),
    [
        (0.5, 0.75, "maximize", "+0.2500 better"),
        (0.75, 0.5, "maximize", "-0.2500 worse"),
        (0.5, 0.75, "minimize", "+0.2500 worse"),
        (0.75, 0.5, "minimize", "-0.2500 better"),
        (0.5, 0.50004, "maximize", "="),
        (0.5, 0.75, "neutral", "+0.2500"),
        (None, 0.5, "maximize", "new"),
        (0.5, None, "maximize", "–"),
    ],
)
def test_how_a_mean_has_changed(old: float | None, new: float | None, polarity: str, shown: str) -> None:
    def scored(score: float | None) -> Report:
        if score is None:
            return report_of(record(case_of(turn(evaluation(None, status="skipped", explanation="no")))))
        return report_of(record(case_of(turn(evaluation(score, polarity=polarity)))))

    change = compare(scored(new), *_old(scored(old)))
    assert change is not None
    assert change.metrics == (shown,)


@given(hostile_texts)
def test_names_are_only_kept_as_hashes(text: str) -> None:
    named = replace(suite("F"), suite=text, file=text, folder=text)
    named = replace(
        named,
        metrics=tuple(replace(item, name=text) for item in named.metrics),
        attention=tuple(replace(item, id=text) for item in named.attention),
    )
    now = of(named).compared_with(of(named, sha=B))
    assert State.read(body(now)) == now
    change = compare(named, suite_keys([named])[0], now.before)
    assert change is not None
    assert (change.metrics, change.new) == (("=",), frozenset())


def test_suites_are_told_apart_by_where_they_are() -> None:
    def at(folder: str | None, file: str = "agent.yaml", shown: str = "", name: str = "suite") -> Report:
        made = record(
            case("P"),
            suite=SuiteIdentity(name, file, "digest"),
            provenance=Provenance("1.0.0", "recorded:a.jsonl", folder=folder),
        )
        return report_of(made, shown)

    different = [at("one"), at("two"), at("one", "other.yaml"), at(None, shown="three"), at("one"), at("one")]
    assert len(set(suite_keys(different))) == len(different)
    assert suite_keys([at("one", shown="../one")]) == suite_keys([at("one", name="renamed")])


def test_the_same_result() -> None:
    now = of(suite("PF"))
    assert is_same_result(of(suite("PF"), sha=B, run="9/9").compared_with(now), now)
    assert not is_same_result(None, now)
    others = [
        of(suite("FP")),
        of(suite("PF"), exit_code=3),
        of(suite("PF"), suite("PF")),
        of(suite("PE")),
        of(report_of(record(case("P"), case_of(turn(evaluation(0.2)))))),
    ]
    gates = suite("PF").gates
    loose = tuple(replace(gate, state="passed") for gate in gates)
    others.append(of(replace(suite("PF"), gates=loose)))
    assert not any(is_same_result(other, now) for other in others)
    assert not is_same_result(state_of((), 2, A, "1/1", ("one",)), state_of((), 2, A, "1/1", ("two",)))


def test_two_steps_of_one_run() -> None:
    now = of(suite("P"), run="12/3")
    assert is_same_run(of(suite("F"), run="12/3"), now)
    assert not is_same_run(of(suite("F"), run="12/2"), now)
    assert not is_same_run(None, now)
    # Outside of a workflow no two runs are the same.
    assert not is_same_run(of(suite("F"), run=""), of(suite("P"), run=""))
    assert of(suite("P"), run="1/1 -->").run == ""


def test_what_is_worse() -> None:
    def with_code(code: int) -> State:
        return of(suite("P"), exit_code=code)

    ordered = [with_code(code) for code in (0, 3, 4, 1, 2, 99)]
    for index, better in enumerate(ordered):
        assert not is_worse(better, better)
        assert not is_worse(None, better)
        for other in ordered[index + 1 :]:
            assert is_worse(other, better)
            assert not is_worse(better, other)
    assert is_worse(of(suite("FF")), of(suite("PF")))
    assert is_worse(of(report_of(record(*passing(1), case("E")))), of(report_of(record(*passing(2))), exit_code=3))
    assert worst_exit_code([]) == 0
    assert worst_exit_code([0, 4, 3]) == 4
