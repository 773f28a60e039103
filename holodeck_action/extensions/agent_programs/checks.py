"""Checks of what an agent left in its workspace, and of what it did there; each is a required yes or no.

They read the facts that the session stored in the reply's metadata, so that stored trials can be graded again.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.hidden import HiddenFiles
from holodeck_action.extensions.agent_programs.workspace import MOST_TEXT, split_lines, walk
from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.json_check import JsonMetric, JsonValue
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, excerpt, format_count
from holodeck_action.metrics.text_checks import check_pattern
from holodeck_action.metrics.tools.matchers import TimedPatterns, format_pattern, format_text
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.model.base import Flag, FormatModel, Integer, NonBlank, Number, WrittenText
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.yaml.reading import read_foreign_yaml
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.lazy_patterns import lazy_pattern

Pattern = Annotated[NonBlank, AfterValidator(check_pattern)]
"""A regular expression."""
Answer = tuple[bool, str]
"""Whether a check passes, and a sentence with the reason."""
_MOST_NAMED = 5


class WorkspaceCheck(ComputedMetric):
    """Base class of the checks; none has a threshold."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.METADATA}))

    @property
    def pass_mark(self) -> float | None:
        """1: a check passes or fails."""
        return 1.0

    @property
    def grades_content(self) -> bool:
        """What an agent leaves behind is its answer."""
        return not self.ONLY_FORBIDS

    def kept_paths(self) -> Sequence[str]:
        """Return the paths of files whose content the check reads, relative to the workspace."""
        return ()

    def compute(self, **given: Any) -> EvaluationResult:
        """Check the facts in `metadata`.

        Raises:
            EvaluationError: a fact is unknown (code `missing_input`), or the check cannot be made.
        """
        facts = workspace_facts(given["metadata"], self.type)
        passed, reason = self.check(facts, given.get("tool_invocations"))
        return self.result(float(passed), reason, passed=passed)

    @abstractmethod
    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the check passes, and a sentence with the reason."""


def workspace_facts(metadata: Any, kind: str) -> Mapping[str, Any]:
    """Return the facts of a workspace in a reply's metadata; `kind` is the type of metric that needs them.

    Raises:
        EvaluationError: there are none (code `missing_input`).
    """
    facts = metadata.get("workspace") if isinstance(metadata, Mapping) else None
    if not isinstance(facts, Mapping):
        message = f"{kind} needs a target that works in a workspace (target: {{agent: …}})"
        raise EvaluationError(message, code="missing_input")
    return facts


def kept_file(facts: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return the stored facts of a file: `exists`, and its `text`, which is None unless the file is a small text.

    Raises:
        EvaluationError: nothing was kept (code `missing_input`).
    """
    found = facts.get("files", {}).get(path) if isinstance(facts.get("files"), Mapping) else None
    if not isinstance(found, Mapping):
        message = f"the trial kept nothing of {format_text(path)}; run the agent again to check this file"
        raise EvaluationError(message, code="missing_input")
    return found


def _missing(found: Mapping[str, Any], path: str) -> str:
    """Return why a path is not that of a file; empty if it is."""
    if not found.get("exists"):
        return f"{path} does not exist"
    return f"{path} is not a file of the workspace" if found.get("is_file") is False else ""


def kept_text(facts: Mapping[str, Any], path: str) -> tuple[str | None, str]:
    """Return the text of a file, and why there is none.

    Raises:
        EvaluationError: nothing was kept, or the file is too large (code `missing_input`).
    """
    found = kept_file(facts, path)
    if problem := _missing(found, path):
        return None, problem
    if found.get("is_large"):
        message = f"{path} has more than {MOST_TEXT:,} bytes, so that its content is unknown; check it with command"
        raise EvaluationError(message, code="missing_input")
    text = found.get("text")
    return (text, "") if isinstance(text, str) else (None, f"{path} is not UTF-8 text")


