"""Builds one suite of an imported configuration: cases, metrics, graders and the policy file."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.importers.accounting import Outcome, Row
from holodeck_action.extensions.importers.grader_file import Check, GraderFile
from holodeck_action.extensions.importers.names import Names
from holodeck_action.extensions.importers.promptfoo.assertions import REFUSED, AssertionCounterpart, convert_assertion
from holodeck_action.extensions.importers.promptfoo.judged import judge_of
from holodeck_action.extensions.importers.promptfoo.naming import NAME, names_any, slug, test_name
from holodeck_action.extensions.importers.promptfoo.prompts import FilledPrompt, Prompt, fill_prompt
from holodeck_action.extensions.importers.promptfoo.providers import FILE, Provider
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion
from holodeck_action.extensions.importers.source import MOST_CASES, Place, Source, UnfitError, place_of, plain
from holodeck_action.extensions.importers.written import (
    TRANSCRIPT,
    UNASKED,
    WrittenCase,
    WrittenSuite,
    WrittenTurn,
    without_unasked,
)
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

_ANY_MODEL = {"provider": "openai", "name": "gpt-4o-mini"}


class _Case(Struct):
    """A case that is being built."""

    name: str
    test: Test
    prompt: str
    turn: dict[str, Any]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    latencies: list[tuple[WrittenAssertion, float]] = field(default_factory=list)


class SuiteBuilder:
    """Builds the suite of one provider."""

    def __init__(
        self,
        source: Source,
        templates: Templates,
        root: Mapping[str, Any],
        provider: Provider,
        folder: Path,
        *,
        allow_missing: bool,
    ) -> None:
        self._source = source
        self._templates = templates
        self._root = root
        self._provider = provider
        self._folder = folder
        self._allow_missing = allow_missing
        self._graders = GraderFile(source.name)
        self._names: dict[str, str] = {}
        self._taken = Names("{} ({})")
        self.rows: list[Row] = []

    def build(
        self, folder: str, instructions: str | None, prompts: Sequence[Prompt], tests: Sequence[Test]
    ) -> WrittenSuite:
        """Return the suite, with a case for each combination of a test and a prompt."""
        provider = self._provider
        cases: list[_Case] = []
        replies: list[Mapping[str, Any] | None] = []
        asking = list(itertools.islice(self._tests_with_prompts(prompts, tests), MOST_CASES + 1))
        if len(asking) > MOST_CASES:
            text = f"has more than {MOST_CASES:,} cases for the provider {provider.name}; split it"
            raise ConfigurationError([f"{self._source.shown}: {text}"])
        for number, test, index, prompt in asking:
            suffix = f" [{prompt.label or f'prompt {index}'}]" if len(prompts) > 1 else ""
            name = f"{test_name(test, number, self._templates)}{suffix}"
            cases.append(self._build_case(test, prompt, instructions, name))
            output = test.data.get("providerOutput")
            replies.append(None if output is None else {"response": plain(output)})
        if not cases:
            raise ConfigurationError([f"{self._source.shown}: no test is for the provider {provider.name}"])
        recorded = all(reply is not None for reply in replies)
        policy = self._build_policy(cases, timed=not recorded)
        if recorded:
            policy["target"] = f"recorded:{TRANSCRIPT}"
        else:
            replies = [None] * len(replies)
            if any(test.data.get("providerOutput") is not None for test in tests):
                place = tests[0].place
                note = "only some cases have a recorded answer, so the agent answers all of them"
                self.rows.append(self._setting_row(place, "providerOutput", "", Outcome.MISSING, note))
        return self._written_suite(folder, instructions, cases, replies, policy)

    def _tests_with_prompts(
        self, prompts: Sequence[Prompt], tests: Sequence[Test]
    ) -> Iterator[tuple[int, Test, int, Prompt]]:
        """Yield this provider's tests, each with each of its prompts; tests and prompts have their numbers, from 1."""
        for number, test in enumerate(tests, 1):
            if names_any(test.data.get("providers"), self._provider.ids):
                for index, prompt in enumerate(prompts, 1):
                    if prompt.matches(test.data.get("prompts")):
                        yield number, test, index, prompt

    def _written_suite(
        self,
        folder: str,
        instructions: str | None,
        cases: Sequence[_Case],
        replies: Sequence[Mapping[str, Any] | None],
        policy: Mapping[str, Any],
    ) -> WrittenSuite:
        provider, source = self._provider, self._source
        name = str(self._root.get("description") or source.path.stem)
        judge = self._common_judge(cases)
        top: dict[str, Any] = {
            "name": one_line(f"{name} ({provider.name})" if folder else name, 200),
            "model": provider.model or judge or _ANY_MODEL,
            "instructions": {"inline": instructions or self._default_instructions()},
        }
        if provider.response_format:
            top["response_format"] = provider.response_format
        agent = re.sub(f"{FILE}(.*?){FILE}", lambda path: self._relative_literal(path[1]), provider.agent)
        if agent:
            agent = f'"""Answers the cases that were imported from {ascii(source.name)[1:-1]}."""\n\n{agent}'
        written = [
            WrittenCase(
                case.name,
                [str(case.test.place), *case.comments],
                [WrittenTurn(case.turn, reply)],
                _with_judge(judge, case.metrics),
            )
            for case, reply in zip(cases, replies, strict=True)
        ]
        notes: Sequence[str] = ()
        kept: Sequence[WrittenCase] = written
        if self._allow_missing:
            kept, notes = without_unasked(written)
        if not kept:
            raise ConfigurationError([f"{source.shown}: no case can be run ({notes[0]})"])
        graders = self._graders.text()
        return WrittenSuite(folder, source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _relative_literal(self, literal: str) -> str:
        return ascii(os.path.relpath(ast.literal_eval(literal), self._folder))

    def _default_instructions(self) -> str:
        if self._provider.model is None:
            return "Not used: the target has its own."
        place = self._provider.place
        note = "it has no system message, but agent.yaml must have instructions; the model gets these"
        self.rows.append(self._setting_row(place, "no system message", "instructions", Outcome.SIMILAR, note))
        return "Answer the message of the user."

    def _setting_row(self, place: Place, source: str, becomes: str, outcome: Outcome, note: str, cases: int = 0) -> Row:
        return Row(place.file, place.line, source, becomes, outcome, note, cases, asserts=False, column=place.column)

    def _common_judge(self, cases: Sequence[_Case]) -> Mapping[str, Any] | None:
        for case in cases:
            if case.test.options.get("provider"):
                judge = judge_of(case.test.options)
                if judge is None:
                    note = "the model cannot judge here; the suite's own model judges instead"
                    self.rows.append(
                        self._setting_row(case.test.place, "options.provider", "model", Outcome.SIMILAR, note)
                    )
                return judge
        return None

    def _build_policy(self, cases: Sequence[_Case], *, timed: bool) -> dict[str, Any]:
        """Return the policy file's data; `timed` is False if answers come from a transcript, so that latencies are
        unknown.
        """
        policy: dict[str, Any] = {}
        if self._provider.target is not None:
            policy["target"] = self._provider.target
        options = self._root.get("evaluateOptions")
        options = options if isinstance(options, dict) else {}
        if isinstance(options.get("repeat"), int) and options["repeat"] > 1:
            policy["trials"] = {"repeat": options["repeat"]}
        limits: dict[str, Any] = {}
        if isinstance(options.get("maxConcurrency"), int) and options["maxConcurrency"] > 0:
            limits["concurrency"] = options["maxConcurrency"]
        found = {limit for case in cases for _, limit in case.latencies}
        shared = timed and len(found) == 1 and all(case.latencies for case in cases)
        for case in cases:
            for written, limit in case.latencies:
                if shared:
                    note = "an answer that comes later is an error"
                    became = AssertionCounterpart(Outcome.METRIC, "limits.turn_timeout_s", note=note)
                    limits["turn_timeout_s"] = limit / 1000
                else:
                    note = "cases have different limits or none, or answers are recorded; set limits.turn_timeout_s"
                    became = AssertionCounterpart(Outcome.MISSING, note=note)
                self._add_counterpart(case, written, became)
        if limits:
            policy["limits"] = limits
        return policy

    def _build_case(self, test: Test, prompt: Prompt, instructions: str | None, name: str) -> _Case:
        made = self._taken.add(one_line(name, NAME))
        problem = test.problem or test.unsupported_setting
        question = FilledPrompt(None, "", "")
        try:
            if not problem:
                question = fill_prompt(prompt, test.variables, test.options, self._templates)
                if self._provider.model is not None and question.instructions != instructions:
                    raise UnfitError("its system message differs between cases; write a suite for each")
        except UnfitError as error:
            problem = f"prompt: {error}"
        whole = question.whole if self._provider.model is None else question.input
        case = _Case(made, test, whole, {"input": whole if whole.strip() and not problem else UNASKED})
        if test.variables and (self._provider.model is None and self._provider.target is not None):
            case.turn["turn_config"] = {"vars": dict(test.variables)}
        if problem or not whole.strip():
            place = prompt.place if problem.startswith("prompt: ") or not problem else test.place
            self._refuse_case(case, place, problem or "prompt: it is empty")
        self._add_assertions(case)
        return case

    def _refuse_case(self, case: _Case, place: Place, problem: str) -> None:
        what, _, reason = problem.partition(": ")
        self.rows.append(self._setting_row(place, what, "", Outcome.MISSING, reason or problem, 1))
        self._add_missing_grader(case, place, what, reason or problem)

    def _add_missing_grader(self, case: _Case, place: Place, what: str, reason: str) -> None:
        """Add a comment for an assertion without a counterpart; unless that is allowed, also a grader that raises."""
        case.comments.append(f"Not imported: {what} ({place}): {reason}")
        if self._allow_missing:
            return
        check = Check(f"line_{place.line}_{slug(what).replace('-', '_')}", f"{place}: {what}", "not_imported")
        name = one_line(f"not imported: {what} (line {place.line})", 100)
        self._add_check(case, check, {"name": name})

    def _add_assertions(self, case: _Case) -> None:
        test = case.test
        written = test.assertions
        if not written:
            place = test.place
            if not case.metrics:
                self._refuse_case(case, place, "no assertion: give the case a metric")
            return
        if test.threshold is not None:
            self._add_weighted(case, test.place, "threshold", test.threshold, written)
            return
        for item in written:
            if item.data.get("type") == "assert-set":
                self._add_set(case, item)
            else:
                self._add_assertion(case, item)

    def _add_set(self, case: _Case, written: WrittenAssertion) -> None:
        members = self._set_members(written)
        if members is None:
            reason = "it has no list of assertions: promptfoo ends the case with an error"
            self._add_counterpart(case, written, AssertionCounterpart(Outcome.MISSING, note=reason))
            return
        threshold = written.data.get("threshold")
        if isinstance(threshold, int | float) and not isinstance(threshold, bool):
            # A set's weight only counts in a mean: a set with weight 0 can fail its case.
            self._add_weighted(case, written.place, "assert-set", float(threshold), members)
            return
        if not members:
            self._add_counterpart(case, written, AssertionCounterpart(Outcome.MISSING, note="it is empty"))
        for item in members:
            self._add_assertion(case, item)

    def _set_members(self, written: WrittenAssertion) -> list[WrittenAssertion] | None:
        listed = written.data.get("assert")
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            return None
        return [
            WrittenAssertion(place_of(written.place.file, listed, index), item) for index, item in enumerate(listed)
        ]

    def _add_assertion(self, case: _Case, written: WrittenAssertion) -> None:
        reported = _weight_of(written) == 0
        became = self._convert(case, written, only_check=False)
        if (
            became.outcome is Outcome.METRIC
            and became.metric is not None
            and (reported or not self._fits_turn(case, became))
        ):
            became = self._convert(case, written, only_check=True)
        if became.latency_ms is not None and not reported:
            case.latencies.append((written, became.latency_ms))
            return
        if not self._fits_turn(case, became):
            note = "the case has another ground_truth or retrieval_context already; write a separate case"
            became = AssertionCounterpart(Outcome.MISSING, note=note)
        if reported:
            became = _as_reported(became)
        self._add_counterpart(case, written, became)

    def _convert(self, case: _Case, written: WrittenAssertion, *, only_check: bool) -> AssertionCounterpart:
        became = convert_assertion(
            self._source, self._templates, case.test, written, case.prompt, only_check=only_check
        )
        is_code = str(written.data.get("type")).removeprefix("not-") in ("javascript", "python")
        if is_code and became.check is not None and self._provider.response_format:
            # Code gets an answer that follows a schema as data.
            return replace(became, check=replace(became.check, value={**became.check.value, "json": True}))
        return became

    def _fits_turn(self, case: _Case, became: AssertionCounterpart) -> bool:
        return all(case.turn.get(key, value) == value for key, value in became.turn.items())

    def _add_counterpart(self, case: _Case, written: WrittenAssertion, became: AssertionCounterpart) -> None:
        kind, place = str(written.data.get("type")), written.place
        name = became.name
        case.turn.update(became.turn)
        if became.outcome is Outcome.MISSING:
            self._add_missing_grader(case, place, kind, became.note)
        elif became.metric is not None:
            metric = self._with_unique_name(case, dict(became.metric))
            if metric not in case.metrics:
                case.metrics.append(metric)
        elif became.check is not None:
            name = self._add_check(case, became.check, self._metric_label(case, written))
        row = Row(place.file, place.line, kind, name, became.outcome, became.note, 1, True, place.column)
        self.rows.append(row)

    def _metric_label(self, case: _Case, written: WrittenAssertion) -> dict[str, Any]:
        label = written.data.get("metric")
        if not label:
            return {}
        try:
            return {"name": one_line(self._templates.render(str(label), case.test.variables), 100)}
        except UnfitError:
            return {}

    def _add_check(self, case: _Case, check: Check, entry: Mapping[str, Any]) -> str:
        grader = self._graders.add(_with_relative_file(check, self._folder), case.name)
        # If the grader raises, the case must not pass.
        metric: dict[str, Any] = {"type": "code", "grader": grader, **entry, "fail_on_error": True}
        if "name" in metric and self._names.setdefault(metric["name"], grader) != grader:
            # Each name belongs to one metric.
            del metric["name"]
        if metric not in case.metrics:
            case.metrics.append(metric)
        return grader

    def _with_unique_name(self, case: _Case, metric: dict[str, Any]) -> dict[str, Any]:
        """Return a metric with a unique name, since a criterion that differs between cases needs several metrics."""
        if "name" in metric:
            said = json.dumps(metric, sort_keys=True)
            if self._names.setdefault(metric["name"], said) != said:
                metric["name"] = f"{metric['name']}: {case.name}"
                self._names[metric["name"]] = said
        return metric

    def _add_weighted(
        self, case: _Case, place: Place, what: str, threshold: float, members: Sequence[WrittenAssertion]
    ) -> None:
        """Add one grader for several assertions whose weighted mean score is compared with a threshold.

        If one of them cannot become a check, all are added separately.
        """
        try:
            check = self._mean_check(case, place, what, threshold, members)
        except UnfitError as error:
            self.rows.append(self._setting_row(place, what, "", Outcome.MISSING, str(error), 1))
            self._add_missing_grader(case, place, what, str(error))
            for item in members:
                if item.data.get("type") == "assert-set":
                    self._add_set(case, item)
                else:
                    self._add_assertion(case, item)
            return
        grader = self._add_check(case, check, {})
        note = f"the weighted mean of {len(members)} assertions"
        self.rows.append(self._setting_row(place, what, grader, Outcome.GRADER, note, 1))

    def _mean_check(
        self, case: _Case, place: Place, what: str, threshold: float, members: Sequence[WrittenAssertion]
    ) -> Check:
        parts: list[tuple[float, Check]] = []
        rows: list[Row] = []
        for item in members:
            kind = str(item.data.get("type"))
            if kind == "assert-set":
                inner = self._set_members(item)
                if inner is None or what == "assert-set":
                    raise UnfitError(
                        f"a set that has no assertions or is nested in another set (line {item.place.line})"
                    )
                parts.append((_weight_of(item), self._mean_check(case, item.place, kind, 0.0, inner)))
                continue
            became = self._convert(case, item, only_check=True)
            if became.check is None or became.outcome is Outcome.MISSING:
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}): {became.note}")
            if became.check.negated and became.check.function in ("bleu", "gleu"):
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}), whose score is inverted")
            parts.append((_weight_of(item), _with_relative_file(became.check, self._folder)))
            note = "; ".join(part for part in ("part of a weighted mean", became.note) if part)
            rows.append(
                Row(item.place.file, item.place.line, kind, "", became.outcome, note, 1, True, item.place.column)
            )
        stem = f"line_{place.line}_{what.replace('-', '_')}"
        self.rows += [replace(row, becomes=stem) for row in rows]
        return Check(stem, f"{place}: {what}", threshold=threshold, parts=tuple(parts))


