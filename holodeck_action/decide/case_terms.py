"""The terms of a case on base and head (questions, expectations, trials, weight, metrics) and their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.terms import (
    Compared,
    HigherIsStricter,
    LowerIsStricter,
    compare_thresholds,
    compare_trials,
    comparison_rules,
)
from holodeck_action.decide.terms_changes import ChangedPlace, TermsChange, join_phrases, plain_name
from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.own_terms import OwnCase, OwnTerms, OwnTurn, text_digest
from holodeck_action.record.record import CaseRecord, SimulatedUser, TurnRecord
from holodeck_action.suite.errors import SourceMark


class TurnTerms(Struct, frozen=True):
    """The terms of a turn.

    Attributes:
        question: digest of the input; empty if digests were not requested.
        ground_truth: digest of the expected answer; None if there is no expected answer or digests were not requested.
        tools: the expected tool calls; None if the turn was not answered or digests were not requested.
        metrics: the criteria of each metric, by name, the strictest first.
    """

    question: str
    ground_truth: str | None
    tools: tuple[str, ...] | None
    metrics: Mapping[str, Sequence[Criteria]]


class CaseTerms(Struct, frozen=True):
    """The terms of a case.

    `turns` is None if the case was not run. The other fields are those of `CaseRecord`.
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
    user: SimulatedUser | None = None

    @property
    def title(self) -> str:
        """The case's name, or its id if it has no name."""
        return self.name or self.id


def recorded_terms(case: CaseRecord, *, content: bool = True) -> CaseTerms:
    """Return the terms of a case from its record; `content=False` omits the digests of texts, which are slow."""
    if not case.trials:
        return _case_terms(case, None)
    trial = case.trials[0]
    asked = trial.turns
    if trial.evaluations:
        # Metrics of the whole conversation are terms of the last turn, as in the suite.
        asked = (*asked[:-1], replace(asked[-1], evaluations=(*asked[-1].evaluations, *trial.evaluations)))
    if case.user is not None:
        # What a simulated user writes is no term; the last turn has the expectations and metrics.
        asked = tuple(replace(turn, input="") for turn in asked[-1:])
    return _case_terms(case, tuple(_recorded_turn(turn, content=content) for turn in asked))


def own_terms(case: OwnCase, own_terms: OwnTerms) -> CaseTerms:
    """Return the terms of a case in the base's suite; the record of the case can contain the head's terms instead."""
    return _case_terms(case, tuple(_own_turn(turn, own_terms.criteria) for turn in case.turns))


def _case_terms(case: CaseRecord | OwnCase, turns: tuple[TurnTerms, ...] | None) -> CaseTerms:
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
        user=case.user if isinstance(case, CaseRecord) else None,
    )


def _recorded_turn(turn: TurnRecord, *, content: bool) -> TurnTerms:
    metrics = _criteria_by_metric((each.evaluator_name, each.criteria) for each in turn.evaluations)
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
    return TurnTerms(turn.question, turn.ground_truth, turn.tools, _criteria_by_metric(named))


def _criteria_by_metric(criteria: Iterator[tuple[str, Criteria]]) -> Mapping[str, Sequence[Criteria]]:
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


def case_changes(before: CaseTerms, now: CaseTerms) -> Iterator[TermsChange]:
    """Yield the changes of a case that both runs have."""
    found = [*_content_changes(before, now), *_metric_changes(before, now)]
    yield from found
    here = (ChangedPlace(now.title, now.source),)
    for name, term in comparison_rules(CaseRecord):
        then, new = getattr(before, name), getattr(now, name)
        way = term.compare(then, new)
        if name == "asserting":
            # A removed metric has been reported already.
            if way == "laxer" and not any(change.way == "laxer" for change in found):
                yield TermsChange(way, "removes every assertion of", here)
        elif way in ("laxer", "changed"):
            yield TermsChange(way, f"gives the {name} {value_text(new)} instead of {value_text(then)} to", here)
    trials = [(each.repeat, each.min_pass) for each in (before, now)]
    way = compare_trials(*trials)
    if way in ("laxer", "changed"):
        asked, was = (f"{least} of {repeat}" for repeat, least in reversed(trials))
        yield TermsChange(way, f"requires {asked} passing trials instead of {was} in", here)


def _content_changes(before: CaseTerms, now: CaseTerms) -> Iterator[TermsChange]:
    """Yield the changes of questions and expectations, as precisely as records allow."""
    if before.content_hash == now.content_hash:
        return
    here = (ChangedPlace(now.title, now.source),)
    old, new = before.turns or (), now.turns or ()
    found = list(_part_changes(old, new)) if old and new else []
    user_change = changed_model(before.user, now.user)
    if user_change:
        yield TermsChange("changed", f"lets {user_change} the user of", here)
    if len(new) < len(old) and new:
        yield TermsChange("laxer", "removes turns of", here)
    elif len(old) < len(new) and old:
        yield TermsChange("changed", "adds turns to", here)
    for what in ("question", "ground truth", "expected tools"):
        ways = {way for part, way in found if part == what}
        if "laxer" in ways:
            yield TermsChange("laxer", f"removes {'the' if what == 'ground truth' else 'some'} {what} of", here)
        if "changed" in ways:
            yield TermsChange("changed", f"changes the {what} of", here)
    if not found and not user_change and (len(old) == len(new) or not old or not new):
        yield TermsChange("changed", "changes the inputs or expectations of", here)


