"""Converts test files and datasets of DeepEval to a suite."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.converted_suite import (
    AGENT,
    NOT_IMPORTED,
    TRANSCRIPT,
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
    ImportResult,
    runnable_cases,
)
from holodeck_action.extensions.importers.deepeval.goldens import (
    KIND,
    PLAYER_COMMENT,
    TURNS_NOTE,
    golden_fields,
    goldens_of,
    simulated_turn,
    snake_case,
)
from holodeck_action.extensions.importers.deepeval.metrics import MetricCounterpart, convert_metric
from holodeck_action.extensions.importers.deepeval.reading import (
    CONVERSATIONS,
    SINGLE_TURN,
    EvaluationCall,
    PythonFile,
    ScopedExpression,
)
from holodeck_action.extensions.importers.deepeval.syntax import argument_of, called_name
from holodeck_action.extensions.importers.deepeval.turns import constructed_turns, golden_turns, tool_call, tool_fields
from holodeck_action.extensions.importers.grader_file import Check, GraderFile
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.source import Place, Source, UnfitError
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.named_models import SMALL
from holodeck_action.text.plain import one_line

_FIELDS = ("input", "actual_output", "expected_output", "retrieval_context", "tools_called", "expected_tools", "name")
_DEFAULT_MODEL = {"provider": "openai", "name": SMALL}


class _Case(Struct):
    """A case that is being built."""

    name: str
    place: Place
    turns: list[ConvertedTurn]
    expected_tools: Any = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)


def convert(source: Source, folder: Path, *, allow_missing: bool) -> ImportResult:
    """Convert a test file (.py) or a dataset (.json, .csv) of DeepEval.

    Args:
        source: the file to import.
        folder: not used; required by `Converter`.
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
        try:
            tree = source.content().parse(ast.parse, SyntaxError)
        except (SyntaxError, ValueError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            reason = one_line(str(error), 200) or "it is nested too deeply, or too large"
            raise ConfigurationError([f"{source.shown}:{line}:1: is not Python: {reason}"]) from None
        builder.read(PythonFile(tree))
    else:
        for number, (place, golden) in enumerate(goldens_of(source, kind), 1):
            builder.add_golden(place, golden, number)
    if not builder.cases:
        raise ConfigurationError(
            [f"{source.shown}: has no test case (expected: LLMTestCase, Golden, or a list of goldens)"]
        )
    return ImportResult([builder.build()], builder.rows)


class _Builder:
    def __init__(self, source: Source, *, allow_missing: bool) -> None:
        self._source = source
        self._allow_missing = allow_missing
        self._graders = GraderFile(source.name)
        self._names: dict[str, str] = {}
        self._taken = UniqueNames("{} ({})")
        self._made_cases: dict[str, _Case] = {}
        self._cases: dict[tuple[Any, ...], _Case] = {}
        self.rows: list[Row] = []

    @property
    def cases(self) -> Sequence[_Case]:
        """The cases added so far."""
        return list(self._made_cases.values())

    def read(self, file: PythonFile) -> None:
        """Add the cases and metrics of a test file."""
        used: set[int] = set()
        for site in file.evaluation_calls():
            self._read_call(file, site, used)
        for call in file.constructor_calls((*SINGLE_TURN, *CONVERSATIONS)):
            if id(call) not in used:
                place = self._place_of(call)
                if called_name(call) == KIND and self._add_simulated(
                    golden_fields(file, ScopedExpression(call, file.tree)), place, f"line {place.line}"
                ):
                    continue
                case = self._add_placeholder_case(place, called_name(call), f"line {place.line}")
                self._add_missing(case, place, called_name(call), "it is not used by assert_test, evaluate or measure")
        seen = {(row.line, row.column) for row in self.rows if row.asserts}
        for call in _metric_calls(file):
            place = self._place_of(call)
            if (place.line, place.column) not in seen:
                note = "no assert_test, evaluate or measure uses it; add it to the cases that need it"
                self._add_row(place, called_name(call), "", Outcome.MISSING, note, is_assertion=True)

    def add_golden(self, place: Place, golden: Mapping[str, Any], number: int) -> None:
        """Add a case without metrics for a golden, an entry of a dataset."""
        name = str(golden.get("name") or f"case {number}")
        if turns := golden_turns(golden):
            case = self._add_case(_Case(name, place, turns))
            self._add_missing(case, place, "no metric", "a dataset has no metrics; add those of the test file")
            return
        if self._add_simulated(golden, place, name):
            return
        if not isinstance(golden.get("input"), str) or not golden["input"].strip():
            case = self._add_placeholder_case(place, "golden", name)
            reason = "it has neither an input nor turns of user and assistant in turn; write the turns"
            self._add_missing(case, place, "golden", reason)
            return
        case = self._new_case(name, place, {**golden, "input": golden["input"]}, {})
        self._expect_tools(case)
        self._add_missing(case, place, "no metric", "a dataset has no metrics; add those of the test file")

    def _add_simulated(self, golden: Mapping[str, Any], place: Place, name: str) -> _Case | None:
        """Add a case without metrics for a golden that describes a user to simulate; None if it describes no user."""
        turn = simulated_turn(golden)
        if turn is None:
            return None
        own = golden.get("name")
        case = self._add_case(_Case(own if isinstance(own, str) and own else name, place, [turn]))
        case.comments.append(PLAYER_COMMENT)
        if golden.get("turns"):
            self._add_missing(case, place, "turns", TURNS_NOTE)
        note = "a golden has no metrics; add those that grade its conversation"
        self._add_missing(case, place, "no metric", note)
        return case

    def build(self) -> ConvertedSuite:
        """Return the suite with all cases that were added.

        Raises:
            ConfigurationError: none of the cases can be run.
        """
        written = [
            ConvertedCase(case.name, [str(case.place), *case.comments], case.turns, case.metrics) for case in self.cases
        ]
        notes: Sequence[str] = ()
        kept: Sequence[ConvertedCase] = written
        if self._allow_missing:
            kept, notes = runnable_cases(written)
        if not kept:
            raise ConfigurationError([f"{self._source.shown}: no case can be run ({notes[0]})"])
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
        top = {
            "name": self._source.path.stem,
            "model": _DEFAULT_MODEL,
            "instructions": {"inline": "Not used: the target has its own."},
        }
        names = {case.name for case in kept}
        additions = {case.name: case.policy for case in self.cases if case.policy and case.name in names}
        if additions:
            policy["cases"] = additions
        graders = self._graders.text()
        return ConvertedSuite("", self._source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _read_call(self, file: PythonFile, site: EvaluationCall, used_places: set[int]) -> None:
        place = self._place_of(site.call)
        what = called_name(site.call)
        try:
            if site.cases is None:
                raise UnfitError("it evaluates results that exist only at run time (of a golden, or traces)")
            found = file.evaluated_cases(site.call, site.cases)
        except UnfitError as error:
            found = []
            if site.cases is not None:
                used_places.add(id(site.cases.node))
            case = self._add_placeholder_case(place, what, site.function or f"line {place.line}")
            self._add_missing(case, place, what, str(error))
            self._add_metrics(file, site, case, None)
        for number, value in enumerate(found, 1):
            name = site.function or f"line {place.line}"
            case, expected = self._constructed_case(
                file, value, f"{name} {number}" if len(found) > 1 else name, used_places
            )
            self._add_metrics(file, site, case, expected)

    def _constructed_case(
        self, file: PythonFile, value: ScopedExpression, name: str, used_places: set[int]
    ) -> tuple[_Case, Any]:
        """Return the case that an expression constructs, and the case's expected output.

        Repeated calls for the same expression and variables return the same case.
        """
        node = value.node
        place = self._place_of(node)
        kind = called_name(node) if isinstance(node, ast.Call) else ""
        key = (id(node), *(id(each.node) for each in value.names.values()))
        if isinstance(node, ast.Call):
            used_places.add(id(node))
        for bound in value.names.values():
            used_places.add(id(bound.node))
        expected = None
        if kind in SINGLE_TURN:
            assert isinstance(node, ast.Call)
            fields, problems = _case_fields(file, value, node)
            expected = fields.get("expected_output")
            if key not in self._cases:
                own = fields.get("name")
                self._cases[key] = self._new_case(own if isinstance(own, str) else name, place, fields, problems)
        elif key not in self._cases:
            turns = constructed_turns(file, value) if kind in CONVERSATIONS else None
            simulated = None
            if kind == KIND and not turns:
                simulated = self._add_simulated(golden_fields(file, value), place, name)
            if simulated is not None:
                self._cases[key] = simulated
            elif turns:
                self._cases[key] = self._add_case(_Case(name, place, turns))
            else:
                case = self._cases[key] = self._add_placeholder_case(place, kind or "test case", name)
                self._add_missing(case, place, kind or "test case", "its value is known only at run time")
        return self._cases[key], expected

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
        case = self._add_case(_Case(name, place, [ConvertedTurn(turn, reply)], fields.get("expected_tools")))
        for key, reason in problems.items():
            if key == "actual_output":
                note = f"{reason}; give a target that answers, or record the answer"
                self._add_row(place, "actual_output", "", Outcome.MISSING, note)
                case.comments.append(f"Not imported: actual_output ({place}): {note}")
            else:
                self._add_missing(case, place, key, reason)
        return case

    def _add_case(self, case: _Case) -> _Case:
        case.name = self._taken.add(one_line(case.name, 80))
        self._made_cases[case.name] = case
        return case

    def _add_placeholder_case(self, place: Place, source: str, name: str) -> _Case:
        return self._add_case(_Case(f"{name}: {source}", place, [ConvertedTurn({"input": NOT_IMPORTED})]))

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

    def _add_metrics(self, file: PythonFile, site: EvaluationCall, case: _Case, expected: Any) -> None:
        try:
            if site.metrics is None:
                raise UnfitError(
                    "it has no metrics argument; metrics of observed functions (`@observe`) are not imported"
                )
            found = file.values(site.metrics)
            if not found:
                raise UnfitError("its list of metrics is empty")
        except UnfitError as error:
            self._add_missing(
                case, self._place_of(site.call), f"metrics of {called_name(site.call)}", str(error), is_assertion=True
            )
            return
        for value in found:
            if site.fails:
                note = "the file expects this case to fail; write what the answer must be"
                self._add_missing(case, self._place_of(value.node), _metric_name(value), note, is_assertion=True)
            else:
                self._add_metric(file, value, case, expected)

    def _add_metric(self, file: PythonFile, value: ScopedExpression, case: _Case, expected: Any) -> None:
        place = self._place_of(value.node)
        name = _metric_name(value)
        stem = f"line_{place.line}_{snake_case(name).removesuffix('_metric')}"
        became = convert_metric(file, value, f"{place.exact}: {name}", stem, expected)
        if "expected_tools" in became.needs and (reason := self._expect_tools(case)):
            became = MetricCounterpart(Outcome.MISSING, note=reason)
        if became.outcome is Outcome.MISSING:
            self._add_missing(case, place, name, became.note, is_assertion=True)
            return
        becomes = became.name
        if became.check is not None:
            becomes = self._graders.add(became.check, case.name)
            case.metrics.append({"type": "code", "grader": becomes, "fail_on_error": True})
        elif became.metric is not None:
            metric = dict(became.metric)
            if "name" in metric:
                said = json.dumps(metric, sort_keys=True)
                if self._names.setdefault(metric["name"], said) != said:
                    metric["name"] = f"{metric['name']} (line {place.line})"
            if metric not in case.metrics:
                case.metrics.append(metric)
        self._add_row(place, name, becomes, became.outcome, became.note, is_assertion=True)

    def _add_missing(self, case: _Case, place: Place, source: str, reason: str, *, is_assertion: bool = False) -> None:
        """Add a comment for a metric without a counterpart, and, unless `allow_missing`, a grader that raises."""
        self._add_row(place, source, "", Outcome.MISSING, reason, is_assertion=is_assertion)
        case.comments.append(f"Not imported: {source} ({place}): {reason}")
        if self._allow_missing:
            return
        slug = re.sub(r"\W+", "_", source.lower())
        check = Check(f"line_{place.line}_{slug}", f"{place.exact}: {source}", "not_imported")
        grader = self._graders.add(check, case.name)
        case.metrics.append({"type": "code", "grader": grader, "fail_on_error": True})

    def _add_row(
        self, place: Place, source: str, counterpart: str, outcome: Outcome, note: str, *, is_assertion: bool = False
    ) -> None:
        self.rows.append(Row(place.file, place.line, source, counterpart, outcome, note, 1, is_assertion, place.column))

    def _place_of(self, node: ast.AST) -> Place:
        return Place(self._source.name, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)


def _case_fields(file: PythonFile, bound: ScopedExpression, call: ast.Call) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a case's literal fields, and the reasons why the values of other fields are unknown."""
    fields: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for at, name in enumerate(_FIELDS):
        node = argument_of(call, name, at if at < 2 else None)
        if node is None:
            continue
        try:
            if name in ("tools_called", "expected_tools"):
                fields[name] = [tool_fields(file, value) for value in file.values(bound.with_node(node))]
            else:
                fields[name] = file.literal(bound.with_node(node))
        except UnfitError as error:
            problems[name] = str(error)
    if "input" not in fields and "input" not in problems:
        problems["input"] = "it has no input"
    return fields, problems


def _metric_name(value: ScopedExpression) -> str:
    name = called_name(value.node) if isinstance(value.node, ast.Call) else ""
    return name if name.endswith(("Metric", "GEval")) else "metrics"


def _metric_calls(file: PythonFile) -> list[ast.Call]:
    names = set(map(called_name, file.calls))
    return file.constructor_calls(
        [name for name in names if name.endswith("Metric") or name in ("GEval", "ConversationalGEval")]
    )
