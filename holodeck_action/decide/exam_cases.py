"""What a case asks for on base and head: questions, expectations, trials, weight, metrics; and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holodeck_action.decide.exam_changes import ChangedPlace, ExamChange, listing, plain_name
from holodeck_action.decide.terms import Compared, Higher, Lower, compared_fields, threshold_way, trials_way
from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.own_terms import OwnCase, OwnTerms, OwnTurn, text_digest
from holodeck_action.record.record import CaseRecord, TurnRecord
from holodeck_action.suite.errors import SourceMark


class TurnTerms(Struct, frozen=True):
    """What a turn asks for.

    Attributes:
        question: digest of what is asked.
        ground_truth: digest of the expected answer; None for none.
        tools: the expected tool calls; None where they are not known, because the turn was not answered.
        metrics: the criteria of each metric, by its name, the strictest first.
    """

    question: str
    ground_truth: str | None
    tools: tuple[str, ...] | None
    metrics: Mapping[str, Sequence[Criteria]]


class CaseTerms(Struct, frozen=True):
    """What a case asks for.

    `turns` is None where it was not run, so that nothing tells. Other fields are as in `CaseRecord`.
    """

    id: str
    name: str | None
    content_hash: str
    source: SourceMark
    repeat: int
    min_pass: int
    weight: float
    asserting: bool
    turns: tuple[TurnTerms, ...] | None

    @property
    def title(self) -> str:
        """Its name, or its id without one."""
        return self.name or self.id


def recorded_terms(case: CaseRecord, *, content: bool = True) -> CaseTerms:
    """Return what a case asked for, by its record; without `content` no digests of texts, which take a while."""
    turns = tuple(_recorded_turn(turn, content=content) for turn in case.trials[0].turns) if case.trials else None
    return _terms(case, turns)


def own_terms(case: OwnCase, own: OwnTerms) -> CaseTerms:
    """Return what a case asks for in the suite of its own."""
    return _terms(case, tuple(_own_turn(turn, own.criteria) for turn in case.turns))


def _terms(case: CaseRecord | OwnCase, turns: tuple[TurnTerms, ...] | None) -> CaseTerms:
    return CaseTerms(
        id=case.id,
        name=case.name,
        content_hash=case.content_hash,
        source=case.source,
        repeat=case.repeat,
        min_pass=case.min_pass,
        weight=case.weight,
        asserting=case.asserting,
        turns=turns,
    )


def _recorded_turn(turn: TurnRecord, *, content: bool) -> TurnTerms:
    metrics = _by_name((each.evaluator_name, each.criteria) for each in turn.evaluations)
    if not content:
        return TurnTerms("", None, None, metrics)
    known = turn.error is None and turn.skipped is None
    known = known and all(assertion.matched is not None for assertion in turn.tool_assertions)
    return TurnTerms(
        text_digest(turn.input),
        None if turn.ground_truth is None else text_digest(turn.ground_truth),
        tuple(assertion.expected for assertion in turn.tool_assertions) if known else None,
        metrics,
    )


def _own_turn(turn: OwnTurn, criteria: Sequence[Criteria]) -> TurnTerms:
    named = ((name, criteria[at]) for name, at in turn.metrics)
    return TurnTerms(turn.question, turn.ground_truth, turn.tools, _by_name(named))


def _by_name(criteria: Iterator[tuple[str, Criteria]]) -> Mapping[str, Sequence[Criteria]]:
    found: dict[str, list[Criteria]] = {}
    for name, each in criteria:
        found.setdefault(name, []).append(each)
    return {name: sorted(each, key=_laxity) if len(each) > 1 else each for name, each in found.items()}


def _laxity(criteria: Criteria) -> tuple[bool, bool, float]:
    threshold = criteria.threshold or 0.0
    return (
        not criteria.asserts,
        criteria.threshold is None,
        -threshold if criteria.polarity == "maximize" else threshold,
    )


def case_changes(before: CaseTerms, now: CaseTerms) -> Iterator[ExamChange]:
    """Yield what became of a case that both have."""
    found = [*_content(before, now), *_metrics(before, now)]
    yield from found
    here = (ChangedPlace(now.title, now.source),)
    for name, term in compared_fields(CaseRecord):
        then, new = getattr(before, name), getattr(now, name)
        way = term.way(then, new)
        if name == "asserting":
            # Where a metric that went says it already, it is not said twice.
            if way == "laxer" and not any(change.way == "laxer" for change in found):
                yield ExamChange(way, "lets nothing assert in", here)
        elif way in ("laxer", "changed"):
            yield ExamChange(way, f"gives the {name} {figure(new)} instead of {figure(then)} to", here)
    trials = [(each.repeat, each.min_pass) for each in (before, now)]
    way = trials_way(*trials)
    if way in ("laxer", "changed"):
        asked, was = (f"{least} of {repeat}" for repeat, least in reversed(trials))
        yield ExamChange(way, f"asks for {asked} passing trials instead of {was} in", here)


def _content(before: CaseTerms, now: CaseTerms) -> Iterator[ExamChange]:
    """Yield what became of questions and expectations, as far as records tell them apart."""
    if before.content_hash == now.content_hash:
        return
    here = (ChangedPlace(now.title, now.source),)
    old, new = before.turns or (), now.turns or ()
    found = list(_parts(old, new)) if old and new else []
    if len(new) < len(old) and new:
        yield ExamChange("laxer", "removes turns of", here)
    elif len(old) < len(new) and old:
        yield ExamChange("changed", "adds turns to", here)
    for what in ("question", "ground truth", "expected tools"):
        ways = {way for part, way in found if part == what}
        if "laxer" in ways:
            yield ExamChange("laxer", f"removes {'the' if what == 'ground truth' else 'some'} {what} of", here)
        if "changed" in ways:
            yield ExamChange("changed", f"changes the {what} of", here)
    if not found and (len(old) == len(new) or not old or not new):
        yield ExamChange("changed", "changes the questions or expectations of", here)


def _parts(old: Sequence[TurnTerms], new: Sequence[TurnTerms]) -> Iterator[tuple[str, str]]:
    for before, now in zip(old, new, strict=False):
        if before.question != now.question:
            yield "question", "changed"
        if before.ground_truth != now.ground_truth:
            yield "ground truth", "laxer" if now.ground_truth is None else "changed"
        if before.tools is not None and now.tools is not None and Counter(before.tools) != Counter(now.tools):
            yield "expected tools", "laxer" if Counter(now.tools) < Counter(before.tools) else "changed"


def _metrics(before: CaseTerms, now: CaseTerms) -> Iterator[ExamChange]:
    if before.turns is None or now.turns is None:
        place = ChangedPlace(now.title, now.source)
        yield ExamChange("unknown", "leaves unknown whether metrics changed in", (place,))
        return
    seen: set[tuple[str, str]] = set()
    for then, here in zip(before.turns, now.turns, strict=False):
        for name, criteria in then.metrics.items():
            others = here.metrics.get(name, ())
            for at, old in enumerate(criteria):
                changes = _removed(name, old) if at >= len(others) else criteria_changes(name, old, others[at])
                for way, said, mark, of_base in changes:
                    if (way, said) not in seen:
                        seen.add((way, said))
                        source = mark or (before.source if of_base else now.source)
                        yield ExamChange(way, said, (ChangedPlace(now.title, source, of_base),))


_Found = tuple[Any, str, SourceMark | None, bool]


def _removed(name: str, old: Criteria) -> Iterator[_Found]:
    yield "laxer", f"removes {plain_name(name)} from", old.source, True


def criteria_changes(name: str, before: Criteria, now: Criteria) -> Iterator[_Found]:
    """Yield what became of the criteria of a metric: which way, the phrase, and where they stand."""
    if before == now:
        return
    shown = plain_name(name)
    for field, term in compared_fields(Criteria):
        then, new = getattr(before, field), getattr(now, field)
        way = term.way(then, new)
        if way is None or way == "stricter":
            continue
        if field == "asserts":
            yield way, f"no longer lets {shown} fail", now.source, False
        elif field == "fail_on_error" and before.asserts and now.asserts:
            yield way, f"no longer lets errors of {shown} fail", now.source, False
        elif field == "settings":
            yield way, f"changes the settings of {shown} ({_differing(then, new)}) in", now.source, False
        elif field == "pass_values" and before.asserts and now.asserts:
            yield way, _values(shown, way, then, new), now.source, False
        elif field in ("kind", "metric", "polarity"):
            what = {"kind": "type", "metric": "measure"}.get(field, field)
            yield (
                way,
                f"changes the {what} of {shown} from {plain_name(str(then))} to {plain_name(str(new))} in",
                now.source,
                False,
            )
    if before.asserts and now.asserts and before.polarity == now.polarity:
        way = threshold_way(before, now)
        if way in ("laxer", "changed"):
            by: Compared = Higher() if now.polarity == "maximize" else Lower()
            said = field_phrase(by, f"the threshold of {shown}", before.threshold, now.threshold)
            yield way, f"{said} in", now.source, False


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return ", ".join(map(plain_name, names))


def _values(shown: str, way: str, before: Sequence[str] | None, now: Sequence[str] | None) -> str:
    added = sorted(set(now or ()) - set(before or ()))
    if way == "laxer":
        return f"lets {listing([plain_name(value) for value in added[:3]])} pass {shown} in"
    return f"changes the passing values of {shown} in"


def field_phrase(term: Compared, label: str, before: Any, now: Any) -> str:
    """Say what became of a field: plain text."""
    if isinstance(term, Higher | Lower):
        then, new = (term.absent if value is None else value for value in (before, now))
        if then is None:
            return f"sets {label} to {figure(new)}"
        if new is None:
            return f"switches off {label} (it was {figure(then)})"
        verb = "lowers" if new < then else "raises"
        old_text, new_text = figures(then, new)
        return f"{verb} {label} from {old_text} to {new_text}"
    if isinstance(before, Mapping) or isinstance(now, Mapping):
        return f"changes {label}"
    return f"sets {label} to {figure(now)} instead of {figure(before)}"


def figures(before: Any, now: Any) -> tuple[str, str]:
    """Return two different values so that their texts differ, too."""
    texts = figure(before), figure(now)
    return texts if texts[0] != texts[1] else (repr(before), repr(now))


def figure(value: Any) -> str:
    """Return a value of a term as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | int):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:,}"
    return "none" if value is None else plain_name(str(value))
