"""Builds one suite of an imported configuration: agent.yaml and the policy file."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holodeck_action.extensions.importers.collecting import DEFAULT_MODEL, OWN_INSTRUCTIONS
from holodeck_action.extensions.importers.converted_suite import (
    TRANSCRIPT,
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
)
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.assertions import AssertionCounterpart
from holodeck_action.extensions.importers.promptfoo.built_case import BuiltCase
from holodeck_action.extensions.importers.promptfoo.cases import CaseBuilder
from holodeck_action.extensions.importers.promptfoo.conversations import (
    conversation_key,
    conversations_of,
    move_to_last_turn,
)
from holodeck_action.extensions.importers.promptfoo.judged import embedding_provider, judge_of
from holodeck_action.extensions.importers.promptfoo.naming import case_name, names_any
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt
from holodeck_action.extensions.importers.promptfoo.providers import PATH_MARK, Provider
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test
from holodeck_action.extensions.importers.source import MOST_CASES, Source, plain
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line


class SuiteBuilder:
    """Builds the suite of one provider."""

    def __init__(
        self,
        source: Source,
        templates: Templates,
        configuration: Mapping[str, Any],
        provider: Provider,
        folder: Path,
        *,
        allow_missing: bool,
    ) -> None:
        self._source = source
        self._templates = templates
        self._root = configuration
        self._provider = provider
        self._folder = folder
        self._cases = CaseBuilder(source, templates, provider, folder, allow_missing=allow_missing)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of the import report so far."""
        return self._cases.parts.rows

    def build(
        self, folder: str, instructions: str | None, prompts: Sequence[Prompt], tests: Sequence[Test]
    ) -> ConvertedSuite:
        """Return the suite, with a case for each test and prompt.

        Raises:
            ConfigurationError: there are too many cases, or none can be run.
        """
        provider = self._provider
        cases: list[BuiltCase] = []
        replies: list[Mapping[str, Any] | None] = []
        asking = list(itertools.islice(self._tests_with_prompts(prompts, tests), MOST_CASES + 1))
        if len(asking) > MOST_CASES:
            text = f"has more than {MOST_CASES:,} cases for the provider {provider.name}; split it"
            raise ConfigurationError([f"{self._source.shown}: {text}"])
        for number, test, index, prompt in asking:
            suffix = f" [{prompt.label or f'prompt {index}'}]" if len(prompts) > 1 else ""
            name = f"{case_name(test, number, self._templates)}{suffix}"
            case = self._cases.build(test, prompt, instructions, name)
            if prompt.repeats_cases:
                case.conversation = conversation_key(test, index)
            cases.append(case)
            output = case.said[-1][1] if case.said else test.data.get("providerOutput")
            replies.append(None if output is None else {"response": plain(output)})
        if not cases:
            raise ConfigurationError([f"{self._source.shown}: no test is for the provider {provider.name}"])
        recorded = all(reply is not None for reply in replies)
        policy = self._build_policy(cases, is_timed=not recorded)
        if recorded:
            policy["target"] = f"recorded:{TRANSCRIPT}"
        else:
            replies = [None] * len(replies)
            if any(test.data.get("providerOutput") is not None for test in tests):
                place = tests[0].place
                note = "only some cases have a recorded answer, so the agent answers all of them"
                self._cases.parts.add_row(place, "providerOutput", "", Outcome.MISSING, note, 0, asserts=False)
        return self._written_suite(folder, instructions, cases, replies, policy)

    def _tests_with_prompts(
        self, prompts: Sequence[Prompt], tests: Sequence[Test]
    ) -> Iterator[tuple[int, Test, int, Prompt]]:
        """Yield each test of this provider with each prompt that the test selects, both with their numbers, from 1."""
        for number, test in enumerate(tests, 1):
            if names_any(test.data.get("providers"), self._provider.ids):
                for index, prompt in enumerate(prompts, 1):
                    if prompt.matches(test.data.get("prompts")):
                        yield number, test, index, prompt

    def _written_suite(
        self,
        folder: str,
        instructions: str | None,
        cases: Sequence[BuiltCase],
        replies: Sequence[Mapping[str, Any] | None],
        policy: Mapping[str, Any],
    ) -> ConvertedSuite:
        provider, source = self._provider, self._source
        name = str(self._root.get("description") or source.path.stem)
        judge = self._common_judge(cases)
        top: dict[str, Any] = {
            "name": one_line(f"{name} ({provider.name})" if folder else name, 200),
            "model": provider.model or judge or DEFAULT_MODEL,
            "instructions": {"inline": instructions} if instructions else self._default_instructions(),
        }
        if embedding := embedding_provider(metric for case in cases for metric in case.metrics):
            top["embedding_provider"] = embedding
        if provider.response_format:
            top["response_format"] = provider.response_format
        agent = re.sub(f"{PATH_MARK}(.*?){PATH_MARK}", lambda path: self._relative_literal(path[1]), provider.agent)
        if agent:
            agent = f'"""Answers the cases that were imported from {ascii(source.name)[1:-1]}."""\n\n{agent}'
        answers = {case.name: reply for case, reply in zip(cases, replies, strict=True)}
        written = [_written_case(conversation, answers, judge) for conversation in conversations_of(cases)]
        kept, notes = self._cases.parts.runnable(written)
        graders = self._cases.parts.graders.text()
        return ConvertedSuite(folder, source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _relative_literal(self, literal: str) -> str:
        return ascii(os.path.relpath(ast.literal_eval(literal), self._folder))

    def _default_instructions(self) -> Mapping[str, str]:
        if self._provider.model is None:
            return OWN_INSTRUCTIONS
        place = self._provider.place
        note = "it has no system message, but agent.yaml must have instructions; the model gets these"
        self._cases.parts.add_row(place, "no system message", "instructions", Outcome.SIMILAR, note, 0, asserts=False)
        return {"inline": "Answer the message of the user."}

    def _common_judge(self, cases: Sequence[BuiltCase]) -> Mapping[str, Any] | None:
        for case in cases:
            if case.test.options.get("provider"):
                judge = judge_of(case.test.options)
                if judge is None:
                    note = "the model cannot judge here; the suite's own model judges instead"
                    place = case.test.place
                    self._cases.parts.add_row(
                        place, "options.provider", "model", Outcome.SIMILAR, note, 0, asserts=False
                    )
                return judge
        return None

    def _build_policy(self, cases: Sequence[BuiltCase], *, is_timed: bool) -> dict[str, Any]:
        """Return the policy file's data; `is_timed` is False if answers come from a transcript, so that latencies are
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
        shared = is_timed and len(found) == 1 and all(case.latencies for case in cases)
        for case in cases:
            for written, limit in case.latencies:
                if shared:
                    note = "an answer that comes later is an error"
                    became = AssertionCounterpart(Outcome.METRIC, "limits.turn_timeout_s", note=note)
                    limits["turn_timeout_s"] = limit / 1000
                else:
                    note = "cases have different limits or none, or answers are recorded; set limits.turn_timeout_s"
                    became = AssertionCounterpart(Outcome.MISSING, note=note)
                self._cases.add_counterpart(case, written, became)
        if limits:
            policy["limits"] = limits
        return policy


def _written_case(
    conversation: Sequence[BuiltCase], answers: Mapping[str, Mapping[str, Any] | None], judge: Mapping[str, Any] | None
) -> ConvertedCase:
    """Combine the cases of a conversation into one case, in which each of them is a turn."""
    move_to_last_turn(conversation)
    *_, last = conversation
    comments = [str(conversation[0].test.place), *(comment for case in conversation for comment in case.comments)]
    metrics = _with_judge(judge, last.metrics)
    if len(conversation) > 1:
        turns = [
            ConvertedTurn({**case.turn, "evaluations": [*_with_judge(judge, case.metrics)]}, answers[case.name])
            if case.metrics
            else ConvertedTurn(case.turn, answers[case.name])
            for case in conversation
        ]
        return ConvertedCase(conversation[0].name, comments, turns, ())
    recorded = answers[last.name] is not None
    turns = [ConvertedTurn({"input": asked}, {"response": answer} if recorded else None) for asked, answer in last.said]
    return ConvertedCase(last.name, comments, turns or [ConvertedTurn(last.turn, answers[last.name])], metrics)


def _with_judge(judge: Mapping[str, Any] | None, metrics: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the metrics, with `model` set to the judge in metrics that need a judge and set no model."""
    if judge is None:
        return metrics
    return [
        {"model": judge, **metric} if metric["type"] in ("deepeval", "geval", "rag", "refusal") else metric
        for metric in metrics
    ]
