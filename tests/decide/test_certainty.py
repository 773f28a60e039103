"""A stopped run has the exit code that the whole run would have, whatever its remaining cases turn out to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.gates import NOT_DETERMINED
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.verdict import Verdict
from holodeck_action.record.record import (
    BaseRun,
    CaseRecord,
    CertainEnd,
    Record,
    RecordedBaseline,
    Timing,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.suite.model.policy import Baseline, GateMetric, Gates, GateSummary, QuarantineEntry
from tests.record.records import FAILED_EVALUATION, case, evaluation, record, turn

DECIDED = (0, 1)
SCORES = {"P": 0.9, "1": 1.0, "F": 0.1, "0": 0.0}


def made_turn(chance: Random, letter: str) -> TurnRecord:
    """A turn that passed (P, 1) or failed (F, 0), had no answer (E), a soft error (S) or an unknown input (U)."""
    used = Usage(chance.randint(0, 400), 10, chance.choice((0.0, 0.01, 0.05)))
    timed = {"usage": used, "timing": Timing("2026-11-21T00:00:00+00:00", chance.choice((10.0, 900.0)))}
    match letter:
        case "E":
            return replace(case("E").trials[0].turns[0], usage=None)
        case "S":
            return turn(evaluation(0.9), FAILED_EVALUATION, **timed)
        case "U":
            unknown = replace(FAILED_EVALUATION, metadata={"unknown": "tool calls"})
            return turn(evaluation(0.9), unknown, **timed)
        case _:
            return turn(evaluation(SCORES[letter], threshold=0.5), **timed)


def completed(chance: Random, bare: CaseRecord, letters: str) -> CaseRecord:
    """The case with one trial for each letter."""
    trials = tuple(TrialRecord(at, (made_turn(chance, letter),)) for at, letter in enumerate(letters))
    if not bare.asserting:
        trials = tuple(
            replace(each, turns=tuple(replace(one, evaluations=silent(one)) for one in each.turns)) for each in trials
        )
    return replace(bare, trials=trials)


def silent(of: TurnRecord) -> tuple[Any, ...]:
    return tuple(replace(each, criteria=replace(each.criteria, asserts=False)) for each in of.evaluations)


def outcomes(chance: Random, bare: CaseRecord, rich: bool) -> list[str]:
    """The letters of the trials with which a case can end."""
    single = ["P", "F", "E", "1", "0", "S", "U"] if rich else ["P", "F", "E"]
    if bare.repeat == 1:
        return single
    often = ["".join(chance.choice(single) for _ in range(bare.repeat)) for _ in range(2 * rich)]
    return [*(letter * bare.repeat for letter in single[:3]), *often, "FP" + "P" * (bare.repeat - 2)]


def generated(chance: Random, most: int) -> Record:
    """A record without trials: weights, repeats, quarantine, silent cases and gates."""
    cases = []
    weighted = chance.random() < 0.4
    for at in range(chance.randint(2, most)):
        repeat = chance.choice((1, 1, 1, 1, 2, 3))
        cases.append(
            replace(
                case("", repeat=repeat, min_pass=chance.randint(1, repeat)),
                id=f"case-{at}",
                weight=chance.choice((0.1, 1, 2, 7.5)) if weighted else 1.0,
                planned_evaluations=2,
                asserting=chance.random() < 0.9,
            )
        )
    # The first date has passed when the run starts.
    entries = [(at, until) for at in range(len(cases)) for until in (2026, 2027) if chance.random() < 0.12]
    gates = generated_gates(chance, len(cases))
    if chance.random() < 0.15:
        entries += [(at, 2027) for at in range(len(cases) // 2, len(cases))]
        gates = Gates(min_pass_rate=0.3, min_completeness=0.3, max_errors=2)
    waived = [
        QuarantineEntry(case=f"case-{at}", reason="upstream", owner="@team", expires=date(until, 1, 1))
        for at, until in entries
    ]
    stops = chance.random() < 0.6
    return replace(
        record(*cases, gates=gates),
        quarantine=tuple(waived),
        stop_when_decided=stops,
    )


def generated_gates(chance: Random, cases: int) -> Gates:
    every: dict[str, Any] = {
        "min_pass_rate": (None, 0.0, 0.3, 0.5, 0.75, 0.9),
        "min_completeness": (None, 0.0, 0.5, 0.9),
        "max_errors": range(cases),
        "max_flaky": range(2),
        "max_cost_usd": (0.0, 0.02, 0.1),
        "max_total_tokens": (100, 1000),
        "min_pass_rate_lower_bound": (0.2, 0.6),
        "p95_latency_ms": (50, 1000),
    }
    found = {name: chance.choice(values) for name, values in every.items() if chance.random() < 0.25}
    keys = ("min_mean", "max_mean", "min_p10", "max_p90", "min_lower_bound", "max_upper_bound")
    bounds = {key: chance.choice((0.1, 0.3, 0.5, 0.7, 0.9)) for key in keys if chance.random() < 0.3}
    if bounds and chance.random() < 0.6:
        found["metrics"] = {"bleu": GateMetric(**bounds)}
    if chance.random() < 0.1:
        found["summary"] = GateSummary(method="minimum", min=0.5)
    return Gates(**found)


def judged(of: Record, base: Record | None) -> Verdict:
    # Digests take longer than the rest.
    return decide(of, Terms(base=base, base_digest="base"), RecordTotals(of, "head"))


def stopped(of: Record, counted: int) -> Record:
    """The record as if the run had stopped after a number of cases."""
    bare = (replace(each, trials=()) if at >= counted else each for at, each in enumerate(of.cases))
    end = CertainEnd(tuple(each.id for each in of.cases[:counted]))
    return replace(of, cases=tuple(bare), certain=end)


def completions(chance: Random, of: Record, counted: int, exhaustive: bool) -> Iterator[Record]:
    """The records in which the cases after the first `counted` end in every way, or in 60 random ways."""
    rest = of.cases[counted:]
    found = [[completed(chance, each, letters) for letters in outcomes(chance, each, len(rest) < 3)] for each in rest]
    ways: Iterator[Sequence[CaseRecord]] = (
        iter(product(*found)) if exhaustive else (tuple(map(chance.choice, found)) for _ in range(60))
    )
    for last in ways:
        yield replace(of, cases=(*of.cases[:counted], *last))


def with_base(chance: Random, of: Record) -> tuple[Record, Record | None]:
    if chance.random() < 0.8:
        return of, None
    base = replace(of, cases=tuple(completed(chance, each, "P" * each.repeat) for each in of.cases))
    run = BaseRun("file:base.json")
    return replace(of, baseline=RecordedBaseline(Baseline(margin=0.05), run)), base


def check_every_prefix(number: int, most: int, *, exhaustive: bool) -> set[int]:
    """Check the verdict of a suite's run, stopped after each number of cases that decides; return the exit codes."""
    chance = Random(number)
    bare, base = with_base(chance, generated(chance, most))
    passing = chance.choice((0.2, 0.5, 0.9))
    letters = (
        "".join(chance.choices(("P", "F", "E"), (passing, 1 - passing, 0.1), k=each.repeat)) for each in bare.cases
    )
    full = replace(bare, cases=tuple(completed(chance, *pair) for pair in zip(bare.cases, letters, strict=True)))
    codes: set[int] = set()
    for counted in range(1, len(full.cases)):
        verdict = judged(stopped(full, counted), base)
        if verdict.exit_code not in DECIDED:
            assert not codes, "a longer part decides less"
            continue
        if codes:
            # The ways in which a longer part can end are among those that were checked.
            assert codes == {verdict.exit_code}
            continue
        codes.add(verdict.exit_code)
        for other in completions(chance, full, counted, exhaustive):
            found = judged(other, base)
            assert (found.exit_code, found.outcome) == (verdict.exit_code, verdict.outcome)
            states = {gate.name: gate.state for gate in found.gates}
            for gate in verdict.gates:
                assert gate.state in ("undetermined", "skipped") or gate.state == states[gate.name]
    return codes


