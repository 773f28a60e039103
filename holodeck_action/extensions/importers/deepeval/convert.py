"""Test files and datasets of DeepEval as a suite of ours."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.accounting import Outcome, Row
from holodeck_action.extensions.importers.deepeval.metrics import BecameMetric, become
from holodeck_action.extensions.importers.deepeval.reading import (
    CONVERSATIONS,
    SINGLE,
    Bound,
    PythonFile,
    Site,
    argument,
    called,
)
from holodeck_action.extensions.importers.grader_file import Check, GraderFile
from holodeck_action.extensions.importers.names import Names
from holodeck_action.extensions.importers.source import Place, Source, UnfitError, json_problem
from holodeck_action.extensions.importers.written import (
    AGENT,
    TRANSCRIPT,
    UNASKED,
    Imported,
    WrittenCase,
    WrittenSuite,
    WrittenTurn,
    without_unasked,
)
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.plain import one_line

_FIELDS = ("input", "actual_output", "expected_output", "retrieval_context", "tools_called", "expected_tools", "name")
_MODEL = {"provider": "openai", "name": "gpt-4o-mini"}
_SEPARATORS = {"retrieval_context": "|", "context": "|"}


class _Case(Struct):
    """A case in the making."""

    name: str
    place: Place
    turns: list[WrittenTurn]
    expected_tools: Any = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)


def convert(source: Source, out: Path, *, allow_missing: bool) -> Imported:
    """Read a test file (.py) or a dataset (.json, .csv).

    Args:
        source: the file.
        out: the absolute folder that the suite is for; nothing in it depends on that.
        allow_missing: whether metrics without an equal are only comments, and not graders that refuse.

    Raises:
        ConfigurationError: it is neither, or has no case.
    """
    kind = source.path.suffix.lower()
    if kind not in (".py", ".json", ".csv"):
        raise ConfigurationError(
            [f"{source.shown}: is no test file or dataset of DeepEval (expected: .py, .json, .csv)"]
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
        for number, (place, golden) in enumerate(_goldens(source, kind), 1):
            builder.golden(place, golden, number)
    if not builder.cases:
        raise ConfigurationError(
            [f"{source.shown}: has no test case (expected: LLMTestCase, Golden, or a list of goldens)"]
        )
    return Imported([builder.suite()], builder.rows)


def _goldens(source: Source, kind: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    if kind == ".json":
        root = source.document().root
        goldens = root.get("goldens", root.get("test_cases")) if isinstance(root, dict) else root
        for index, item in enumerate(goldens if isinstance(goldens, list) else ()):
            if isinstance(item, dict):
                yield Place(source.name, getattr(item, "line", index + 1)), {_snake(key): item[key] for key in item}
        return
    reader = csv.DictReader(io.StringIO(source.content().lossy_text(), newline=""))
    try:
        for row in reader:
            yield Place(source.name, reader.line_num), _golden(row)
    except csv.Error as error:
        raise ConfigurationError([f"{source.shown}:{reader.line_num}:1: is not CSV: {error}"]) from None


def _golden(row: Mapping[str, str | None]) -> dict[str, Any]:
    golden: dict[str, Any] = {}
    for key, cell in row.items():
        if key and cell:
            name = _snake(key)
            golden[name] = cell.split(_SEPARATORS[name]) if name in _SEPARATORS else cell
    for name in ("tools_called", "expected_tools"):
        if name in golden:
            try:
                golden[name] = Foreign(golden[name].encode()).json()
            except ForeignError:
                golden[name] = None
            if json_problem(golden[name]):
                golden[name] = None
    return golden


def _snake(key: Any) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", str(key)).lower()


class _Builder:
    def __init__(self, source: Source, *, allow_missing: bool) -> None:
        self._source = source
        self._allow_missing = allow_missing
        self._graders = GraderFile(source.name)
        self._names: dict[str, str] = {}
        self._taken = Names("{} ({})")
        self._made_cases: dict[str, _Case] = {}
        self._cases: dict[tuple[Any, ...], _Case] = {}
        self.rows: list[Row] = []

    @property
    def cases(self) -> Sequence[_Case]:
        """The cases so far."""
        return list(self._made_cases.values())

    def read(self, file: PythonFile) -> None:
        """Take the cases and metrics of a test file."""
        used: set[int] = set()
        for site in file.sites():
            self._site(file, site, used)
        for call in file.constructed((*SINGLE, *CONVERSATIONS)):
            if id(call) not in used:
                place = self._place(call)
                case = self._refused(place, called(call), f"line {place.line}")
                self._missing(case, place, called(call), "no assert_test, evaluate or measure of it was found")
        seen = {(row.line, row.column) for row in self.rows if row.asserts}
        for call in _metric_calls(file):
            place = self._place(call)
            if (place.line, place.column) not in seen:
                note = "no assert_test, evaluate or measure that uses it was found; add it to the cases that need it"
                self._row(place, called(call), "", Outcome.MISSING, note, asserts=True)

    def golden(self, place: Place, golden: Mapping[str, Any], number: int) -> None:
        """Take an entry of a dataset, which has no metrics."""
        name = str(golden.get("name") or f"case {number}")
        if not isinstance(golden.get("input"), str) or not golden["input"].strip():
            case = self._refused(place, "golden", name)
            self._missing(case, place, "golden", "it has no input, or is a conversation")
            return
        case = self._case(name, place, {**golden, "input": golden["input"]}, {})
        self._expect_tools(case)
        self._missing(case, place, "no metric", "a dataset has no metrics; add those of the test file")

    def suite(self) -> WrittenSuite:
        """Return the suite."""
        written = [
            WrittenCase(case.name, [str(case.place), *case.comments], case.turns, case.metrics) for case in self.cases
        ]
        notes: Sequence[str] = ()
        kept: Sequence[WrittenCase] = written
        if self._allow_missing:
            kept, notes = without_unasked(written)
        if not kept:
            raise ConfigurationError([f"{self._source.shown}: no case can be asked ({notes[0]})"])
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
            "model": _MODEL,
            "instructions": {"inline": "Not used: the target has its own."},
        }
        names = {case.name for case in kept}
        additions = {case.name: case.policy for case in self.cases if case.policy and case.name in names}
        if additions:
            policy["cases"] = additions
        graders = self._graders.text()
        return WrittenSuite("", self._source.name, top, kept, policy, notes=notes, graders=graders, agent=agent)

    def _site(self, file: PythonFile, site: Site, used: set[int]) -> None:
        place = self._place(site.call)
        what = called(site.call)
        try:
            if site.cases is None:
                raise UnfitError("it evaluates what the code does while it runs (a golden, or traces)")
            found = file.values(site.cases)
        except UnfitError as error:
            found = []
            case = self._refused(place, what, site.function or f"line {place.line}")
            self._missing(case, place, what, str(error))
            self._metrics(file, site, case, None)
        for number, value in enumerate(found, 1):
            name = site.function or f"line {place.line}"
            case, expected = self._made(file, value, f"{name} {number}" if len(found) > 1 else name, used)
            self._metrics(file, site, case, expected)

    def _made(self, file: PythonFile, value: Bound, name: str, used: set[int]) -> tuple[_Case, Any]:
        """Return the case that an expression constructs, the same one each time."""
        node = value.node
        place = self._place(node)
        kind = called(node) if isinstance(node, ast.Call) else ""
        key = (id(node), *(id(each.node) for each in value.names.values()))
        if isinstance(node, ast.Call):
            used.add(id(node))
        for bound in value.names.values():
            used.add(id(bound.node))
        expected = None
        if kind in SINGLE:
            assert isinstance(node, ast.Call)
            fields, problems = _read(file, value, node)
            expected = fields.get("expected_output")
            if key not in self._cases:
                own = fields.get("name")
                self._cases[key] = self._case(own if isinstance(own, str) else name, place, fields, problems)
        elif key not in self._cases:
            turns = _turns(file, value) if kind in CONVERSATIONS else None
            if turns:
                self._cases[key] = self._add(_Case(name, place, turns))
            else:
                case = self._cases[key] = self._refused(place, kind or "test case", name)
                self._missing(case, place, kind or "test case", "only running the code tells what it is")
        return self._cases[key], expected

    def _case(self, name: str, place: Place, fields: Mapping[str, Any], problems: Mapping[str, str]) -> _Case:
        text = fields.get("input")
        turn: dict[str, Any] = {"input": text if isinstance(text, str) and text.strip() else UNASKED}
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
                reply["tool_invocations"] = [_call(tool) for tool in tools if isinstance(tool, dict)]
        case = self._add(_Case(name, place, [WrittenTurn(turn, reply)], fields.get("expected_tools")))
        for key, reason in problems.items():
            if key == "actual_output":
                note = f"{reason}; give a target that answers, or record the answer"
                self._row(place, "actual_output", "", Outcome.MISSING, note)
                case.comments.append(f"Not imported: actual_output ({place}): {note}")
            else:
                self._missing(case, place, key, reason)
        return case

    def _add(self, case: _Case) -> _Case:
        case.name = self._taken.add(one_line(case.name, 80))
        self._made_cases[case.name] = case
        return case

    def _refused(self, place: Place, what: str, name: str) -> _Case:
        return self._add(_Case(f"{name}: {what}", place, [WrittenTurn({"input": UNASKED})]))

    def _expect_tools(self, case: _Case) -> str:
        """Write the expected calls of a case; return why that cannot be done."""
        tools = case.expected_tools
        if not isinstance(tools, list) or not all(isinstance(tool, dict) and tool.get("name") for tool in tools):
            return "the case has no expected_tools that are written out"
        case.policy["expected_trajectory"] = [
            {"name": str(tool["name"]), **({"args": tool["input_parameters"]} if tool.get("input_parameters") else {})}
            for tool in tools
        ]
        return ""

    def _metrics(self, file: PythonFile, site: Site, case: _Case, expected: Any) -> None:
        try:
            if site.metrics is None:
                raise UnfitError("its metrics are those of the code that it observes")
            found = file.values(site.metrics)
            if not found:
                raise UnfitError("its list of metrics is empty")
        except UnfitError as error:
            self._missing(case, self._place(site.call), f"metrics of {called(site.call)}", str(error), asserts=True)
            return
        for value in found:
            if site.fails:
                note = "the file expects that it fails; write what the answer must be"
                self._missing(case, self._place(value.node), _metric_name(value), note, asserts=True)
            else:
                self._metric(file, value, case, expected)

    def _metric(self, file: PythonFile, value: Bound, case: _Case, expected: Any) -> None:
        place = self._place(value.node)
        name = _metric_name(value)
        stem = f"line_{place.line}_{_snake(name).removesuffix('_metric')}"
        became = become(file, value, f"{place.exact}: {name}", stem, expected)
        if "expected_tools" in became.needs and (reason := self._expect_tools(case)):
            became = BecameMetric(Outcome.MISSING, note=reason)
        if became.outcome is Outcome.MISSING:
            self._missing(case, place, name, became.note, asserts=True)
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
        self._row(place, name, becomes, became.outcome, became.note, asserts=True)

    def _missing(self, case: _Case, place: Place, what: str, reason: str, *, asserts: bool = False) -> None:
        """Leave a comment, and a grader that decides nothing, so that the case cannot pass in silence."""
        self._row(place, what, "", Outcome.MISSING, reason, asserts=asserts)
        case.comments.append(f"Not imported: {what} ({place}): {reason}")
        if self._allow_missing:
            return
        slug = re.sub(r"\W+", "_", what.lower())
        check = Check(f"line_{place.line}_{slug}", f"{place.exact}: {what}", "not_imported")
        grader = self._graders.add(check, case.name)
        case.metrics.append({"type": "code", "grader": grader, "fail_on_error": True})

    def _row(
        self, place: Place, what: str, becomes: str, outcome: Outcome, note: str, *, asserts: bool = False
    ) -> None:
        self.rows.append(Row(place.file, place.line, what, becomes, outcome, note, 1, asserts, place.column))

    def _place(self, node: ast.AST) -> Place:
        return Place(self._source.name, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)


def _read(file: PythonFile, bound: Bound, call: ast.Call) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a case that are written out, and why others are not."""
    fields: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for at, name in enumerate(_FIELDS):
        node = argument(call, name, at if at < 2 else None)
        if node is None:
            continue
        try:
            if name in ("tools_called", "expected_tools"):
                fields[name] = [_tool(file, value) for value in file.values(bound.at(node))]
            else:
                fields[name] = file.literal(bound.at(node))
        except UnfitError as error:
            problems[name] = str(error)
    if "input" not in fields and "input" not in problems:
        problems["input"] = "it has no input"
    return fields, problems