def _check_path(value: str) -> str:
    parts = value.split("/")
    if value.startswith("/") or not {"", ".", ".."}.isdisjoint(parts):
        raise PydanticCustomError("workspace_path", "must be a path relative to the workspace, without . and ..")
    return value


WorkspacePath = Annotated[NonBlank, AfterValidator(_check_path)]
"""A path relative to the workspace."""


class FileConditions(FormatModel):
    """`file`: conditions on one file of the workspace."""

    path: WorkspacePath
    """Path, relative to the workspace. Example: `src/refund.py`."""
    exists: Flag = True
    """False: the file must not exist."""
    contains: WrittenText | None = None
    """Text that the file contains. Example: `def refund`."""
    matches: Pattern | None = None
    """A regular expression that is searched for in the file. Example: `def refund`."""
    equals: NonBlank | None = None
    """A file with the expected content, relative to the file that names it. Example: `golden/refund.py`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.exists and len(self.model_fields_set) > 2:
            raise PydanticCustomError("file_exists", "exists: false cannot be combined with other conditions")
        return self


class FileMetric(WorkspaceCheck):
    """`type: file`: a file of the workspace exists and has a certain content."""

    PLACE = 60
    SHORT: ClassVar[str | None] = "file"
    NAMES_FILE = True

    type: Annotated[Literal["file"], Role.KIND] = "file"
    file: FileConditions
    """The file. Example: `{path: src/refund.py, contains: def refund}`."""

    _golden: str | None = PrivateAttr(None)

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy with the expected content; see `Metric.with_file`."""
        if self.file.equals is None:
            return self
        path = place(self.file.equals)
        made = self.model_copy(update={"file": self.file.model_copy(update={"equals": path})})
        try:
            made._golden = checkout.read(path).text()
        except ForeignError as error:
            raise ValueError(f"the file {path} {error}") from None
        return made

    def base_name(self, k: int | None) -> str:
        """Return the type with the path and the conditions."""
        wanted = self.file
        given = {"contains": wanted.contains, "matches": wanted.matches, "equals": wanted.equals}
        words = [f" {name} {format_text(text, 40)}" for name, text in given.items() if text is not None]
        return f"file {wanted.path}{''.join(words)}" if wanted.exists else f"no file {wanted.path}"

    def kept_paths(self) -> Sequence[str]:
        """Return the path of the file."""
        return (self.file.path,)

    def attached_files(self, folder: Path) -> Sequence[str]:
        """Return the path of the expected content."""
        return () if self.file.equals is None else (self.file.equals,)

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the file meets all conditions."""
        wanted = self.file
        if not wanted.exists:
            exists = bool(kept_file(facts, wanted.path).get("exists"))
            return not exists, f"{wanted.path} {'exists' if exists else 'does not exist'}"
        if wanted.contains is wanted.matches is wanted.equals is None:
            problem = _missing(kept_file(facts, wanted.path), wanted.path)
            return not problem, problem or f"{wanted.path} exists"
        text, problem = kept_text(facts, wanted.path)
        if text is None:
            return False, problem
        if wanted.contains is not None and wanted.contains not in text:
            return False, f"{wanted.path} does not contain {format_text(wanted.contains)}; it is {excerpt(text)}"
        if wanted.matches is not None and TimedPatterns().search(wanted.matches, text) is None:
            return False, f"{wanted.path} has no match of {format_pattern(wanted.matches)}; it is {excerpt(text)}"
        if wanted.equals is not None and text != self._golden:
            return False, f"{wanted.path} differs from {wanted.equals}{_first_difference(text, self._golden or '')}"
        return True, f"{wanted.path} is as expected"


def _first_difference(text: str, wanted: str) -> str:
    lines, expected = split_lines(text), split_lines(wanted)
    for number, (line, other) in enumerate(zip(lines, expected, strict=False), 1):
        if line != other:
            return f" in line {number}: {format_text(line)}, expected {format_text(other)}"
    return f": it has {format_count(len(lines), 'lines')}, expected {len(expected)}"


class DataConditions(JsonValue):
    """`data`: conditions on a value in a JSON, YAML or TOML file of the workspace."""

    path: WorkspacePath
    """Path, relative to the workspace; its suffix tells the format. Example: `package.json`."""
    at: NonBlank = "$"
    """JSONPath of the value. Example: `$.scripts.test`."""


class DataMetric(WorkspaceCheck):
    """`type: data`: a value in a JSON, YAML or TOML file of the workspace."""

    PLACE = 61
    SHORT: ClassVar[str | None] = "data"

    type: Annotated[Literal["data"], Role.KIND] = "data"
    data: DataConditions
    """The file and the value. Example: `{path: package.json, at: $.scripts.test, equals: vitest}`."""

    _json: JsonMetric = PrivateAttr()

    @model_validator(mode="after")
    def _check_conditions_of_value(self) -> Self:
        given = self.data.model_dump(include=self.data.model_fields_set - {"path", "at"})
        self._json = JsonMetric(paths={self.data.at: JsonValue(**given)})
        return self

    def base_name(self, k: int | None) -> str:
        """Return the type with the path and the place."""
        return f"data {format_text(f'{self.data.path} {self.data.at}', 40)}"

    def kept_paths(self) -> Sequence[str]:
        """Return the path of the file."""
        return (self.data.path,)

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the value meets all conditions."""
        text, problem = kept_text(facts, self.data.path)
        if text is None:
            return False, problem
        try:
            document = _as_json(self.data.path, text)
        except ValueError as error:
            return False, f"{self.data.path} cannot be read: {error}"
        score, reason, _ = self._json.check(document)
        return score == 1.0, f"{self.data.path}: {reason.replace('the answer', 'it')}"


