"""Compares the terms of a run with the terms of its base.

Terms are the requirements for a pass: cases, metrics, thresholds and gates. The comparison finds terms that are less
strict than the base's, changed, or unknown on the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from msgspec.structs import replace

from holodeck_action.decide.case_terms import (
    CaseTerms,
    case_changes,
    field_phrase,
    own_terms,
    recorded_terms,
)
from holodeck_action.decide.closure_changes import closure_changes
from holodeck_action.decide.survey import is_expired
from holodeck_action.decide.terms import EXPIRES, REACTIONS, comparison_rules
from holodeck_action.decide.terms_changes import (
    ChangedPlace,
    TermsChange,
    TermsChanges,
    Topic,
    Way,
    join_phrases,
    plain_name,
    sort_changes,
)
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import BaseRun, CaseRecord, Record
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.policy import Baseline, GateMetric, Gates, GateSummary, Reaction

_AGAINST = "against"
"""Start of `BaseRun.source` if a command-line option ran the base together with the head."""
_UNKNOWN_TERMS = (
    TermsChange(
        "unknown", ("cannot be compared with the base's own terms, which the base's record does not contain"), ()
    ),
)
_SECTIONS = {"stop_when_decided": ("", "trials"), "consistent": ("judges.{}", "judges")}
"""The label and the section of the policy file of each term that applies to the whole run."""
_NO_BOUNDS = GateMetric.model_construct()
_CONFIGURATION_CHANGES = {
    "addresses": "calls the judges of {} at other addresses",
    "model_settings": "calls the judges of {} with other settings",
    "panel": "combines the verdicts of a panel in another way for {}",
    "metric": "changes the rubric or settings of {}",
    "version": "grades {} with another version",
}


class TermsTally:
    """The changes of terms since the base, gathered case by case."""

    def __init__(self, base: Record, head: Record, base_run: BaseRun, gates: Gates, settings: Baseline) -> None:
        """Start without cases.

        Args:
            base: the record of the base.
            head: the record of the head.
            base_run: the origin of the base.
            gates: the gates by which the head is judged.
            settings: the head's settings of the comparison.
        """
        self._base, self._head, self._gates, self._settings = base, head, gates, settings
        self._replaced = base_run.replaced
        self._own = base.own
        # A base that ran beside the head was recorded with the head's terms.
        self._base_terms_known = base.own is not None or not (
            base_run.source == MERGE_BASE or base_run.source.startswith(_AGAINST)
        )
        self._own_cases = {case.id: case for case in base.own.cases} if base.own is not None else {}
        self._changed: dict[tuple[Way, str, Topic], list[ChangedPlace]] = {}
        self._chosen_answers = base_run.source.startswith(_AGAINST)
        self._quarantined_terms: dict[str | None, CaseTerms] = {}
        self._quarantined: set[str | None] = {entry.case for entry in (*base.quarantine, *head.quarantine)}
        self._removed: list[CaseRecord] = []
        self._added: dict[str, CaseRecord] = {}
        self._metric_names: tuple[set[str], set[str]] = (set(), set())

    def add(self, now: CaseRecord, before: CaseRecord | None) -> None:
        """Add a case of the head; `before` is the base's case with the same id, or None."""
        if before is not None:
            # Entries name cases by id or name.
            for key in {now.id, now.name} & self._quarantined:
                self._quarantined_terms[key] = recorded_terms(now, content=False)
        self._note_metrics(now, self._metric_names[1])
        if before is None:
            self._added.setdefault(now.content_hash, now)
            return
        self._note_metrics(before, self._metric_names[0])
        own = self._own_cases.get(before.id, before)
        # A shard, or a run that stopped when its exit code was certain, lacks cases on purpose.
        whole = self._head.run.shard is None and self._head.certain is None
        if self._base_terms_known and (now.trials or whole):
            # Equal content needs no comparison of texts.
            content = own.content_hash != now.content_hash
            terms = recorded_terms(now, content=content)
            for change in case_changes(self._terms_of(before, content=content), terms):
                self._changed.setdefault((change.way, change.said, change.topic), []).extend(change.places)

    def add_removed(self, before: CaseRecord) -> None:
        """Add a case that only the base has."""
        self._note_metrics(before, self._metric_names[0])
        self._removed.append(before)

    def changes(self) -> TermsChanges | None:
        """Return the changes of the terms; None if nothing changed and nothing is unknown."""
        found: dict[tuple[Way, str, Topic], list[ChangedPlace]] = {}
        for change in (
            *(self._run_changes() if self._base_terms_known else _UNKNOWN_TERMS),
            *self._unmatched_case_changes(),
            *self._results_changes(),
            *self._closure_changes(),
        ):
            found.setdefault((change.way, change.said, change.topic), []).extend(change.places)
        for what, places in self._changed.items():
            found.setdefault(what, []).extend(places)
        if not found:
            return None
        changes = (TermsChange(way, said, tuple(places), topic) for (way, said, topic), places in found.items())
        reactions = [self._base_settings.on_loosened, self._settings.on_loosened]
        if self._replaced is not None and self._replaced.on_loosened is not None:
            # Whoever replaces the results chooses the base's reaction, too.
            reactions.append(self._replaced.on_loosened)
        on_changed_code = None if self._head.baseline is None else self._head.baseline.on_changed_code
        return TermsChanges(strictest_reaction(reactions), sort_changes(changes), on_changed_code)

    @property
    def _base_settings(self) -> Baseline:
        """The base's settings of the comparison; the defaults if the base itself had no base."""
        return baseline_settings(self._base)

    def _terms_of(self, before: CaseRecord, *, content: bool = True) -> CaseTerms:
        own = self._own_cases.get(before.id)
        if own is None or self._own is None:
            return recorded_terms(before, content=content)
        return own_terms(own, self._own)

    def _note_metrics(self, case: CaseRecord, names: set[str]) -> None:
        names.update(each.evaluator_name for each in case.evaluations if each.status != "skipped")

    def _run_changes(self) -> Iterator[TermsChange]:
        """Yield the changes of terms that apply to the whole run."""
        then = self._own if self._own is not None else self._base
        yield from self._field_changes(Gates, then.gates, self._gates, "", "gates")
        bounds = (then.gates.metrics, self._gates.metrics)
        for name in sorted({*bounds[0], *bounds[1]}):
            old, new = (each.get(name, _NO_BOUNDS) for each in bounds)
            yield from self._field_changes(GateMetric, old, new, f"{{}} of {plain_name(name)}", f"gates.metrics.{name}")
        yield from self._summary_changes(then.gates.summary, self._gates.summary)
        yield from self._field_changes(Baseline, self._base_settings, self._settings, "", "baseline")
        if self._base.baseline is not None and self._head.baseline is None:
            yield TermsChange("laxer", "is compared with no base", (), "gates")
        if not self._head.probes and any(each.metric in self._head.configurations for each in self._base.probes):
            yield TermsChange("laxer", "does not probe its judges", (self._key_place("judges.probe"),), "gates")
        for name, term in comparison_rules(Record):
            if name in _SECTIONS:
                before, now = getattr(then, name), getattr(self._head, name)
                yield from self._field_change(name, term, before, now, *_SECTIONS[name])
        yield from self._quarantine_changes()
        yield from self._configuration_changes(then.configurations)

    def _field_changes(self, kind: type, before: Any, now: Any, label: str, prefix: str) -> Iterator[TermsChange]:
        for name, term in comparison_rules(kind):
            yield from self._field_change(name, term, getattr(before, name), getattr(now, name), label, prefix)

    def _field_change(
        self, name: str, term: Any, before: Any, now: Any, label: str, prefix: str
    ) -> Iterator[TermsChange]:
        way = term.compare(before, now)
        if way in ("laxer", "changed"):
            shown = label.replace("{}", name) if label else name
            place = self._key_place(f"{prefix}.{name}")
            yield TermsChange(way, field_phrase(term, shown, before, now), (place,), "gates")

    def _key_place(self, name: str) -> ChangedPlace:
        """Return the position of a key in the head's policy file, else in the base's."""
        mark = self._head.marks.get(name)
        if mark is not None:
            return ChangedPlace("", mark)
        return ChangedPlace("", self._base.marks.get(name), name in self._base.marks)

    def _summary_changes(self, before: GateSummary | None, now: GateSummary | None) -> Iterator[TermsChange]:
        if before is not None and now is None:
            place = self._key_place("gates.summary")
            yield TermsChange("laxer", "switches off the gate summary", (place,), "gates")
        elif before is not None and now is not None:
            for name, term in comparison_rules(GateSummary):
                for change in self._field_change(
                    name, term, getattr(before, name), getattr(now, name), "summary.{}", ""
                ):
                    yield replace(change, places=(self._key_place("gates.summary"),))

    def _quarantine_changes(self) -> Iterator[TermsChange]:
        """Yield the new or extended quarantine entries that have not expired, for cases that both runs have."""
        today = date.fromisoformat(self._head.run.started_at[:10])
        known = {
            self._quarantined_terms[entry.case].id: entry
            for entry in self._base.quarantine
            if entry.case in self._quarantined_terms
        }
        for entry in self._head.quarantine:
            case = self._quarantined_terms.get(entry.case)
            if case is None or is_expired(entry, today):
                continue
            place = ChangedPlace(case.title, self._head.marks.get(f"quarantine.{entry.case}"))
            old = known.get(case.id)
            if old is None:
                yield TermsChange("laxer", "quarantines", (place,), "quarantine")
            elif EXPIRES.compare(old.expires, entry.expires) == "laxer":
                until = f"until {entry.expires} instead of {old.expires}"
                yield TermsChange("laxer", f"quarantines {until}:", (place,), "quarantine")

    def _configuration_changes(self, before: Mapping[str, Configuration]) -> Iterator[TermsChange]:
        now = self._head.configurations
        both = self._metric_names[0] & self._metric_names[1]
        for name in sorted(before.keys() | now.keys()):
            then, new, shown = before.get(name), now.get(name), plain_name(name)
            if then is not None and new is not None:
                # A side that graded nothing with a metric, such as one that compares two answers, has no version.
                yield from _judge_changes(shown, then, new if name in both else replace(new, version=then.version))
            elif name in both or (self._own is not None and then is None and name in self._metric_names[0]):
                side = "on the base" if then is None else "now"
                yield TermsChange("unknown", f"does not record who judges {shown} {side}", ())

    def _results_changes(self) -> Iterator[TermsChange]:
        """Yield the change of a committed results file, by which a run chooses its own base."""
        replaced = self._replaced
        if replaced is None:
            return
        place = ChangedPlace("", replaced.source)
        if replaced.unknown:
            said = f"may replace the results that it is compared with ({replaced.unknown})"
            yield TermsChange("unknown", said, (place,), "gates")
        else:
            yield TermsChange("changed", "replaces the results that it is compared with", (place,), "gates")

    def _closure_changes(self) -> Iterator[TermsChange]:
        """Yield the changes of grading code, evidence and surroundings."""
        if self._base_terms_known or self._base.run.closure is not None:
            yield from closure_changes(self._base, self._head, same_answers=self._chosen_answers)

    def _unmatched_case_changes(self) -> Iterator[TermsChange]:
        """Yield the changes due to cases that only one run has: removed, renamed or left out by filters."""
        filters = self._head.provenance.filters
        left_out = "removes"
        if filters and filters != self._base.provenance.filters:
            left_out = f"leaves out (by its filters: {join_phrases(sorted(filters))})"
        for gone in map(self._terms_of, self._removed):
            added = self._added.get(gone.content_hash)
            if added is not None:
                again = recorded_terms(added)
                renamed = f"renames {plain_name(gone.title)} to"
                place = ChangedPlace(again.title, again.source)
                yield TermsChange("changed", renamed, (place,), "removed cases")
                if self._base_terms_known:
                    yield from case_changes(gone, again)
            else:
                place = ChangedPlace(gone.title, gone.source, True)
                yield TermsChange("laxer", left_out, (place,), "removed cases")
        others = self._base.provenance.filters
        if self._added and others and filters != others:
            said = (
                f"has cases that the base's filters left out ({join_phrases(sorted(others))}), so their terms on "
                "the base are unknown"
            )
            yield TermsChange("unknown", said, ())


def _judge_changes(metric: str, before: Configuration, now: Configuration) -> Iterator[TermsChange]:
    for name, term in comparison_rules(Configuration):
        then, new = getattr(before, name), getattr(now, name)
        way = term.compare(then, new)
        if way not in ("changed", "noted"):
            continue
        if name == "judges":
            old, judges = (join_phrases([plain_name(judge) for judge in each]) for each in (then, new))
            yield TermsChange("changed", f"uses judge {judges} instead of {old} for {metric}", ())
        else:
            said = _CONFIGURATION_CHANGES.get(name, "changes the judges of {}").format(metric)
            yield TermsChange(way, said, (), "surroundings" if way == "noted" else "questions")


def strictest_reaction(reactions: Iterable[Reaction]) -> Reaction:
    """Return the strictest of at least one reaction."""
    return max(reactions, key=REACTIONS.values.index)


def baseline_settings(record: Record) -> Baseline:
    """Return a run's settings of the comparison; the defaults if the run was not compared with a base."""
    if record.own is not None:
        return record.own.baseline
    return Baseline() if record.baseline is None else record.baseline.settings