def _tool(file: PythonFile, value: Bound) -> dict[str, Any]:
    if not isinstance(value.node, ast.Call) or called(value.node) != "ToolCall":
        raise UnfitError(f"line {value.node.lineno}: an expression that only running the code computes")
    names = ("name", "input_parameters", "output")
    found = {name: argument(value.node, name, None) for name in names}
    return {name: file.literal(value.at(node)) for name, node in found.items() if node is not None}


def _call(tool: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": str(tool.get("name"))}
    made["args"] = tool.get("input_parameters", tool.get("inputParameters")) or {}
    if tool.get("output") is not None:
        made["result"] = tool["output"]
    return made


def _turns(file: PythonFile, value: Bound) -> list[WrittenTurn]:
    """Return the turns of a conversation, if user and assistant take turns in it and all is written out."""
    assert isinstance(value.node, ast.Call)
    node = argument(value.node, "turns", 0)
    try:
        said = [] if node is None else [_said(file, each) for each in file.values(value.at(node))]
    except UnfitError:
        return []
    if len(said) % 2 or any(role != ("user", "assistant")[index % 2] for index, (role, _) in enumerate(said)):
        return []
    texts = [text for _, text in said]
    return [
        WrittenTurn({"input": question}, {"response": answer})
        for question, answer in zip(texts[::2], texts[1::2], strict=True)
    ]


def _said(file: PythonFile, turn: Bound) -> tuple[str, str]:
    if not isinstance(turn.node, ast.Call) or called(turn.node) != "Turn":
        raise UnfitError("no turn")
    role, content = argument(turn.node, "role", 0), argument(turn.node, "content", 1)
    if role is None or content is None:
        raise UnfitError("no turn")
    return str(file.literal(turn.at(role))), str(file.literal(turn.at(content)))


def _metric_name(value: Bound) -> str:
    name = called(value.node) if isinstance(value.node, ast.Call) else ""
    return name if name.endswith(("Metric", "GEval")) else "metrics"


def _metric_calls(file: PythonFile) -> list[ast.Call]:
    names = set(map(called, file.calls))
    return file.constructed(
        [name for name in names if name.endswith("Metric") or name in ("GEval", "ConversationalGEval")]
    )
