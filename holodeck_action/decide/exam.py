"""The terms of a run beside those of its base: what became laxer, what changed, and what the base does not tell."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from holodeck_action.decide.exam_cases import (
    CaseTerms,
    case_changes,
    field_phrase,
    own_terms,
    recorded_terms,
)
from holodeck_action.decide.exam_changes import (
    ChangedPlace,
    ExamChange,
    ExamChanges,
    Way,
    in_order,
    listing,
    plain_name,
)
from holodeck_action.decide.survey import expired
from holodeck_action.decide.terms import EXPIRES, REACTIONS, compared_fields
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import BaseRun, CaseRecord, Record
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.policy import Baseline, GateMetric, Gates, GateSummary, Reaction

_BESIDE = "against"
"""How the sources of bases begin that ran beside because the command line said so."""
_UNTOLD = (ExamChange("unknown", "leaves unknown what the base itself asks for, which its record does not tell", ()),)
_NO_BOUNDS = GateMetric.model_construct()
_CONFIGURED = {
    "addresses": "asks the judges of {} at other addresses",
    "model_settings": "asks the judges of {} with other settings",
    "panel": "makes one verdict of several in another way for {}",
    "metric": "changes the rubric or settings of {}",
    "version": "grades {} by another version",
}


class ExamTally:
    """What became of the terms of a base, from the cases of both runs one by one."""

    def __init__(self, base: Record, head: Record, against: BaseRun, gates: Gates, settings: Baseline) -> None:
        """Take both runs, of whose cases nothing is read.

        Args:
            base: the record of the base.
            head: the record of the head.
            against: where the base comes from.
            gates: those that the head is judged by.
            settings: how the head is compared.
        """
        self._base, self._head, self._gates, self._settings = base, head, gates, settings
        self._own = base.own
        # The record of such a base has the terms of the head.
        self._told = base.own is not None or not (against.source == MERGE_BASE or against.source.startswith(_BESIDE))
        self._own_cases = {case.id: case for case in base.own.cases} if base.own is not None else {}
        self._changed: dict[tuple[Way, str], list[ChangedPlace]] = {}
        self._asked: dict[str | None, CaseTerms] = {}
        self._quarantined: set[str | None] = {entry.case for entry in (*base.quarantine, *head.quarantine)}
        # By place: of large runs, cases are read again.
        self._removed = array("Q")
        self._added: dict[str, int] = {}
        self._judged: tuple[set[str], set[str]] = (set(), set())

    def add(self, now: CaseRecord, before: CaseRecord | None, place: int) -> None:
        """Add a case of the head, which has it at a place, and the one with the same id of the base; None for none."""
        if before is not None:
            # Entries name cases by id or name.
            for key in {now.id, now.name} & self._quarantined:
                self._asked[key] = recorded_terms(now, content=False)
        self._add_judged(now, self._judged[1])
        if before is None:
            self._added.setdefault(now.content_hash, place)
            return
        self._add_judged(before, self._judged[0])
        own = self._own_cases.get(before.id, before)
        if self._told and (now.trials or self._head.run.shard is None):
            # The texts of cases that are the same need no look.
            content = own.content_hash != now.content_hash
            terms = recorded_terms(now, content=content)
            for change in case_changes(self._terms_of(before, content=content), terms):
                self._changed.setdefault((change.way, change.said), []).extend(change.places)

    def add_removed(self, before: CaseRecord, place: int) -> None:
        """Add a case that only the base has, at a place."""
        self._add_judged(before, self._judged[0])
        self._removed.append(place)

    def found(self) -> ExamChanges | None:
        """Return what became of the terms; None where nothing did, and nothing is unknown."""
        found: dict[tuple[Way, str], list[ChangedPlace]] = {}
        for change in (*(self._run() if self._told else _UNTOLD), *self._cases()):
            found.setdefault((change.way, change.said), []).extend(change.places)
        for what, places in self._changed.items():
            found.setdefault(what, []).extend(places)
        if not found:
            return None
        changes = (ExamChange(way, said, tuple(places)) for (way, said), places in found.items())
        return ExamChanges(stricter(self._before.on_loosened, self._settings.on_loosened), in_order(changes))

    @property
    def _before(self) -> Baseline:
        """How the base was compared; the defaults where it was compared with nothing, since others are refused then."""
        return baseline_of(self._base)

    def _terms_of(self, before: CaseRecord, *, content: bool = True) -> CaseTerms:
        own = self._own_cases.get(before.id)
        if own is None or self._own is None:
            return recorded_terms(before, content=content)
        return own_terms(own, self._own)

    def _add_judged(self, case: CaseRecord, names: set[str]) -> None:
        names.update(
            each.evaluator_name for turn in case.turns for each in turn.evaluations if each.status != "skipped"
        )

    def _run(self) -> Iterator[ExamChange]:
        """Yield what became of the terms of the whole run."""
        then = self._own if self._own is not None else self._base
        yield from self._fields(Gates, then.gates, self._gates, "", "gates")
        bounds = (then.gates.metrics, self._gates.metrics)
        for name in sorted({*bounds[0], *bounds[1]}):
            old, new = (each.get(name, _NO_BOUNDS) for each in bounds)
            yield from self._fields(GateMetric, old, new, f"{{}} of {plain_name(name)}", f"gates.metrics.{name}")
        yield from self._summary(then.gates.summary, self._gates.summary)
        yield from self._fields(Baseline, self._before, self._settings, "", "baseline")
        if self._base.baseline is not None and self._head.baseline is None:
            yield ExamChange("laxer", "is compared with no base", ())
        for name, term in compared_fields(Record):
            if name == "stop_when_decided":
                before, now = then.stop_when_decided, self._head.stop_when_decided
                yield from self._field(name, term, before, now, "", "trials")
        yield from self._quarantine()
        yield from self._configurations(then.configurations)

    def _fields(self, kind: type, before: Any, now: Any, label: str, place: str) -> Iterator[ExamChange]:
        for name, term in compared_fields(kind):
            yield from self._field(name, term, getattr(before, name), getattr(now, name), label, place)

    def _field(self, name: str, term: Any, before: Any, now: Any, label: str, place: str) -> Iterator[ExamChange]:
        way = term.way(before, now)
        if way in ("laxer", "changed"):
            shown = label.replace("{}", name) if label else name
            yield ExamChange(way, field_phrase(term, shown, before, now), (self._key(f"{place}.{name}"),))

    def _key(self, name: str) -> ChangedPlace:
        """Return where a key of the policy file stands, or stood."""
        mark = self._head.marks.get(name)
        if mark is not None:
            return ChangedPlace("", mark)
        return ChangedPlace("", self._base.marks.get(name), name in self._base.marks)

    def _summary(self, before: GateSummary | None, now: GateSummary | None) -> Iterator[ExamChange]:
        if before is not None and now is None:
            yield ExamChange("laxer", "switches off the gate summary", (self._key("gates.summary"),))
        elif before is not None and now is not None:
            for name, term in compared_fields(GateSummary):
                for change in self._field(name, term, getattr(before, name), getattr(now, name), "summary.{}", ""):
                    yield ExamChange(change.way, change.said, (self._key("gates.summary"),))

    def _quarantine(self) -> Iterator[ExamChange]:
        """Yield what became of the quarantine of cases that the base has, too, as far as it is in force."""
        today = date.fromisoformat(self._head.run.started_at[:10])
        known = {self._asked[entry.case].id: entry for entry in self._base.quarantine if entry.case in self._asked}
        for entry in self._head.quarantine:
            case = self._asked.get(entry.case)
            if case is None or expired(entry, today):
                continue
            place = ChangedPlace(case.title, self._head.marks.get(f"quarantine.{entry.case}"))
            old = known.get(case.id)
            if old is None:
                yield ExamChange("laxer", "quarantines", (place,))
            elif EXPIRES.way(old.expires, entry.expires) == "laxer":
                until = f"until {entry.expires} instead of {old.expires}"
                yield ExamChange("laxer", f"quarantines {until}:", (place,))

    def _configurations(self, before: Mapping[str, Configuration]) -> Iterator[ExamChange]:
        now = self._head.configurations
        both = self._judged[0] & self._judged[1]
        for name in sorted(before.keys() | now.keys()):
            then, new, shown = before.get(name), now.get(name), plain_name(name)
            if then is not None and new is not None:
                yield from _judging(shown, then, new)
            elif name in both or (self._own is not None and then is None and name in self._judged[0]):
                side = "on the base" if then is None else "now"
                yield ExamChange("unknown", f"leaves unknown who judges {shown} {side}", ())

    def _cases(self) -> Iterator[ExamChange]:
        """Yield what became of cases that only one run has."""
        filters = self._head.provenance.filters
        left_out = "removes"
        if filters and filters != self._base.provenance.filters:
            left_out = f"leaves out (by its filters: {listing(sorted(filters))})"
        for gone in (self._terms_of(self._base.cases[place]) for place in self._removed):
            place = self._added.get(gone.content_hash)
            if place is not None:
                again = recorded_terms(self._head.cases[place])
                renamed = f"renames {plain_name(gone.title)} to"
                yield ExamChange("changed", renamed, (ChangedPlace(again.title, again.source),))
                if self._told:
                    yield from case_changes(gone, again)
            else:
                yield ExamChange("laxer", left_out, (ChangedPlace(gone.title, gone.source, True),))
        others = self._base.provenance.filters
        if self._added and others and filters != others:
            said = (
                f"leaves unknown what the base asked of the cases that its filters ({listing(sorted(others))}) left out"
            )
            yield ExamChange("unknown", said, ())


def _judging(shown: str, before: Configuration, now: Configuration) -> Iterator[ExamChange]:

    for name, term in compared_fields(Configuration):
        then, new = getattr(before, name), getattr(now, name)
        if term.way(then, new) is None:
            continue
        if name == "judges":
            old, judges = (listing([plain_name(judge) for judge in each]) for each in (then, new))
            yield ExamChange("changed", f"asks judge {judges} instead of {old} for {shown}", ())
        else:
            yield ExamChange("changed", _CONFIGURED.get(name, "changes the judges of {}").format(shown), ())


def stricter(one: Reaction, other: Reaction) -> Reaction:
    """Return the stricter one of two reactions."""
    return max(one, other, key=REACTIONS.values.index)


def baseline_of(record: Record) -> Baseline:
    """Return how a run was compared; the defaults where it was compared with nothing, since others are refused then."""
    if record.own is not None:
        return record.own.baseline
    return Baseline() if record.baseline is None else record.baseline.settings