def _as_json(path: str, text: str) -> str:
    """Return the data of a file as JSON text; JSON is returned as it is.

    Raises:
        ValueError: the file cannot be parsed; the message is the reason.
    """
    if path.endswith((".yaml", ".yml")):
        document = read_foreign_yaml(Foreign.of_text(text), file=path)
        if document.problems:
            raise ValueError(document.problems[0])
        return json.dumps(document.root)
    if path.endswith(".toml"):
        import tomllib

        try:
            # Dates become text, as in YAML.
            return json.dumps(tomllib.loads(text), default=str)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    return text


class ChangedConditions(FormatModel):
    """`changed`: what the agent may, must and must not change."""

    only: list[NonBlank] | None = None
    """Patterns of the paths that may change; `**` stands for any folders. Example: `["src/**"]`."""
    never: list[NonBlank] | None = None
    """Patterns of the paths that must not change. Example: `["tests/**", ".github/**"]`."""
    any: list[NonBlank] | None = None
    """Patterns of which each must match a changed path. Example: `[src/refund.py]`."""
    max_files: Annotated[Integer, Field(ge=0)] | None = None
    """Most files that may change; 0: nothing. Example: `5`."""
    max_lines: Annotated[Integer, Field(ge=0)] | None = None
    """Most lines that may be added and removed together. Example: `120`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set:
            raise PydanticCustomError("changed", 'give at least one condition, such as never: ["tests/**"]')
        return self


class ChangedMetric(WorkspaceCheck):
    """`type: changed`: which files the agent changed, measured against the workspace's first state."""

    PLACE = 62
    SHORT: ClassVar[str | None] = "changed"

    type: Annotated[Literal["changed"], Role.KIND] = "changed"
    changed: ChangedConditions
    """The conditions. Example: `{only: ["src/**"], never: ["tests/**"], max_files: 5}`."""

    def base_name(self, k: int | None) -> str:
        """Return the type with the conditions."""
        given = self.changed.model_dump(exclude_none=True)
        words = (f"{name} {' '.join(value) if isinstance(value, list) else value}" for name, value in given.items())
        return f"changed {format_text(', '.join(words), 60)}"

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the changes meet all conditions."""
        entries = facts.get("changed")
        if not isinstance(entries, Sequence):
            raise EvaluationError("it is unknown what the trial changed", code="missing_input")
        # Of what Git ignores, only the forbidden counts.
        all_paths = [str(entry["path"]) for entry in entries]
        entries = [entry for entry in entries if not entry.get("ignored")]
        paths = [str(entry["path"]) for entry in entries]
        wanted, problems = self.changed, []
        outside = [path for path in paths if wanted.only is not None and not _matches_any(path, wanted.only)]
        forbidden = [path for path in all_paths if _matches_any(path, wanted.never or ())]
        missing = [each for each in wanted.any or () if not any(path_matches(path, each) for path in all_paths)]
        problems += [f"{_named(forbidden)} must not be changed"] if forbidden else []
        problems += [f"{_named(outside)} may not be changed"] if outside else []
        problems += [f"{each} was not changed" for each in missing]
        if wanted.max_files is not None and len(paths) > wanted.max_files:
            problems.append(f"{format_count(len(paths), 'files')} changed, at most {wanted.max_files} may")
        if wanted.max_lines is not None:
            counts = [entry.get(key) for entry in entries for key in ("added_lines", "removed_lines")]
            if None in counts:
                unknown = next(entry["path"] for entry in entries if entry.get("added_lines") is None)
                problems.append(f"the lines of {unknown} cannot be counted, because it is no small text")
            elif (lines := sum(counts)) > wanted.max_lines:
                problems.append(f"{format_count(lines, 'lines')} changed, at most {wanted.max_lines} may")
        if problems:
            return False, "; ".join(problems)
        return True, f"{_named(paths)} changed, as allowed" if paths else "nothing was changed"


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _matches_any(path: str, patterns: Sequence[str]) -> bool:
    return any(path_matches(path, pattern) for pattern in patterns)


def path_matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern, in which `*` stands for a part of a name and `**` for any folders."""
    parts, wanted = path.split("/"), pattern.split("/")

    @cache
    def matches(at: int, of: int) -> bool:
        if of == len(wanted):
            return at == len(parts)
        if wanted[of] == "**":
            return any(matches(start, of + 1) for start in range(at, len(parts) + 1))
        return at < len(parts) and fnmatchcase(parts[at], wanted[of]) and matches(at + 1, of + 1)

    return matches(0, 0)