def changed_model(before: SimulatedUser | None, now: SimulatedUser | None) -> str:
    """Return the change of the model that plays a user, as a phrase with a verb; empty if nothing changed."""
    if before is None or now is None:
        return ""
    if before.model != now.model:
        return f"{plain_name(now.model)} instead of {plain_name(before.model)} play"
    if before.temperature != now.temperature:
        return f"{plain_name(now.model)} with another temperature play"
    if before.prompt_digest != now.prompt_digest:
        return f"{plain_name(now.model)} with another prompt play"
    return ""


def _part_changes(old_turns: Sequence[TurnTerms], new_turns: Sequence[TurnTerms]) -> Iterator[tuple[str, str]]:
    for before, now in zip(old_turns, new_turns, strict=False):
        if before.question != now.question:
            yield "question", "changed"
        if before.ground_truth != now.ground_truth:
            yield "ground truth", "laxer" if now.ground_truth is None else "changed"
        if before.tools is not None and now.tools is not None and Counter(before.tools) != Counter(now.tools):
            yield "expected tools", "laxer" if Counter(now.tools) < Counter(before.tools) else "changed"


def _metric_changes(before: CaseTerms, now: CaseTerms) -> Iterator[TermsChange]:
    if before.turns is None or now.turns is None:
        place = ChangedPlace(now.title, now.source)
        yield TermsChange("unknown", "does not record whether metrics changed in", (place,))
        return
    seen: set[tuple[str, str]] = set()
    for then, here in zip(before.turns, now.turns, strict=False):
        for name, criteria in then.metrics.items():
            others = here.metrics.get(name, ())
            for at, old in enumerate(criteria):
                changes = _removal_change(name, old) if at >= len(others) else criteria_changes(name, old, others[at])
                for way, said, mark, of_base in changes:
                    if (way, said) not in seen:
                        seen.add((way, said))
                        source = mark or (before.source if of_base else now.source)
                        yield TermsChange(way, said, (ChangedPlace(now.title, source, of_base),))


_CriteriaChange = tuple[Any, str, SourceMark | None, bool]


def _removal_change(name: str, base_criteria: Criteria) -> Iterator[_CriteriaChange]:
    yield "laxer", f"removes {plain_name(name)} from", base_criteria.source, True


def criteria_changes(name: str, before: Criteria, now: Criteria) -> Iterator[_CriteriaChange]:
    """Yield the changes of a metric's criteria as tuples.

    Each has the direction (such as `laxer`), a phrase, a position, and whether the position is in the base's files.
    """
    if before == now:
        return
    shown = plain_name(name)
    for field, term in comparison_rules(Criteria):
        then, new = getattr(before, field), getattr(now, field)
        way = term.compare(then, new)
        if way is None or way == "stricter":
            continue
        if field == "asserts":
            yield way, f"no longer lets {shown} fail", now.source, False
        elif field == "fail_on_error" and before.asserts and now.asserts:
            yield way, f"no longer lets errors of {shown} fail", now.source, False
        elif field == "settings":
            yield way, f"changes the settings of {shown} ({_differing_settings(then, new)}) in", now.source, False
        elif field == "pass_values" and before.asserts and now.asserts:
            yield way, _values_phrase(shown, way, then, new), now.source, False
        elif field in ("kind", "metric", "polarity"):
            what = {"kind": "type", "metric": "measure"}.get(field, field)
            yield (
                way,
                f"changes the {what} of {shown} from {plain_name(str(then))} to {plain_name(str(new))} in",
                now.source,
                False,
            )
    if before.asserts and now.asserts and before.polarity == now.polarity:
        way = compare_thresholds(before, now)
        if way in ("laxer", "changed"):
            by: Compared = HigherIsStricter() if now.polarity == "maximize" else LowerIsStricter()
            said = field_phrase(by, f"the threshold of {shown}", before.threshold, now.threshold)
            yield way, f"{said} in", now.source, False


def _differing_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return ", ".join(map(plain_name, names))


def _values_phrase(text: str, direction: str, before: Sequence[str] | None, now: Sequence[str] | None) -> str:
    added = sorted(set(now or ()) - set(before or ()))
    if direction == "laxer":
        return f"lets {join_phrases([plain_name(value) for value in added[:3]])} pass {text} in"
    return f"changes the passing values of {text} in"


def field_phrase(term: Compared, label: str, before: Any, now: Any) -> str:
    """Return the change of a field as a plain-text phrase, such as `lowers min_pass_rate from 1 to 0.5`."""
    if isinstance(term, HigherIsStricter | LowerIsStricter):
        then, new = (term.absent if value is None else value for value in (before, now))
        if then is None:
            return f"sets {label} to {value_text(new)}"
        if new is None:
            return f"switches off {label} (it was {value_text(then)})"
        verb = "lowers" if new < then else "raises"
        old_text, new_text = value_texts(then, new)
        return f"{verb} {label} from {old_text} to {new_text}"
    if isinstance(before, Mapping) or isinstance(now, Mapping):
        return f"changes {label}"
    return f"sets {label} to {value_text(now)} instead of {value_text(before)}"


def value_texts(before: Any, now: Any) -> tuple[str, str]:
    """Format two different values so that their strings differ, too."""
    texts = value_text(before), value_text(now)
    return texts if texts[0] != texts[1] else (repr(before), repr(now))


def value_text(value: Any) -> str:
    """Format the value of a term as a string."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | int):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:,}"
    return "none" if value is None else plain_name(str(value))
