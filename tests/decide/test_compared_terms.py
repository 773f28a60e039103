"""Every way in which a run can be judged by less strict terms than its base is reported, and no stricter one is.

The ways are made from the declarations: each field of each term, each step of each order, each removal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from math import comb
from random import Random
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from holodeck_action.decide.compare.comparing import compare
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.survey import judge_cases
from holodeck_action.decide.terms import (
    DECLARED,
    ComparedSeparately,
    FewerIsStricter,
    HigherIsStricter,
    LowerIsStricter,
    NoDirection,
    NotATerm,
    PresenceIsStricter,
    StrictnessOrder,
    Surrounding,
    TermContainer,
)
from holodeck_action.decide.terms_changes import TermsChange, TermsChanges, changes_clause, plain_name
from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import (
    BaseRun,
    CaseRecord,
    Record,
    RecordedBaseline,
    ToolAssertion,
)
from holodeck_action.suite.model.policy import GATES, Baseline, GateMetric, Gates, GateSummary, QuarantineEntry
from tests.record.records import case, case_of, evaluation, record, turn
from tests.tables import walk

TIMES = int(os.environ.get("EXAM_FUZZ_TIMES", "1"))
"""By how many more examples are drawn than in `make test`."""
AGAINST = BaseRun("artifact", name="main")
DAY = date(2027, 1, 31)
GRADED = Configuration(("openai/gpt-4o",), "a", "b", "c", "d", "1, ours")


def terms(base: Record, head: Record) -> TermsChanges | None:
    settings = Baseline() if head.baseline is None else head.baseline.settings
    return compare(base, head, settings, base_run=AGAINST, judged=judge_cases(head)).terms


def ways(base: Record, head: Record) -> set[str]:
    found = terms(base, head)
    return set() if found is None else {change.way for change in found.changes}


def fields_of(kind: type) -> set[str]:
    if issubclass(kind, BaseModel):
        return set(kind.model_fields)
    assert issubclass(kind, Struct)
    return set(kind.__struct_fields__)


@walk("kind", DECLARED)
def test_each_field_of_a_term_has_a_direction_or_a_reason_for_none(kind: type) -> None:
    assert set(DECLARED[kind]) == fields_of(kind)


@walk("kind", DECLARED)
def test_what_has_parts_names_a_kind_with_declarations(kind: type) -> None:
    hints = get_type_hints(kind)
    for name, term in DECLARED[kind].items():
        if isinstance(term, TermContainer):
            assert any(other.__name__ in str(hints[name]) for other in DECLARED), name


def words_of(kind: type, name: str) -> tuple[Any, ...]:
    hint = get_type_hints(kind)[name]
    return (False, True) if hint is bool else get_args(hint)


def test_orders_name_each_word_of_their_field() -> None:
    for kind, terms in DECLARED.items():
        for name, term in terms.items():
            if isinstance(term, StrictnessOrder):
                assert set(term.values) == set(words_of(kind, name)), (kind, name)


# A run with each term, and how a value of each kind is put into it.


def full() -> Record:
    """A record in which everything can become laxer and stricter."""
    bounds = {
        "bleu": GateMetric(min_mean=0.5, min_lower_bound=0.3, min_p10=0.4),
        "harm": GateMetric(max_mean=0.5, max_upper_bound=0.7, max_p90=0.6),
    }
    summary = GateSummary(method="weighted_average", weights={"bleu": 2.0}, min=0.5)
    limits = {name: 0.5 if gate.stricter == "higher" else 5 for name, gate in GATES.items()}
    made = Gates(metrics=bounds, summary=summary).model_copy(update=limits)
    assertion = ToolAssertion("find_order", True, 0)
    asked = turn(
        evaluation(0.9), ground_truth="yes", tool_assertions=(assertion, replace(assertion, expected="refund"))
    )
    cases = [case_of(asked, name=f"c{at}", content_hash=str(at) * 64, repeat=5, min_pass=4) for at in range(4)]
    made_record = record(*cases, gates=made)
    return replace(
        made_record,
        quarantine=(QuarantineEntry(case="case-3", reason="r", owner="o", expires=DAY),),
        configurations={"bleu": GRADED},
        stop_when_decided=False,
        baseline=RecordedBaseline(Baseline(source="artifact", margin=0.2).model_copy(update=WARNING), AGAINST),
    )


WARNING = dict.fromkeys(("on_regressed", "on_inconclusive", "on_case_regression", "on_loosened"), "warn")
Put = Callable[[Record, Any], Record]


class Lens(NamedTuple):
    """A value of a kind in a record."""

    get: Callable[[Record], Any]
    put: Put


def with_case(found: Record, changed: CaseRecord) -> Record:
    return replace(found, cases=tuple(changed if each.id == changed.id else each for each in found.cases))


def with_criteria(found: Record, criteria: Criteria) -> Record:
    first = found.cases[1]
    asked = first.trials[0].turns[0]
    by = replace(asked.evaluations[0], criteria=criteria)
    trial = replace(first.trials[0], turns=(replace(asked, evaluations=(by,)),))
    return with_case(found, replace(first, trials=(trial,)))


def with_gates(found: Record, **changes: Any) -> Record:
    return replace(found, gates=found.gates.model_copy(update=changes))


def with_settings(found: Record, settings: Baseline) -> Record:
    assert found.baseline is not None
    return replace(found, baseline=replace(found.baseline, settings=settings))


def baseline_settings(found: Record) -> Baseline:
    assert found.baseline is not None
    return found.baseline.settings


def bound(name: str) -> Lens:
    return Lens(
        lambda found: found.gates.metrics[name],
        lambda found, value: with_gates(found, metrics={**found.gates.metrics, name: value}),
    )


LENSES: dict[type, tuple[Lens, ...]] = {
    Record: (Lens(lambda found: found, lambda _, value: value),),
    Gates: (Lens(lambda found: found.gates, lambda found, value: replace(found, gates=value)),),
    GateMetric: (bound("bleu"), bound("harm")),
    GateSummary: (Lens(lambda found: found.gates.summary, lambda found, value: with_gates(found, summary=value)),),
    Baseline: (Lens(baseline_settings, with_settings),),
    QuarantineEntry: (
        Lens(lambda found: found.quarantine[0], lambda found, value: replace(found, quarantine=(value,))),
    ),
    CaseRecord: (Lens(lambda found: found.cases[1], with_case),),
    Criteria: (Lens(lambda found: found.cases[1].trials[0].turns[0].evaluations[0].criteria, with_criteria),),
    Configuration: (
        Lens(
            lambda found: found.configurations["bleu"],
            lambda found, value: replace(found, configurations={"bleu": value}),
        ),
    ),
}


def changed(value: Any, **fields: Any) -> Any:
    return value.model_copy(update=fields) if isinstance(value, BaseModel) else replace(value, **fields)


def test_there_is_a_lens_for_each_kind() -> None:
    assert set(LENSES) == set(DECLARED)


class Step(NamedTuple):
    """A field of a kind with a value on the base and another on the head, and what that is."""

    kind: type
    name: str
    before: Any
    now: Any
    way: Literal["laxer", "stricter", "changed", "noted"]


def numbers(random: Random, like: Any) -> tuple[Any, Any]:
    """Two different values, the lower one first."""
    if isinstance(like, date):
        days = sorted(random.sample(range(1000), 2))
        return DAY + timedelta(days[0]), DAY + timedelta(days[1])
    if isinstance(like, int):
        low, high = sorted(random.sample(range(100), 2))
        return low, high
    low, high = sorted(random.sample(range(1, 1000), 2))
    return low / 1000, high / 1000


def other(random: Random, like: Any) -> Any:
    if isinstance(like, str):
        return f"{like} {random.randrange(9)}"
    if isinstance(like, tuple):
        return (*like, f"m{random.randrange(9)}")
    if isinstance(like, dict):
        return {**like, f"k{random.randrange(9)}": 1.0}
    return 2.0 + random.random() if isinstance(like, float) else f"other{random.randrange(9)}"


def steps(random: Random, kind: type, lens: Lens, found: Record) -> Iterator[Step]:
    value = lens.get(found)
    for name, term in DECLARED[kind].items():
        now = getattr(value, name)
        match term:
            case HigherIsStricter() | LowerIsStricter():
                if now is None:
                    continue
                low, high = numbers(random, now)
                down, up = ("laxer", "stricter") if isinstance(term, HigherIsStricter) else ("stricter", "laxer")
                yield Step(kind, name, high, low, down)  # type: ignore[arg-type]
                yield Step(kind, name, low, high, up)  # type: ignore[arg-type]
                if not isinstance(now, date) and (kind, name) != (Baseline, "margin"):
                    off = "stricter" if term.absent is not None else "laxer"
                    on = "laxer" if term.absent is not None else "stricter"
                    yield Step(kind, name, max(low, 1), None, off)  # type: ignore[arg-type]
                    yield Step(kind, name, None, max(low, 1), on)  # type: ignore[arg-type]
            case StrictnessOrder(values):
                for at, then in enumerate(values):
                    for at_now, here in enumerate(values):
                        if at != at_now:
                            yield Step(kind, name, then, here, "laxer" if at_now < at else "stricter")
            case FewerIsStricter():
                yield Step(kind, name, ("good",), ("good", "ok"), "laxer")
                yield Step(kind, name, ("good", "ok"), ("good",), "stricter")
                yield Step(kind, name, ("good",), ("ok",), "changed")
                yield Step(kind, name, ("good",), None, "changed")
            case NoDirection():
                yield Step(kind, name, now, other(random, now), "changed")
            case Surrounding():
                yield Step(kind, name, now, other(random, now), "noted")
            case PresenceIsStricter():
                now = replace(now, settings=Baseline(source="artifact"))
                yield Step(kind, name, now, None, "laxer")
                yield Step(kind, name, None, now, "stricter")
            case TermContainer() | ComparedSeparately() | NotATerm():
                pass


def all_steps() -> list[tuple[Step, Lens]]:
    random = Random("steps")
    found = full()
    return [
        (step, lens)
        for _ in range(3 * TIMES)
        for kind, lenses in LENSES.items()
        for lens in lenses
        for step in steps(random, kind, lens, found)
    ]


def test_each_loosening_of_each_field_is_reported_and_no_tightening() -> None:
    found = all_steps()
    assert len({(step.kind, step.name) for step, _ in found}) == sum(
        not isinstance(term, TermContainer | ComparedSeparately | NotATerm)
        for terms in DECLARED.values()
        for term in terms.values()
    )
    for step, lens in found:
        start = full()
        base, head = (lens.put(start, changed(lens.get(start), **{step.name: value})) for value in step[2:4])
        expected = set() if step.way == "stricter" else {step.way}
        assert ways(base, head) == expected, step


# What is no single field.


def the_case(found: Record, **changes: Any) -> Record:
    return with_case(found, replace(found.cases[1], **changes))


def the_turn(found: Record, **changes: Any) -> Record:
    first = found.cases[1]
    trial = first.trials[0]
    asked = replace(trial.turns[0], **changes)
    return the_case(found, content_hash="f" * 64, trials=(replace(trial, turns=(asked,)),))


def threshold(found: Record, value: float | None, polarity: str = "maximize") -> Record:
    criteria = found.cases[1].trials[0].turns[0].evaluations[0].criteria
    return with_criteria(found, replace(criteria, threshold=value, polarity=polarity))


def test_each_change_of_trials_of_thresholds_and_of_polarity_is_told_by_its_direction() -> None:
    random, start = Random("joint"), full()
    for _ in range(100 * TIMES):
        (n, m) = random.randint(1, 9), random.randint(1, 9)
        k, least = random.randint(1, n), random.randint(1, m)
        base, head = the_case(start, repeat=n, min_pass=k), the_case(start, repeat=m, min_pass=least)
        laxer = any(passing(m, least, p) > passing(n, k, p) for p in CHANCES)
        tighter = any(passing(m, least, p) < passing(n, k, p) for p in CHANCES)
        expected = {"changed"} if laxer and tighter else {"laxer"} if laxer else set()
        assert ways(base, head) == expected, (n, k, m, least)
        low, high = numbers(random, 0.5)
        for polarity, laxer_pair in (("maximize", (high, low)), ("minimize", (low, high))):
            before, now = (threshold(start, value, polarity) for value in laxer_pair)
            assert ways(before, now) == {"laxer"}
            assert ways(now, before) == set()
            assert ways(before, threshold(start, None, polarity)) == {"laxer"}
    assert ways(threshold(start, 0.5), threshold(start, 0.5, "minimize")) == {"changed"}


CHANCES = (Fraction(1, 10**6), *(Fraction(p, 20) for p in range(1, 20)), 1 - Fraction(1, 10**6))
"""Of an agent to pass a trial."""


@cache
def passing(n: int, k: int, p: Fraction) -> Fraction:
    """The chance to pass k of n trials at least."""
    return sum((comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)), Fraction(0))


def without(found: Record, case_id: str) -> Record:
    return replace(found, cases=tuple(each for each in found.cases if each.id != case_id))


def test_what_is_removed_is_reported_and_what_is_added_is_not() -> None:
    found = full()
    quarantined = replace(
        found,
        quarantine=(*found.quarantine, QuarantineEntry(case="case-1", reason="r", owner="o", expires=DAY)),
    )
    first = found.cases[1].trials[0].turns[0]
    silent = the_case(found, trials=(replace(found.cases[1].trials[0], turns=(replace(first, evaluations=()),)),))
    bare = replace(found, configurations={})
    for lax, strict in (
        (without(found, "case-1"), found),
        (quarantined, found),
        (silent, found),
        (with_gates(found, metrics={}), found),
        (with_gates(found, summary=None), found),
        (replace(found, provenance=replace(found.provenance, filters={"limit": 3})), found),
    ):
        if lax.provenance.filters:
            lax = without(lax, "case-3")
        assert "laxer" in ways(strict, lax)
        assert ways(lax, strict) <= ({"unknown"} if lax.provenance.filters else set())
    assert ways(found, bare) == {"unknown"}
    assert ways(bare, found) == {"unknown"}


def test_a_quarantine_counts_while_it_is_in_force_by_id_or_name() -> None:
    found = full()

    def entry(case_name: str, expires: date = DAY) -> QuarantineEntry:
        return QuarantineEntry(case=case_name, reason="r", owner="o", expires=expires)

    bare = replace(found, quarantine=())
    assert ways(bare, replace(bare, quarantine=(entry("c1"),))) == {"laxer"}
    assert ways(replace(bare, quarantine=(entry("c1"),)), replace(bare, quarantine=(entry("case-1"),))) == set()
    # The run is of 2026-11-21.
    assert ways(bare, replace(bare, quarantine=(entry("c1", date(2026, 11, 20)),))) == set()
    assert ways(bare, replace(bare, quarantine=(entry("c1", date(2026, 11, 21)),))) == {"laxer"}


def test_a_renamed_case_is_one_change_and_still_compared() -> None:
    found = full()
    renamed = replace(found.cases[1], id="other", name="other", weight=2.0)
    shown = terms(found, replace(without(found, "case-1"), cases=(*without(found, "case-1").cases, renamed)))
    assert shown is not None
    assert [(change.way, change.text) for change in shown.changes] == [
        ("changed", "renames c1 to other at agent.yaml:3"),
        ("changed", "gives the weight 2 instead of 1 to other at agent.yaml:3"),
    ]


def test_questions_and_expectations_are_told_apart() -> None:
    found = full()
    asked = found.cases[1].trials[0].turns[0]

    def said(head: Record) -> list[tuple[str, str]]:
        shown = terms(found, head)
        assert shown is not None
        return [(change.way, change.said) for change in shown.changes]

    assert said(the_turn(found, input="another")) == [("changed", "changes the question of")]
    assert said(the_turn(found, ground_truth="no")) == [("changed", "changes the ground truth of")]
    assert said(the_turn(found, ground_truth=None)) == [("laxer", "removes the ground truth of")]
    assert said(the_turn(found, tool_assertions=asked.tool_assertions[:1])) == [
        ("laxer", "removes some expected tools of")
    ]
    assert said(the_turn(found, tool_assertions=())) == [("laxer", "removes some expected tools of")]
    assert said(the_turn(found)) == [("changed", "changes the inputs or expectations of")]
    unknown = (replace(asked.tool_assertions[0], matched=None),)
    assert said(the_turn(found, tool_assertions=unknown)) == [("changed", "changes the inputs or expectations of")]


def test_the_change_of_a_judge_names_the_judges_and_other_changes_the_metric() -> None:
    def said(graded: Configuration) -> list[str]:
        shown = terms(full(), replace(full(), configurations={"bleu": graded}))
        assert shown is not None
        return [change.said for change in shown.changes]

    panel = replace(GRADED, judges=("openai/gpt-5", "anthropic/claude"))
    assert said(panel) == ["uses judge openai/gpt-5 and anthropic/claude instead of openai/gpt-4o for bleu"]
    assert said(replace(GRADED, metric="other")) == ["changes the rubric or settings of bleu"]


def test_what_a_base_does_not_tell_is_unknown_and_not_equal() -> None:
    found = full()
    unrun = the_case(found, trials=())
    assert ways(unrun, found) == {"unknown"}
    beside = compare(found, found, Baseline(), base_run=BaseRun("merge-base"), judged=judge_cases(found)).terms
    assert beside is not None
    assert [change.way for change in beside.changes] == ["unknown"]


def test_the_stricter_word_of_base_and_head_counts_and_changes_fail_by_it() -> None:
    strict = with_settings(full(), baseline_settings(full()).model_copy(update={"on_loosened": "fail"}))
    loose = with_settings(strict, baseline_settings(strict).model_copy(update={"on_loosened": "ignore"}))
    verdict = decide(loose, Terms(base=strict))
    (gate,) = (each for each in verdict.gates if each.name == "baseline.on_loosened")
    assert (gate.state, verdict.exit_code) == ("failed", 1)
    assert gate.reason == "the run sets on_loosened to ignore instead of fail"
    same = decide(strict, Terms(base=strict))
    (gate,) = (each for each in same.gates if each.name == "baseline.on_loosened")
    assert (gate.state, gate.reason) == ("passed", "nothing is less strict than on the base")
    assert [each.name for each in decide(loose, Terms(base=loose)).gates if "loosened" in each.name] == []


def test_many_changes_are_cut_and_names_are_quoted() -> None:
    found = record(*(case("P", name=f"a, and lowers\nnothing {at}") for at in range(20)))
    shown = terms(found, replace(found, cases=found.cases[19:]))
    assert shown is not None
    (change,) = shown.changes
    assert change.text == (
        'removes "a, and lowers\\nnothing 0", "a, and lowers\\nnothing 1", "a, and lowers\\nnothing 2" and 16 more '
        "at agent.yaml:3 on the base"
    )
    assert len(change.places) == 19
    assert [plain_name(name) for name in ('contains "30 days"', 'isn\'t "it"', 'a\n"b"')] == [
        "'contains \"30 days\"'",
        '"isn\'t \\"it\\""',
        "'a\\n\"b\"'",
    ]
    many = tuple(TermsChange("laxer", f"lowers gate{at}", ()) for at in range(20))
    assert changes_clause(many) == "lowers gate0, lowers gate1, lowers gate2, lowers gate3 and 16 more"