@pytest.mark.full
def test_every_completion_has_the_verdict_of_the_stopped_run() -> None:
    codes = [check_every_prefix(number, 5, exhaustive=True) for number in range(60)]
    codes += [check_every_prefix(number, 8, exhaustive=True) for number in range(60, 64)]
    assert sum(codes_of == {1} for codes_of in codes) > 20
    assert sum(codes_of == {0} for codes_of in codes) >= 1


@pytest.mark.full
def test_sampled_completions_of_larger_suites_have_the_verdict_of_the_stopped_run() -> None:
    codes = [check_every_prefix(number, 24, exhaustive=False) for number in range(1000, 1020)]
    assert sum(codes_of == {1} for codes_of in codes) > 5


@pytest.mark.full
@pytest.mark.parametrize(
    "gates",
    [
        Gates(),
        Gates(min_pass_rate=0.5),
        Gates(min_pass_rate=0.7, min_completeness=0.5),
        Gates(min_pass_rate=0, max_errors=1),
    ],
)
def test_a_run_stops_as_soon_as_no_completion_differs(gates: Gates) -> None:
    chance = Random(7)
    for _ in range(8):
        letters = [chance.choice("PPFE") for _ in range(5)]
        full = record(*(case(letter) for letter in letters), gates=gates)
        full = replace(full, cases=tuple(replace(each, planned_evaluations=2) for each in full.cases))
        for counted in range(1, 5):
            codes = {judged(each, None).exit_code for each in completions(chance, full, counted, exhaustive=True)}
            assert (judged(stopped(full, counted), None).exit_code == 1) == (codes == {1})


def test_open_gates_read_not_determined() -> None:
    full = record(case("P"), case("F"), case("P"), gates=Gates(max_errors=0, p95_latency_ms=5))
    verdict = decide(stopped(full, 2))
    assert verdict.exit_code == 1
    states = {gate.name: (gate.state, gate.reason) for gate in verdict.gates}
    assert states["min_pass_rate"] == ("failed", "1 of 2 passed, all must pass")
    waiting = {"min_completeness", "max_errors", "p95_latency_ms"}
    assert all(states[name] == ("undetermined", NOT_DETERMINED) for name in waiting)
    assert (verdict.counts.passed, verdict.counts.failed, verdict.counts.skipped) == (1, 1, 1)
    assert verdict.cases[2].reason == "not counted: the run stopped after 2 of 3 cases"


def test_other_gates_on_a_stopped_record_are_incomplete_where_they_need_more() -> None:
    full = stopped(record(case("P"), case("F"), case("P")), 2)
    verdict = decide(full, Terms(gates=Gates(min_pass_rate=0.5, min_completeness=None)))
    assert (verdict.exit_code, verdict.outcome) == (3, "incomplete")
    assert verdict.reason == "min_pass_rate is not determined: stopped"
    lenient = decide(full, Terms(gates=Gates(min_pass_rate=0.3, min_completeness=None)))
    assert lenient.exit_code == 0
