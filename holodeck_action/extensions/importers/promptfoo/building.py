"""One suite of an imported configuration: its cases, their metrics and graders, and the policy file."""

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
from holodeck_action.extensions.importers.promptfoo.assertions import REFUSED, BecameAssertion, become
from holodeck_action.extensions.importers.promptfoo.judged import judge_of
from holodeck_action.extensions.importers.promptfoo.naming import NAME, is_for, slug, test_name
from holodeck_action.extensions.importers.promptfoo.prompts import Asked, Prompt, asked
from holodeck_action.extensions.importers.promptfoo.providers import FILE, Provider
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, Written
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
    """A case in the making."""

    name: str
    test: Test
    prompt: str
    turn: dict[str, Any]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    latencies: list[tuple[Written, float]] = field(default_factory=list)


class SuiteBuilder:
    """Builds one suite."""

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

    def suite(
        self, folder: str, instructions: str | None, prompts: Sequence[Prompt], tests: Sequence[Test]
    ) -> WrittenSuite:
        """Return the suite of the cases of all tests with all prompts."""
        provider = self._provider
        cases: list[_Case] = []
        replies: list[Mapping[str, Any] | None] = []
        asking = list(itertools.islice(self._asking(prompts, tests), MOST_CASES + 1))
        if len(asking) > MOST_CASES:
            text = f"has more than {MOST_CASES:,} cases for the provider {provider.name}; split it"
            raise ConfigurationError([f"{self._source.shown}: {text}"])
        for number, test, index, prompt in asking:
            suffix = f" [{prompt.label or f'prompt {index}'}]" if len(prompts) > 1 else ""
            name = f"{test_name(test, number, self._templates)}{suffix}"
            cases.append(self._case(test, prompt, instructions, name))
            output = test.data.get("providerOutput")
            replies.append(None if output is None else {"response": plain(output)})
        if not cases:
            raise ConfigurationError([f"{self._source.shown}: no test is for the provider {provider.name}"])
        recorded = all(reply is not None for reply in replies)
        policy = self._policy(cases, timed=not recorded)
        if recorded:
            policy["target"] = f"recorded:{TRANSCRIPT}"
        else:
            replies = [None] * len(replies)
            if any(test.data.get("providerOutput") is not None for test in tests):
                place = tests[0].place
                note = "some cases have a recorded answer and others have none; the agent answers all"
                self.rows.append(self._row(place, "providerOutput", "", Outcome.MISSING, note))
        return self._written(folder, instructions, cases, replies, policy)

    def _asking(self, prompts: Sequence[Prompt], tests: Sequence[Test]) -> Iterator[tuple[int, Test, int, Prompt]]:
        """Yield the tests of this provider with each of their prompts, and the numbers of both."""
        for number, test in enumerate(tests, 1):
            if is_for(test.data.get("providers"), self._provider.ids):
                for index, prompt in enumerate(prompts, 1):
                    if prompt.is_meant(test.data.get("prompts")):
                        yield number, test, index, prompt

    def _written(
        self,
        folder: str,
        instructions: str | None,
        cases: Sequence[_Case],
        replies: Sequence[Mapping[str, Any] | None],
        policy: Mapping[str, Any],
    ) -> WrittenSuite:
        provider, source = self._provider, self._source
        name = str(self._root.get("description") or source.path.stem)
        judge = self._judge(cases)
        top: dict[str, Any] = {
            "name": one_line(f"{name} ({provider.name})" if folder else name, 200),
            "model": provider.model or judge or _ANY_MODEL,
            "instructions": {"inline": instructions or self._no_instructions()},
        }
        if provider.response_format:
            top["response_format"] = provider.response_format
        agent = re.sub(f"{FILE}(.*?){FILE}", lambda path: self._from_folder(path[1]), provider.agent)
        if agent:
            agent = f'"""Answers the cases that were imported from {ascii(source.name)[1:-1]}."""\n\n{agent}'
        written = [
            WrittenCase(
                case.name,
                [str(case.test.place), *case.comments],
                [WrittenTurn(case.turn, reply)],
                _judged_by(judge, case.metrics),
            )
            for case, reply in zip(cases, replies, strict=True)
        ]
        notes: Sequence[str] = ()
        kept: Sequence[WrittenCase] = written
        if self._allow_missing:
            kept, notes = without_unasked(written)
        if not kept:
            raise ConfigurationError([f"{source.shown}: no case can be asked ({notes[0]})"])
        graders = self._graders.text()
        return WrittenSuite(folder, source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _from_folder(self, literal: str) -> str:
        return ascii(os.path.relpath(ast.literal_eval(literal), self._folder))

    def _no_instructions(self) -> str:
        if self._provider.model is None:
            return "Not used: the target has its own."
        place = self._provider.place
        note = "it has no system message, and agent.yaml must have instructions: the model gets this one"
        self.rows.append(self._row(place, "no system message", "instructions", Outcome.SIMILAR, note))
        return "Answer the message of the user."

    def _row(self, place: Place, source: str, becomes: str, outcome: Outcome, note: str, cases: int = 0) -> Row:
        return Row(place.file, place.line, source, becomes, outcome, note, cases, asserts=False, column=place.column)

    def _judge(self, cases: Sequence[_Case]) -> Mapping[str, Any] | None:
        for case in cases:
            if case.test.options.get("provider"):
                judge = judge_of(case.test.options)
                if judge is None:
                    note = "no model that judges here: the suite's own model does"
                    self.rows.append(self._row(case.test.place, "options.provider", "model", Outcome.SIMILAR, note))
                return judge
        return None

    def _policy(self, cases: Sequence[_Case], *, timed: bool) -> dict[str, Any]:
        """Return the policy file; `timed` says whether answers take time, which those of a transcript do not."""
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
                    became = BecameAssertion(Outcome.METRIC, "limits.turn_timeout_s", note=note)
                    limits["turn_timeout_s"] = limit / 1000
                else:
                    note = "cases have different limits or none, or answers are recorded; set limits.turn_timeout_s"
                    became = BecameAssertion(Outcome.MISSING, note=note)
                self._take(case, written, became)
        if limits:
            policy["limits"] = limits
        return policy

    def _case(self, test: Test, prompt: Prompt, instructions: str | None, name: str) -> _Case:
        made = self._taken.add(one_line(name, NAME))
        problem = test.problem or test.unfit
        question = Asked(None, "", "")
        try:
            if not problem:
                question = asked(prompt, test.variables, test.options, self._templates)
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
            self._refuse(case, place, problem or "prompt: it is empty")
        self._assert(case)
        return case

    def _refuse(self, case: _Case, place: Place, problem: str) -> None:
        what, _, reason = problem.partition(": ")
        self.rows.append(self._row(place, what, "", Outcome.MISSING, reason or problem, 1))
        self._missing_grader(case, place, what, reason or problem)

    def _missing_grader(self, case: _Case, place: Place, what: str, reason: str) -> None:
        """Leave a comment, and a grader that decides nothing, so that the case cannot pass in silence."""
        case.comments.append(f"Not imported: {what} ({place}): {reason}")
        if self._allow_missing:
            return
        check = Check(f"line_{place.line}_{slug(what).replace('-', '_')}", f"{place}: {what}", "not_imported")
        name = one_line(f"not imported: {what} (line {place.line})", 100)
        self._add(case, check, {"name": name})

    def _assert(self, case: _Case) -> None:
        test = case.test
        written = test.assertions
        if not written:
            place = test.place
            if not case.metrics:
                self._refuse(case, place, "no assertion: the case asserts nothing; give it a metric")
            return
        if test.threshold is not None:
            self._weighted(case, test.place, "threshold", test.threshold, written)
            return
        for item in written:
            if item.data.get("type") == "assert-set":
                self._set(case, item)
            else:
                self._one(case, item)

    def _set(self, case: _Case, written: Written) -> None:
        members = self._members(written)
        if members is None:
            reason = "it has no list of assertions: promptfoo ends the case with an error"
            self._take(case, written, BecameAssertion(Outcome.MISSING, note=reason))
            return
        threshold = written.data.get("threshold")
        if isinstance(threshold, int | float) and not isinstance(threshold, bool):
            # Its weight counts in a mean only: a set of weight 0 can fail its case.
            self._weighted(case, written.place, "assert-set", float(threshold), members)
            return
        if not members:
            self._take(case, written, BecameAssertion(Outcome.MISSING, note="it is empty and asserts nothing"))
        for item in members:
            self._one(case, item)

    def _members(self, written: Written) -> list[Written] | None:
        listed = written.data.get("assert")
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            return None
        return [Written(place_of(written.place.file, listed, index), item) for index, item in enumerate(listed)]

    def _one(self, case: _Case, written: Written) -> None:
        reported = _weight(written) == 0
        became = self._become(case, written, only_check=False)
        if (
            became.outcome is Outcome.METRIC
            and became.metric is not None
            and (reported or not self._fits(case, became))
        ):
            became = self._become(case, written, only_check=True)
        if became.latency_ms is not None and not reported:
            case.latencies.append((written, became.latency_ms))
            return
        if not self._fits(case, became):
            note = "the case has another ground_truth or retrieval_context already; write a case of its own"
            became = BecameAssertion(Outcome.MISSING, note=note)
        if reported:
            became = _only_reported(became)
        self._take(case, written, became)

    def _become(self, case: _Case, written: Written, *, only_check: bool) -> BecameAssertion:
        became = become(self._source, self._templates, case.test, written, case.prompt, only_check=only_check)
        is_code = str(written.data.get("type")).removeprefix("not-") in ("javascript", "python")
        if is_code and became.check is not None and self._provider.response_format:
            # An answer that follows a schema reaches code as data.
            return replace(became, check=replace(became.check, value={**became.check.value, "json": True}))
        return became

    def _fits(self, case: _Case, became: BecameAssertion) -> bool:
        return all(case.turn.get(key, value) == value for key, value in became.turn.items())

    def _take(self, case: _Case, written: Written, became: BecameAssertion) -> None:
        kind, place = str(written.data.get("type")), written.place
        name = became.name
        case.turn.update(became.turn)
        if became.outcome is Outcome.MISSING:
            self._missing_grader(case, place, kind, became.note)
        elif became.metric is not None:
            metric = self._named(case, dict(became.metric))
            if metric not in case.metrics:
                case.metrics.append(metric)
        elif became.check is not None:
            name = self._add(case, became.check, self._label(case, written))
        row = Row(place.file, place.line, kind, name, became.outcome, became.note, 1, True, place.column)
        self.rows.append(row)

    def _label(self, case: _Case, written: Written) -> dict[str, Any]:
        label = written.data.get("metric")
        if not label:
            return {}
        try:
            return {"name": one_line(self._templates.render(str(label), case.test.variables), 100)}
        except UnfitError:
            return {}

    def _add(self, case: _Case, check: Check, entry: Mapping[str, Any]) -> str:
        grader = self._graders.add(_from_folder(check, self._folder), case.name)
        # A grader that raises must not leave its case passed.
        metric: dict[str, Any] = {"type": "code", "grader": grader, **entry, "fail_on_error": True}
        if "name" in metric and self._names.setdefault(metric["name"], grader) != grader:
            # One name is one metric.
            del metric["name"]
        if metric not in case.metrics:
            case.metrics.append(metric)
        return grader

    def _named(self, case: _Case, metric: dict[str, Any]) -> dict[str, Any]:
        """Give a metric a name that no other has; a criterion that differs between cases makes several."""
        if "name" in metric:
            said = json.dumps(metric, sort_keys=True)
            if self._names.setdefault(metric["name"], said) != said:
                metric["name"] = f"{metric['name']}: {case.name}"
                self._names[metric["name"]] = said
        return metric

    def _weighted(self, case: _Case, place: Place, what: str, threshold: float, members: Sequence[Written]) -> None:
        """Take assertions whose mean score is compared with a threshold; each must be a check for that."""
        try:
            check = self._mean(case, place, what, threshold, members)
        except UnfitError as error:
            self.rows.append(self._row(place, what, "", Outcome.MISSING, str(error), 1))
            self._missing_grader(case, place, what, str(error))
            for item in members:
                if item.data.get("type") == "assert-set":
                    self._set(case, item)
                else:
                    self._one(case, item)
            return
        grader = self._add(case, check, {})
        note = f"the weighted mean of {len(members)} assertions"
        self.rows.append(self._row(place, what, grader, Outcome.GRADER, note, 1))

    def _mean(self, case: _Case, place: Place, what: str, threshold: float, members: Sequence[Written]) -> Check:
        parts: list[tuple[float, Check]] = []
        rows: list[Row] = []
        for item in members:
            kind = str(item.data.get("type"))
            if kind == "assert-set":
                inner = self._members(item)
                if inner is None or what == "assert-set":
                    raise UnfitError(f"a set without assertions, or in a set (line {item.place.line})")
                parts.append((_weight(item), self._mean(case, item.place, kind, 0.0, inner)))
                continue
            became = self._become(case, item, only_check=True)
            if became.check is None or became.outcome is Outcome.MISSING:
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}): {became.note}")
            if became.check.negated and became.check.function in ("bleu", "gleu"):
                raise UnfitError(f"a weighted mean with {kind} (line {item.place.line}), whose score is turned around")
            parts.append((_weight(item), _from_folder(became.check, self._folder)))
            note = "; ".join(part for part in ("part of a weighted mean", became.note) if part)
            rows.append(
                Row(item.place.file, item.place.line, kind, "", became.outcome, note, 1, True, item.place.column)
            )
        stem = f"line_{place.line}_{what.replace('-', '_')}"
        self.rows += [replace(row, becomes=stem) for row in rows]
        return Check(stem, f"{place}: {what}", threshold=threshold, parts=tuple(parts))