def _with_relative_file(check: Check, folder: Path) -> Check:
    """Return a check with the path of its code file, if it has one, relative to the suite's folder."""
    if check.function in ("python_file", "javascript") and check.value.get("file"):
        file = os.path.relpath(check.value["file"], folder).replace(os.sep, "/")
        return replace(check, value={**check.value, "file": file})
    return check


def _with_judge(judge: Mapping[str, Any] | None, metrics: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the metrics, with `model` set to the judge in metrics that need a judge and set no model."""
    if judge is None:
        return metrics
    return [
        {"model": judge, **metric} if metric["type"] in ("geval", "rag", "refusal") else metric for metric in metrics
    ]


def _as_reported(became: AssertionCounterpart) -> AssertionCounterpart:
    note = "; ".join(part for part in (became.note, "weight 0: it cannot fail") if part)
    if became.check is not None and became.check.function == REFUSED:
        # promptfoo ends the case with an error, whatever the weight is.
        return became
    if became.check is not None:
        return replace(became, check=replace(became.check, reported=True), note=note)
    if became.metric is not None and "threshold" in became.metric:
        return replace(became, metric={**became.metric, "threshold": 0.0}, note=note)
    return became


def _weight_of(written: WrittenAssertion) -> float:
    weight = written.data.get("weight")
    return 1.0 if isinstance(weight, bool) or not isinstance(weight, int | float) else float(weight)
