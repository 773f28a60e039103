"""Converts tasks of Inspect to suites, one for each task, with a case for each sample."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from holodeck_action.extensions.importers.collecting import DEFAULT_MODEL, Collector, OpenCase
from holodeck_action.extensions.importers.converted_suite import (
    NOT_IMPORTED,
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
    ImportResult,
)
from holodeck_action.extensions.importers.deepeval.recording import Constructed, RecordedCheck, read_recording
from holodeck_action.extensions.importers.grader_file import Check
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.source import Place, Source, UnfitError
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.suite.configuration_errors import ConfigurationError

_READ = frozenset(("dataset", "solver", "scorer"))
_WITHOUT_EFFECT = frozenset(("display_name", "name", "version", "metadata", "tags", "viewer", "metrics"))
"""Settings of a task that change no score of a sample."""
_CRITERION = "The answer meets this criterion: {}"
_PROMPT = "its judge is asked in another way"


class _Case(OpenCase, kw_only=True):
    """A case of a task."""

    place: Place
    turn: dict[str, Any]


def convert(source: Source, recorded: str, *, allow_missing: bool) -> ImportResult:
    """Convert a file with tasks.

    Args:
        source: the file.
        recorded: its recording (see `record_file`).
        allow_missing: whether something without a counterpart becomes a comment only; otherwise it also becomes a
            grader that raises.

    Raises:
        ConfigurationError: the file is not Python, or has no task that can be run.
    """
    checks, _ = read_recording(recorded, source.shown)
    if not checks:
        raise ConfigurationError([f"{source.shown}: has no task (expected: functions with @task)"])
    folders, suites, rows = UniqueNames("{}-{}"), list[ConvertedSuite](), list[Row]()
    for check in checks:
        builder = _Builder(source, Collector(source, allow_missing=allow_missing), check)
        name = check.function or source.path.stem
        suites.append(builder.build(name, folders.add(name) if len(checks) > 1 else ""))
        rows += builder.parts.rows
    return ImportResult(suites, rows)


class _Builder:
    def __init__(self, source: Source, parts: Collector, check: RecordedCheck) -> None:
        self.parts = parts
        self._source = source
        self._check = check
        listed = check.cases if isinstance(check.cases, list) else []
        self._task: Mapping[str, Any] = listed[0].given if listed and isinstance(listed[0], Constructed) else {}

    def build(self, name: str, folder: str) -> ConvertedSuite:
        """Return the suite of the task."""
        place, samples = self._check.place, self._task.get("dataset")
        note = self._check.note or "its dataset is known only at run time; write it to a file"
        known: Sequence[Any] = samples if isinstance(samples, list) and not self._check.note else ()
        cases = [self._case(name, number, each) for number, each in enumerate(known, 1)]
        if not cases:
            cases = [_Case(name=self.parts.case_name(name), place=place, turn={"input": NOT_IMPORTED})]
            self.parts.add_missing(cases[0], place, "dataset", note, asserts=True)
        policy: dict[str, Any] = {}
        instructions = self._instructions(cases)
        for key, value in self._task.items():
            if key == "epochs" and isinstance(value, int):
                policy["trials"] = {"repeat": value}
                self.parts.add_row(place, key, "trials", Outcome.SIMILAR, "each must pass", 0, asserts=False)
            elif key not in _READ | _WITHOUT_EFFECT and value is not None:
                self._miss_in_all(cases, key, "a suite has no such setting; write an own target, or set it by hand")
        note = "Inspect takes it from --model; write yours"
        self.parts.add_row(place, "the model", "model", Outcome.SIMILAR, note, 0, asserts=False)
        written = [
            ConvertedCase(case.name, [str(case.place), *case.comments], [ConvertedTurn(case.turn)], case.metrics)
            for case in cases
        ]
        kept, notes = self.parts.runnable(written)
        top = {"name": name, "model": DEFAULT_MODEL, "instructions": {"inline": instructions}}
        graders = self.parts.graders.text()
        return ConvertedSuite(folder, self._source.name, top, kept, policy, notes=notes, graders=graders)

    def _miss_in_all(self, cases: Sequence[_Case], what: str, reason: str) -> None:
        for case in cases:
            self.parts.add_missing(case, self._check.place, what, reason, asserts=False)

    def _instructions(self, cases: Sequence[_Case]) -> str:
        """Return the system message; a solver that does more than one request to the model has no equivalent."""
        written = self._task.get("solver")
        found = ""
        for step in written if isinstance(written, list) else [] if written is None else [written]:
            kind = step.kind if isinstance(step, Constructed) and not step.own else "solver"
            template = step.given.get("template") if isinstance(step, Constructed) else None
            if kind == "system_message" and isinstance(template, str) and not found and not re.search("[{}]", template):
                found = template
            elif kind != "generate":
                self._miss_in_all(cases, kind, "give a target that answers as this solver does")
        if not found:
            note = "agent.yaml must have instructions; the model gets these"
            self.parts.add_row(
                self._check.place, "no system message", "instructions", Outcome.SIMILAR, note, 0, asserts=False
            )
        return found or "Answer the message of the user."

    def _case(self, name: str, number: int, sample: Any) -> _Case:
        given: dict[str, Any] = sample.given if isinstance(sample, Constructed) else {}
        place = sample.place if isinstance(sample, Constructed) else self._check.place
        asked = _question(given.get("input"))
        title = self.parts.case_name(str(given.get("id") or f"{name} {number}"))
        case = _Case(name=title, place=place, turn={"input": asked or NOT_IMPORTED})
        if not asked:
            self.parts.add_missing(case, place, "input", "it is not one message of a user", asserts=False)
        for key in ("choices", "sandbox", "files", "setup"):
            if given.get(key):
                self.parts.add_missing(case, place, key, "a case has no such field; write an own target", asserts=False)
        scorers = self._task.get("scorer")
        for scorer in scorers if isinstance(scorers, list) else [scorers]:
            kind, where, options = "scorer", self._check.place, dict[str, Any]()
            if isinstance(scorer, Constructed) and not scorer.own:
                kind, where, options = scorer.kind, scorer.place, scorer.given
            try:
                self._score(case, where, kind, options, _targets(given.get("target")))
            except UnfitError as error:
                self.parts.add_missing(case, where, kind, str(error), asserts=True)
        return case

    def _score(self, case: _Case, place: Place, kind: str, given: Mapping[str, Any], targets: Sequence[str]) -> None:
        becomes, outcome, note = "contains_any", Outcome.METRIC, ""
        folded = given.get("ignore_case", True)
        if not isinstance(folded, bool):
            raise UnfitError("its ignore_case is known only at run time")
        if kind == "includes" and not set(given) - {"ignore_case"}:
            metric = {"type": becomes, "values": list(targets), **({"case_insensitive": True} if folded else {})}
            self.parts.add_metric(case, metric, "")
        elif kind == "match" and not set(given) - {"location", "ignore_case", "numeric"} and not given.get("numeric"):
            location, outcome = given.get("location", "end"), Outcome.GRADER
            if location not in ("begin", "end", "any", "exact"):
                raise UnfitError("its location is known only at run time")
            if not all(text.strip(string.whitespace + string.punctuation) for text in targets):
                raise UnfitError("it ignores punctuation, and a target is nothing else, so that every answer passes")
            options = {"location": location, "ignore_case": folded}
            check = Check(f"line_{place.line}_match", f"{place}: match", "matches_target", list(targets), options)
            becomes = self.parts.add_check(case, check, {})
        elif kind in ("model_graded_qa", "model_graded_fact") and not set(given) - {"model", "partial_credit"}:
            becomes, outcome, note = "geval", Outcome.SIMILAR, _PROMPT
            if len(targets) > 1:
                raise UnfitError("it has several targets; write the criteria of a geval metric")
            params = ["input", "actual_output"]
            criteria = _CRITERION.format(targets[0])
            metric = {"type": becomes, "name": kind, "criteria": criteria, "evaluation_params": params}
            self.parts.add_metric(case, metric, f": {case.name}")
        else:
            raise UnfitError("it has no equal with these arguments; write a metric or a code grader")
        self.parts.add_row(place, kind, becomes, outcome, note, asserts=True)


def _question(value: Any) -> str:
    """Return the text of the only message, which is the user's; empty for anything else."""
    if isinstance(value, list) and len(value) == 1:
        [message] = value
        given = message.given if isinstance(message, Constructed) else message
        of_user = isinstance(message, Constructed) and message.kind == "ChatMessageUser"
        if isinstance(given, dict) and (of_user or given.get("role") == "user"):
            value = given.get("content")
    return value if isinstance(value, str) and value.strip() else ""


def _targets(value: Any) -> Sequence[str]:
    listed = value if isinstance(value, list) else [value]
    texts = [str(each) for each in listed if isinstance(each, str | int | float) and str(each).strip()]
    if not texts or len(texts) != len(listed):
        raise UnfitError("the sample has no target, or one that is known only at run time")
    return texts