class OutputConditions(FormatModel):
    """Conditions on an output of a command."""

    contains: WrittenText | None = None
    """Text that the output contains. Example: `passed`."""
    matches: Pattern | None = None
    """A regular expression that is searched for in the output. Example: `\\d+ passed`."""

    def problem(self, output: str) -> str | None:
        """Return the condition that an output does not meet, as the end of a sentence; None if it meets all."""
        if self.contains is not None and self.contains not in output:
            return f"does not contain {format_text(self.contains)}"
        if self.matches is not None and TimedPatterns().search(self.matches, output) is None:
            return f"has no match of {format_pattern(self.matches)}"
        return None


class CommandConditions(FormatModel):
    """`command`: a command that runs in a copy of the fixture with the agent's changes."""

    run: NonBlank
    """The command, for a POSIX shell. Example: `pytest -q tests/hidden`."""
    hidden: WorkspacePath | None = None
    """A folder or file beside agent.yaml that is copied into the tree last, and is never in the workspace. Example:
    `hidden`."""
    exit: Annotated[Integer, Field(ge=0, le=255)] = 0
    """The expected exit code. Example: `0`."""
    stdout: OutputConditions | None = None
    """Conditions on the standard output. Example: `{contains: passed}`."""
    stderr: OutputConditions | None = None
    """Conditions on the error output. Example: `{contains: passed}`."""
    timeout_s: Annotated[Number, Field(gt=0, le=3600)] = 120.0
    """Seconds that the command may take. Example: `300`."""


