"""Builds the cases of one suite: their turns, metrics and graders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.importers.collecting import Collector
from holodeck_action.extensions.importers.converted_suite import NOT_IMPORTED
from holodeck_action.extensions.importers.grader_file import Check
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.assertions import FAILING, AssertionCounterpart, convert_assertion
from holodeck_action.extensions.importers.promptfoo.built_case import BuiltCase
from holodeck_action.extensions.importers.promptfoo.conversations import recorded_exchanges
from holodeck_action.extensions.importers.promptfoo.prompts import FilledPrompt, Prompt, fill_prompt
from holodeck_action.extensions.importers.promptfoo.providers import Provider
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion
from holodeck_action.extensions.importers.source import Place, Source, UnfitError, place_of
from holodeck_action.text.plain import one_line


class CaseBuilder:
    """Builds the cases of one provider, and collects their graders and rows of the import report."""

    def __init__(
        self, source: Source, templates: Templates, provider: Provider, folder: Path, *, allow_missing: bool
    ) -> None:
        """Create a builder for a suite in the absolute folder `folder`."""
        self._source = source
        self._templates = templates
        self._provider = provider
        self._folder = folder
        self.parts = Collector(source, allow_missing=allow_missing)

    def build(self, test: Test, prompt: Prompt, instructions: str | None, name: str) -> BuiltCase:
        """Return the case of a test and a prompt.

        Args:
            test: the test.
            prompt: the prompt.
            instructions: the suite's system message; None if the suite has none.
            name: the preferred name of the case.
        """
        made = self.parts.case_name(name)
        problem = test.problem or test.unsupported_setting
        question = FilledPrompt(None, "", "")
        said: Sequence[tuple[str, str]] = ()
        try:
            if not problem and (said := recorded_exchanges(test)):
                question = FilledPrompt(instructions, said[0][0], said[0][0])
            elif not problem:
                if prompt.repeats_cases and self._provider.model is None:
                    raise UnfitError("a program would get earlier cases (_conversation) twice; write a case with turns")
                question = fill_prompt(prompt, test.variables, test.options, self._templates)
                if self._provider.model is not None and question.instructions != instructions:
                    raise UnfitError("its system message differs between cases; write a suite for each")
        except UnfitError as error:
            problem = f"prompt: {error}"
        whole = question.whole if self._provider.model is None else question.input
        asked = {"input": whole if whole.strip() and not problem else NOT_IMPORTED}
        case = BuiltCase(name=made, test=test, prompt=whole, turn=asked)
        case.said = said
        if test.variables and (self._provider.model is None and self._provider.target is not None):
            case.turn["turn_config"] = {"vars": dict(test.variables)}
        if problem or not whole.strip():
            place = prompt.place if problem.startswith("prompt: ") or not problem else test.place
            self._add_problem(case, place, problem or "prompt: it is empty")
        self._add_assertions(case)
        return case

    def _add_problem(self, case: BuiltCase, place: Place, problem: str) -> None:
        what, _, reason = problem.partition(": ")
        self.parts.add_missing(case, place, what, reason or problem, asserts=False)

    def _add_assertions(self, case: BuiltCase) -> None:
        test = case.test
        written = test.assertions
        if not written:
            place = test.place
            if not case.metrics:
                self._add_problem(case, place, "no assertion: give the case a metric")
            return
        if test.threshold is not None:
            self._add_weighted(case, test.place, "threshold", test.threshold, written)
            return
        for item in written:
            if item.data.get("type") == "assert-set":
                self._add_set(case, item)
            else:
                self._add_assertion(case, item)

    def _add_set(self, case: BuiltCase, assertion: WrittenAssertion) -> None:
        members = self._set_members(assertion)
        if members is None:
            reason = "it has no list of assertions: promptfoo ends the case with an error"
            self.add_counterpart(case, assertion, AssertionCounterpart(Outcome.MISSING, note=reason))
            return
        threshold = assertion.data.get("threshold")
        if isinstance(threshold, int | float) and not isinstance(threshold, bool):
            # The weight of a set counts only in a mean, so a set with weight 0 can still fail its case.
            self._add_weighted(case, assertion.place, "assert-set", float(threshold), members)
            return
        if not members:
            self.add_counterpart(case, assertion, AssertionCounterpart(Outcome.MISSING, note="it is empty"))
        for item in members:
            self._add_assertion(case, item)

    def _set_members(self, assertion: WrittenAssertion) -> list[WrittenAssertion] | None:
        listed = assertion.data.get("assert")
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            return None
        return [
            WrittenAssertion(place_of(assertion.place.file, listed, index), item) for index, item in enumerate(listed)
        ]

    def _add_assertion(self, case: BuiltCase, assertion: WrittenAssertion) -> None:
        reported = _weight_of(assertion) == 0
        match = self._convert(case, assertion, is_only_check=False)
        if (
            match.outcome is Outcome.METRIC
            and match.metric is not None
            and (reported or not self._fits_turn(case, match))
        ):
            match = self._convert(case, assertion, is_only_check=True)
        if match.latency_ms is not None and not reported:
            case.latencies.append((assertion, match.latency_ms))
            return
        if not self._fits_turn(case, match):
            note = "the case has another ground_truth or retrieval_context already; write a separate case"
            match = AssertionCounterpart(Outcome.MISSING, note=note)
        if reported:
            match = _as_reported(match)
        self.add_counterpart(case, assertion, match)

    def _convert(self, case: BuiltCase, assertion: WrittenAssertion, *, is_only_check: bool) -> AssertionCounterpart:
        match = convert_assertion(
            self._source, self._templates, case.test, assertion, case.prompt, is_only_check=is_only_check
        )
        is_code = str(assertion.data.get("type")).removeprefix("not-") in ("javascript", "python")
        if is_code and match.check is not None and self._provider.response_format:
            # If the answers have a schema, code gets the parsed answer.
            return replace(match, check=replace(match.check, value={**match.check.value, "json": True}))
        return match

    def _fits_turn(self, case: BuiltCase, match: AssertionCounterpart) -> bool:
        return all(case.turn.get(key, value) == value for key, value in match.turn.items())

    def add_counterpart(self, case: BuiltCase, assertion: WrittenAssertion, match: AssertionCounterpart) -> None:
        """Add the counterpart of an assertion to a case, and its row to the import report."""
        kind, place = str(assertion.data.get("type")), assertion.place
        case.turn.update(match.turn)
        if match.outcome is Outcome.MISSING:
            self.parts.add_missing(case, place, kind, match.note, asserts=True)
            return
        name, label = match.name, self._metric_label(case, assertion)
        if match.check is not None:
            name = self._add_check(case, match.check, label)
        elif match.expect is not None and not label:
            listed = case.turn.setdefault("expect", [])
            if match.expect not in listed:
                listed.append(dict(match.expect))
        elif match.metric is not None:
            named = label if match.expect is not None else {}
            self.parts.add_metric(case, {**match.metric, **named}, f": {case.name}")
        self.parts.add_row(place, kind, name, match.outcome, match.note, asserts=True)

    def _metric_label(self, case: BuiltCase, assertion: WrittenAssertion) -> dict[str, Any]:
        label = assertion.data.get("metric")
        if not label:
            return {}
        try:
            return {"name": one_line(self._templates.render(str(label), case.test.variables), 100)}
        except UnfitError:
            return {}

    def _add_check(self, case: BuiltCase, check: Check, entry: Mapping[str, Any]) -> str:
        return self.parts.add_check(case, _with_relative_file(check, self._folder), entry)

    def _add_weighted(
        self, case: BuiltCase, place: Place, source: str, threshold: float, assertions: Sequence[WrittenAssertion]
    ) -> None:
        """Add one grader for several assertions whose weighted mean score is compared with a threshold.

        If one assertion cannot become a check, all assertions are added separately.
        """
        try:
            check = self._mean_check(case, place, source, threshold, assertions)
        except UnfitError as error:
            self.parts.add_missing(case, place, source, str(error), asserts=False)
            for item in assertions:
                if item.data.get("type") == "assert-set":
                    self._add_set(case, item)
                else:
                    self._add_assertion(case, item)
            return
        grader = self._add_check(case, check, {})
        note = f"the weighted mean of {len(assertions)} assertions"
        self.parts.add_row(place, source, grader, Outcome.GRADER, note, asserts=False)

    def _mean_check(
        self, case: BuiltCase, place: Place, source: str, threshold: float, assertions: Sequence[WrittenAssertion]
    ) -> Check:
        parts: list[tuple[float, Check]] = []
        rows: list[Row] = []
        for item in assertions:
            kind = str(item.data.get("type"))
            if kind == "assert-set":
                inner = self._set_members(item)
                if inner is None or source == "assert-set":
                    raise UnfitError(
                        f"a set that has no assertions or is nested in another set (line {item.place.line})"
                    )
                parts.append((_weight_of(item), self._mean_check(case, item.place, kind, 0.0, inner)))
                continue
            match = self._convert(case, item, is_only_check=True)
            if match.check is None or match.outcome is Outcome.MISSING:
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}): {match.note}")
            if match.check.negated and match.check.function in ("bleu", "gleu"):
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}), whose score is inverted")
            parts.append((_weight_of(item), _with_relative_file(match.check, self._folder)))
            note = "; ".join(part for part in ("part of a weighted mean", match.note) if part)
            rows.append(
                Row(item.place.file, item.place.line, kind, "", match.outcome, note, 1, True, item.place.column)
            )
        stem = f"line_{place.line}_{source.replace('-', '_')}"
        self.parts.rows += [replace(row, becomes=stem) for row in rows]
        return Check(stem, f"{place}: {source}", threshold=threshold, parts=tuple(parts))


def _with_relative_file(check: Check, folder: Path) -> Check:
    """Return a check with the path of its code file, if it has one, relative to the suite's folder."""
    if check.function in ("python_file", "javascript") and check.value.get("file"):
        file = os.path.relpath(check.value["file"], folder).replace(os.sep, "/")
        return replace(check, value={**check.value, "file": file})
    return check


def _as_reported(match: AssertionCounterpart) -> AssertionCounterpart:
    note = "; ".join(part for part in (match.note, "weight 0: it cannot fail") if part)
    if match.check is not None and match.check.function == FAILING:
        # promptfoo ends the case with an error, whatever the weight is.
        return match
    if match.check is not None:
        return replace(match, check=replace(match.check, reported=True), note=note)
    if match.metric is not None and "threshold" in match.metric:
        return replace(match, metric={**match.metric, "threshold": 0.0}, note=note)
    return match


def _weight_of(assertion: WrittenAssertion) -> float:
    weight = assertion.data.get("weight")
    return 1.0 if isinstance(weight, bool) or not isinstance(weight, int | float) else float(weight)
