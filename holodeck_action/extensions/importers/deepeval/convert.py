"""Converts test files and datasets of DeepEval to a suite."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import field

from holodeck_action.extensions.importers.collecting import DEFAULT_MODEL, OWN_INSTRUCTIONS, Collector, OpenCase
from holodeck_action.extensions.importers.converted_suite import (
    AGENT,
    NOT_IMPORTED,
    TRANSCRIPT,
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
    ImportResult,
)
from holodeck_action.extensions.importers.deepeval.goldens import (
    KIND,
    PLAYER_COMMENT,
    TURNS_NOTE,
    goldens_of,
    simulated_turn,
    snake_case,
)
from holodeck_action.extensions.importers.deepeval.metrics import MetricCounterpart, convert_metric
from holodeck_action.extensions.importers.deepeval.recording import (
    Constructed,
    RecordedCheck,
    read_recording,
)
from holodeck_action.extensions.importers.deepeval.stand_ins import CONVERSATIONS, SINGLE_TURN
from holodeck_action.extensions.importers.deepeval.turns import golden_turns, tool_call
from holodeck_action.extensions.importers.import_report import Outcome
from holodeck_action.extensions.importers.source import Place, Source, UnfitError
from holodeck_action.suite.configuration_errors import ConfigurationError

_FIELDS = ("input", "actual_output", "expected_output", "retrieval_context", "tools_called", "expected_tools", "name")


class _Case(OpenCase, kw_only=True):
    """A case of a test file or dataset."""

    place: Place
    turns: list[ConvertedTurn]
    expected_tools: Any = None
    policy: dict[str, Any] = field(default_factory=dict)


def convert(source: Source, recorded: str, *, allow_missing: bool) -> ImportResult:
    """Convert a test file (.py) or a dataset (.json, .csv) of DeepEval.

    Args:
        source: the file to import.
        recorded: the recording of a test file (see `record_file`); empty for a dataset.
        allow_missing: whether a metric without a counterpart becomes a comment only; otherwise it also becomes a grader
            that raises.

    Raises:
        ConfigurationError: the file is invalid or of another kind, or contains no case.
    """
    kind = source.path.suffix.lower()
    if kind not in (".py", ".json", ".csv"):
        raise ConfigurationError(
            [f"{source.shown}: is not a test file or dataset of DeepEval (expected: .py, .json, .csv)"]
        )
    builder = _Builder(source, allow_missing=allow_missing)
    if kind == ".py":
        builder.read(*read_recording(recorded, source.shown))
    else:
        for number, golden in enumerate(goldens_of(source, kind), 1):
            builder.add_golden(golden, f"case {number}")
    if not builder.cases:
        raise ConfigurationError(
            [f"{source.shown}: has no test case (expected: LLMTestCase, Golden, or a list of goldens)"]
        )
    return ImportResult([builder.build()], builder.parts.rows)


class _Builder:
    def __init__(self, source: Source, *, allow_missing: bool) -> None:
        self._source = source
        self.parts = Collector(source, allow_missing=allow_missing)
        self._made_cases: dict[str, _Case] = {}
        self._cases: dict[int, tuple[_Case, Any]] = {}
        self._numbers: defaultdict[tuple[str, Place], Iterator[int]] = defaultdict(lambda: count(1))

    @property
    def cases(self) -> Sequence[_Case]:
        """The cases added so far."""
        return list(self._made_cases.values())

    def read(self, checks: Sequence[RecordedCheck], constructed: Sequence[Constructed]) -> None:
        """Add the cases and metrics of a test file."""
        checked = Counter((check.function, check.place) for check in checks for _ in _listed(check.cases))
        for check in checks:
            self._add_check(check, several=checked[check.function, check.place] > 1)
        used = {case.turns[0].fields.get("input") for case, _ in self._cases.values()}
        seen = {(row.line, row.column) for row in self.parts.rows if row.asserts}
        for value in constructed:
            place, name = value.place, f"line {value.place.line}"
            if value.kind.endswith(("Metric", "GEval")) and (place.line, place.column) not in seen:
                note = "no assert_test, evaluate or measure uses it; add it to the cases that need it"
                self.parts.add_row(place, value.kind, "", Outcome.MISSING, note, asserts=True)
            if value.kind not in SINGLE_TURN | CONVERSATIONS or id(value) in self._cases:
                continue
            if value.kind == KIND and simulated_turn(value.given):
                self.add_golden(value, name)
            elif value.kind != "Golden" or value.given.get("input") not in used:
                self._add_unfit(place, value.kind, name, "it is not used by assert_test, evaluate or measure")

    def add_golden(self, golden: Constructed, name: str) -> None:
        """Add a case without metrics for a golden."""
        case, _ = self._constructed_case(golden, name, golden.place)
        self._expect_tools(case)
        reason = "a golden has no metrics; add those of the test file"
        self.parts.add_missing(case, golden.place, "no metric", reason, asserts=False)

    def build(self) -> ConvertedSuite:
        """Return the suite with all cases that were added.

        Raises:
            ConfigurationError: none of the cases can be run.
        """
        written = [
            ConvertedCase(case.name, [str(case.place), *case.comments], case.turns, case.metrics) for case in self.cases
        ]
        kept, notes = self.parts.runnable(written)
        recorded = any(turn.reply is not None for case in kept for turn in case.turns)
        agent = ""
        policy: dict[str, Any] = {"target": f"recorded:{TRANSCRIPT}"}
        if not recorded:
            policy["target"] = f"python:{AGENT.removesuffix('.py')}:answer"
            agent = (
                '"""Calls the agent that is evaluated."""\n\n\ndef answer(messages):\n'
                '    """Answer the last message; each one is `{"role": ..., "content": ...}`."""\n'
                f"    raise NotImplementedError({f'{self._source.name} has no answers: call your agent here'!a})\n"
            )
        top = {"name": self._source.path.stem, "model": DEFAULT_MODEL, "instructions": OWN_INSTRUCTIONS}
        names = {case.name for case in kept}
        additions = {case.name: case.policy for case in self.cases if case.policy and case.name in names}
        if additions:
            policy["cases"] = additions
        graders = self.parts.graders.text()
        return ConvertedSuite("", self._source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _add_check(self, check: RecordedCheck, *, several: bool) -> None:
        """Add the cases of a check with its metrics; `several` if the place in the file checks several cases."""
        name = check.function or f"line {check.place.line}"
        cases = _listed(check.cases)
        if not cases:
            note = check.note or "it evaluates results that exist only at run time (of a golden, or traces)"
            self._add_unfit(check.place, check.what, name, note, asserts=check.what == "assert")
        for value in cases:
            if id(value) not in self._cases:
                number = f" {next(self._numbers[check.function, check.place])}" if several else ""
                self._cases[id(value)] = self._constructed_case(value, f"{name}{number}", check.place)
            case, expected = self._cases[id(value)]
            self._add_metrics(check, case, expected)

    def _constructed_case(self, value: Any, name: str, place: Place) -> tuple[_Case, Any]:
        """Return the case for a recorded value, and its expected output."""
        if not isinstance(value, Constructed) or value.kind not in SINGLE_TURN | CONVERSATIONS:
            return self._add_unfit(place, "test case", name, "it is known only at run time"), None
        given, problems = _given(value)
        own = given.get("name")
        name = own if isinstance(own, str) and own else name
        if value.kind in SINGLE_TURN:
            return self._new_case(name, value.place, given, problems), given.get("expected_output")
        if turns := golden_turns(given):
            return self._add_case(_Case(name=name, place=value.place, turns=turns)), None
        turn = simulated_turn(given) if value.kind == KIND else None
        if turn is None:
            reason = "it has neither an input nor turns of user and assistant in turn; write the turns"
            return self._add_unfit(value.place, value.kind, name, reason), None
        case = self._add_case(_Case(name=name, place=value.place, turns=[turn]))
        case.comments.append(PLAYER_COMMENT)
        if given.get("turns"):
            self.parts.add_missing(case, value.place, "turns", TURNS_NOTE, asserts=False)
        return case, None

    def _new_case(self, name: str, place: Place, fields: Mapping[str, Any], problems: Mapping[str, str]) -> _Case:
        text = fields.get("input")
        turn: dict[str, Any] = {"input": text if isinstance(text, str) and text.strip() else NOT_IMPORTED}
        if isinstance(fields.get("expected_output"), str) and fields["expected_output"].strip():
            turn["ground_truth"] = fields["expected_output"]
        context = fields.get("retrieval_context")
        if isinstance(context, list) and all(isinstance(item, str) for item in context):
            turn["retrieval_context"] = context
        reply: dict[str, Any] | None = None
        if isinstance(fields.get("actual_output"), str):
            reply = {"response": fields["actual_output"]}
            tools = fields.get("tools_called")
            if isinstance(tools, list):
                reply["tool_invocations"] = [tool_call(tool) for tool in tools if isinstance(tool, dict)]
        turns = [ConvertedTurn(turn, reply)]
        case = self._add_case(_Case(name=name, place=place, turns=turns, expected_tools=fields.get("expected_tools")))
        for key, reason in problems.items():
            if key == "actual_output":
                note = f"{reason}; give a target that answers, or record the answer"
                self.parts.add_row(place, "actual_output", "", Outcome.MISSING, note, asserts=False)
                case.comments.append(f"Not imported: actual_output ({place}): {note}")
            else:
                self.parts.add_missing(case, place, key, reason, asserts=False)
        return case

    def _add_case(self, case: _Case) -> _Case:
        case.name = self.parts.case_name(case.name)
        self._made_cases[case.name] = case
        return case

    def _add_unfit(self, place: Place, source: str, name: str, reason: str, *, asserts: bool = False) -> _Case:
        """Add a case that cannot be run, for something without a counterpart."""
        turns = [ConvertedTurn({"input": NOT_IMPORTED})]
        case = self._add_case(_Case(name=f"{name}: {source}", place=place, turns=turns))
        self.parts.add_missing(case, place, source, reason, asserts=asserts)
        return case

    def _expect_tools(self, case: _Case) -> str:
        """Add the expected tool calls of a case to its policy; return why this is impossible, or an empty string."""
        tools = case.expected_tools
        if not isinstance(tools, list) or not all(isinstance(tool, dict) and tool.get("name") for tool in tools):
            return "the case has no literal expected_tools"
        case.policy["expected_trajectory"] = [
            {"name": str(tool["name"]), **({"args": tool["input_parameters"]} if tool.get("input_parameters") else {})}
            for tool in tools
        ]
        return ""

    def _add_metrics(self, check: RecordedCheck, case: _Case, expected: Any) -> None:
        reason = ""
        if check.metrics is None:
            reason = "it has no metrics argument; metrics of observed functions (`@observe`) are not imported"
        elif not isinstance(check.metrics, list):
            reason = "its metrics are known only at run time"
        elif not check.metrics:
            reason = "its list of metrics is empty"
        if reason:
            self.parts.add_missing(case, check.place, f"metrics of {check.what}", reason, asserts=True)
            return
        for value in check.metrics:
            place = value.place if isinstance(value, Constructed) else check.place
            name = value.kind if isinstance(value, Constructed) else "metrics"
            if check.note:
                self.parts.add_missing(case, place, name, check.note, asserts=True)
            else:
                self._add_metric(value, place, name, case, expected)

    def _add_metric(self, value: Any, place: Place, name: str, case: _Case, expected: Any) -> None:
        stem = f"line_{place.line}_{snake_case(name).removesuffix('_metric')}"
        became = convert_metric(value, f"{place.exact}: {name}", stem, expected)
        if "expected_tools" in became.needs and (reason := self._expect_tools(case)):
            became = MetricCounterpart(Outcome.MISSING, note=reason)
        if became.outcome is Outcome.MISSING:
            self.parts.add_missing(case, place, name, became.note, asserts=True)
            return
        becomes = became.name
        if became.check is not None:
            becomes = self.parts.add_check(case, became.check, {})
        elif became.metric is not None:
            self.parts.add_metric(case, dict(became.metric), f" (line {place.line})")
        self.parts.add_row(place, name, becomes, became.outcome, became.note, asserts=True)


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    return () if value is None else [value]


def _given(value: Constructed) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a case that are known, and the reasons why the values of others are not."""
    given: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in value.given if value.kind in CONVERSATIONS else _FIELDS:
        try:
            given[name] = value.known(name)
        except UnfitError as error:
            problems[name] = str(error)
    if value.kind in SINGLE_TURN and given.get("input") is None and "input" not in problems:
        problems["input"] = "it has no input"
    return given, problems