_QUOTES = str.maketrans("", "", "'\"\\")
_NOT_FOUND = (126, 127)
"""Exit codes of a shell that cannot start a command (POSIX, 2.8.2)."""


class CommandMetric(WorkspaceCheck):
    """`type: command`: a command, such as hidden tests, succeeds with the agent's changes."""

    PLACE = 63
    SHORT: ClassVar[str | None] = "command"
    NAMES_FILE = True

    type: Annotated[Literal["command"], Role.KIND] = "command"
    command: CommandConditions
    """The command. Example: `{run: pytest -q hidden, hidden: hidden}`."""

    _hidden: HiddenFiles | None = PrivateAttr(None)

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy that knows the hidden files; see `Metric.with_file`."""
        if self.command.hidden is None:
            return self
        made = self.model_copy()
        made._hidden = HiddenFiles.of(checkout, self.command.hidden)
        return made

    @property
    def hidden(self) -> HiddenFiles | None:
        """The hidden files, of the suite that grades; None if there are none."""
        return self._hidden

    def base_name(self, k: int | None) -> str:
        """Return the type with the command."""
        return f"command {format_text(self.command.run, 60)}"

    def attached_files(self, folder: Path) -> Sequence[str]:
        """Return the paths of the hidden files."""
        hidden = self.command.hidden
        if hidden is None or not (folder / hidden).is_dir():
            return () if hidden is None else (hidden,)
        return [f"{hidden}/{name}" for name in walk(folder / hidden)]

    @property
    def key(self) -> str:
        """The name of the command's result among the facts of a trial."""
        return canonical_json(self.command.model_dump(include={"run", "hidden", "timeout_s"})).decode()

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the command ended as expected.

        Raises:
            EvaluationError: the command did not run with these hidden files (code `missing_input`), could not be
                started (`cannot_start`), or took too long (`timeout`).
        """
        wanted = self.command
        found = facts.get("commands", {}).get(self.key)
        if not isinstance(found, Mapping):
            message = f"{format_text(wanted.run)} was not run after the trial; run the agent again to check it"
            raise EvaluationError(message, code="missing_input")
        if found.get("problem"):
            raise EvaluationError(
                f"{format_text(wanted.run)} could not be run: {found['problem']}", code="cannot_start"
            )
        if self._hidden is not None and found.get("hidden") != self._hidden.loaded:
            message = f"the hidden files {wanted.hidden} have changed since {format_text(wanted.run)} was run; run the "
            raise EvaluationError(f"{message}agent again to check it", code="missing_input")
        ended, output = found.get("exit"), f"{found.get('stdout', '')}\n{found.get('stderr', '')}"
        if ended is None:
            message = f"{format_text(wanted.run)} took longer than {wanted.timeout_s:g} s; it was stopped"
            raise EvaluationError(message, code="timeout")
        if ended in _NOT_FOUND and wanted.exit not in _NOT_FOUND:
            message = f"{format_text(wanted.run)} could not be started: {_last_line(output)}"
            raise EvaluationError(message, code="cannot_start")
        if ended != wanted.exit:
            failed = failed_tests(output)
            code = f"exit code {ended}, expected {wanted.exit}"
            return False, f"{failed}; {code}" if failed else f"{code}: {_last_line(output)}"
        for name, conditions in (("stdout", wanted.stdout), ("stderr", wanted.stderr)):
            problem = None if conditions is None else conditions.problem(str(found.get(name)))
            if problem is not None:
                return False, f"its {name} {problem}; it ends with {_last_line(str(found.get(name)))}"
        return True, f"exit code {ended}"


_FAILED_TEST = lazy_pattern(
    r"^(?:"
    r"FAILED \S+?::(?P<pytest>.+?)(?: - .*)?$"
    r"|(?:FAIL|ERROR): (?P<unittest>test\w*)"
    r"|[ \t]*--- FAIL: (?P<go>\S+)"
    r"|not ok \d+ (?:- )?(?P<tap>.+)$"
    r"|test (?P<cargo>\S+) \.\.\. FAILED"
    r"|[ \t]*[✕✗×] (?P<others>.+?)(?: \(?\d+ ?ms\)?)?$"
    r")",
    re.MULTILINE,
)
"""Lines in which test programs name a test that failed."""


def failed_tests(output: str) -> str:
    """Return the number and the names of the tests that failed, as `2 failed: test_a, test_b`; empty if the output
    names none."""
    found = [next(name for name in line.groups() if name) for line in _FAILED_TEST.finditer(output)]
    names = [*dict.fromkeys(format_text(name.strip(), 80) for name in found)]
    return f"{len(names)} failed: {_named(names)}" if names else ""


def _last_line(text: str) -> str:
    return next((excerpt(line.strip()) for line in reversed(text.splitlines()) if line.strip()), "nothing")


class ArgumentPattern(FormatModel):
    """A condition on an argument of a call."""

    matches: Pattern
    """A regular expression that is searched for in the argument. Example: `npm test`."""


class CalledConditions(FormatModel):
    """`called`: the calls of a tool that must or must not be made."""

    tool: NonBlank
    """The tool, as the program calls it; `*` stands for any text. Example: `Bash`."""
    args: dict[str, ArgumentPattern] | None = None
    """Conditions that all arguments of one call must meet. Example: `{command: {matches: npm test}}`."""
    never: ArgumentPattern | None = None
    """No argument of any call of the tool may match. Example: `{matches: git push|rm -rf}`."""
    max: Annotated[Integer, Field(ge=0)] | None = None
    """Most calls of the tool; 0: none. Example: `30`."""


class CalledMetric(WorkspaceCheck):
    """`type: called`: a tool was called, with certain arguments, or never with others."""

    PLACE = 63
    SHORT: ClassVar[str | None] = "called"
    OF_TOOL_CALLS = True
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.METADATA, EvalParam.TOOL_INVOCATIONS}))

    type: Annotated[Literal["called"], Role.KIND] = "called"
    called: CalledConditions
    """The tool and its calls. Example: `{tool: Bash, args: {command: {matches: npm test}}}`."""

    def base_name(self, k: int | None) -> str:
        """Return the type with the tool."""
        wanted = self.called
        given = {name: each.matches for name, each in (wanted.args or {}).items()}
        given |= {} if wanted.never is None else {"never": wanted.never.matches}
        words = [f" {name} {format_text(text, 40)}" for name, text in given.items()]
        return f"called {format_text(wanted.tool, 40)}{''.join(words)}"

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the calls meet all conditions."""
        wanted, patterns = self.called, TimedPatterns()
        made = [call for call in calls or () if is_tool(call.name, wanted.tool)]
        if wanted.never is not None:
            for call in made:
                for text in _readings(call.args):
                    if patterns.search(wanted.never.matches, text) is not None:
                        return False, f"{call.name} was called with {excerpt(text)}, which must never be"
        if wanted.max is not None and len(made) > wanted.max:
            return (
                False,
                f"{wanted.tool} was called {format_count(len(made), 'times')}, at most {wanted.max} are allowed",
            )
        if wanted.args is None and (wanted.never is not None or wanted.max is not None):
            return True, f"{wanted.tool} was called {format_count(len(made), 'times')}, as allowed"
        meeting = [call for call in made if _meets(call, wanted.args or {}, patterns)]
        if meeting:
            return True, f"{wanted.tool} was called as expected"
        names = _named(sorted({call.name for call in calls or ()})) or "no tool"
        found = f"{wanted.tool} was called with other arguments" if made else f"{wanted.tool} was not called"
        return False, f"{found}; called: {names}"