def _from_folder(check: Check, folder: Path) -> Check:
    """Name the file of a check's code from the folder of the suite."""
    if check.function in ("python_file", "javascript") and check.value.get("file"):
        file = os.path.relpath(check.value["file"], folder).replace(os.sep, "/")
        return replace(check, value={**check.value, "file": file})
    return check


def _judged_by(judge: Mapping[str, Any] | None, metrics: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Name the judge in the metrics that have one, and none yet."""
    if judge is None:
        return metrics
    return [
        {"model": judge, **metric} if metric["type"] in ("geval", "rag", "refusal") else metric for metric in metrics
    ]


def _only_reported(became: BecameAssertion) -> BecameAssertion:
    note = "; ".join(part for part in (became.note, "weight 0: it fails nothing") if part)
    if became.check is not None and became.check.function == REFUSED:
        # promptfoo ends the case whatever the weight is.
        return became
    if became.check is not None:
        return replace(became, check=replace(became.check, reported=True), note=note)
    if became.metric is not None and "threshold" in became.metric:
        return replace(became, metric={**became.metric, "threshold": 0.0}, note=note)
    return became


def _weight(written: Written) -> float:
    weight = written.data.get("weight")
    return 1.0 if isinstance(weight, bool) or not isinstance(weight, int | float) else float(weight)