def _meets(call: ToolInvocation, args: Mapping[str, ArgumentPattern], patterns: TimedPatterns) -> bool:
    return all(
        name in call.args
        and any(patterns.search(wanted.matches, text) is not None for text in _readings(call.args[name]))
        for name, wanted in args.items()
    )


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for child in value.values():
                yield from _texts(child)
        case Sequence():
            for child in value:
                yield from _texts(child)
        case None:
            return
        case _:
            yield str(value)


def _readings(value: Any) -> Iterator[str]:
    """Yield each text of a value as it is and as a shell reads it: without quotes, backslashes and further blanks."""
    for text in _texts(value):
        yield text
        plain = " ".join(text.replace("\\\n", "").translate(_QUOTES).split())
        if plain != text:
            yield plain


def is_tool(name: str, pattern: str) -> bool:
    """Return whether a tool is meant by a pattern; upper and lower case are the same."""
    return fnmatchcase(name.lower(), pattern.lower())


class SkillConditions(FormatModel):
    """`skill`: the skill that must or must not be used."""

    used: NonBlank | None = None
    """Name of a skill that must be used. Example: `refunds`."""
    never: NonBlank | None = None
    """Name of a skill that must not be used. Example: `refunds`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.used is None) == (self.never is None):
            raise PydanticCustomError("skill", "give exactly one of used and never")
        return self


_SKILL_TOOLS = frozenset(tool for adapter in ADAPTERS.values() for tool in adapter.skill_tools)
_WRITING_TOOLS = ("write", "edit", "multiedit", "file_change", "write_file", "replace", "apply_patch", "create")
_WORDS = lazy_pattern(r"""[\s'"=;&|<>()]+""")
"""What stands between the words of a command."""


class SkillMetric(WorkspaceCheck):
    """`type: skill`: a skill was used, by a call of the program's tool for skills or by reading its SKILL.md."""

    PLACE = 64
    SHORT: ClassVar[str | None] = "skill"
    OF_TOOL_CALLS = True
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.METADATA, EvalParam.TOOL_INVOCATIONS}))

    type: Annotated[Literal["skill"], Role.KIND] = "skill"
    skill: SkillConditions
    """The skill. Example: `{used: refunds}`."""

    def base_name(self, k: int | None) -> str:
        """Return the type with the skill."""
        words = "skill" if self.skill.used else "no skill"
        return f"{words} {format_text(self.skill.used or self.skill.never or '', 40)}"

    def check(self, facts: Mapping[str, Any], calls: Sequence[ToolInvocation] | None) -> Answer:
        """Return whether the skill was used, or not."""
        name = self.skill.used or self.skill.never or ""
        uses = [call for call in calls or () if _uses(call, name)]
        worked = [call for call in uses if call.error is None]
        if self.skill.never is not None:
            return not uses, f"the skill {name} was {'used' if uses else 'not used'}"
        if uses and not worked:
            return False, f"the skill {name} was called, but failed: {excerpt(uses[0].error or '')}"
        return bool(worked), f"the skill {name} was {'used' if worked else 'not used'}"


def _uses(call: ToolInvocation, skill: str) -> bool:
    texts = [*_texts(call.args)]
    if call.name.lower() in _SKILL_TOOLS:
        # A plugin's name may precede that of its skill.
        return any(text.rpartition(":")[2] == skill for text in texts)
    if call.name.lower() in _WRITING_TOOLS:
        return False
    return any(_names_skill(text, skill) for text in texts)


def _names_skill(text: str, skill: str) -> bool:
    """Return whether a path or a command names the SKILL.md of a skill: in its folder, or with those of all skills."""
    paths = [PurePosixPath(word) for word in _WORDS.split(text)]
    folders = [path.parent.name for path in paths if path.name == "SKILL.md"]
    if any(fnmatchcase(skill, folder) for folder in folders):
        return True
    return "" in folders and any(path.name == skill for path in paths)
