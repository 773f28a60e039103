"""Converts evaluations of skills: `evals/evals.json` (agentskills.io), and cases of `claude plugin eval`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field

from holodeck_action.extensions.importers.collecting import OWN_INSTRUCTIONS, Collector, OpenCase
from holodeck_action.extensions.importers.converted_suite import (
    NOT_IMPORTED,
    ConvertedCase,
    ConvertedSuite,
    ConvertedTurn,
    ImportResult,
)
from holodeck_action.extensions.importers.import_report import Outcome
from holodeck_action.extensions.importers.promptfoo.patterns import metric_pattern
from holodeck_action.extensions.importers.source import Place, Source, UnfitError, place_of, plain
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.named_models import NAMED
from holodeck_action.text.lazy_patterns import lazy_pattern

_JUDGE = {"provider": "anthropic", "name": NAMED["anthropic"][0]}
_FRONT_MATTER = lazy_pattern(r"(?s)\ufeff?---[^\S\n]*\n(.*?\n)?---[^\S\n]*(?:\n|\Z)(.*)")
_RESULT = "{{response}}\n\nThe changes in the workspace:\n\n{{diff}}"
"""What a judge of an assertion sees: the answer, and what the agent changed."""
_JUDGED = "a judge of this program grades it, with another prompt"
_ARGUMENTS = {"Bash": "command", "Skill": "skill"}
"""The argument that the pattern of a tool's call is for."""
_DEFAULTS = {"runs": 3, "timeout_seconds": 300, "max_turns": 10}
"""What `claude plugin eval` takes for settings that a case leaves out."""
_SHARED = (*_DEFAULTS, "model", "append_system_prompt", "disallowed_tools")
"""Settings that a suite has once for all cases."""
_EXECUTION = frozenset((*_SHARED, "allowed_tools", "artifact_publish", "growthbook_overrides", "env")) - {"runs"}
_UNFIT_SETTINGS = ("context", "plugins", "env", "artifact_publish", "growthbook_overrides", "mocks")
_UNFIT_GRADERS = {
    "tool_order": "the order of two calls is not checked; write expected_trajectory, or a code grader",
    "baseline": "it compares with a stored transcript; compare two runs with a base",
}

_Check = dict[str, Any]
"""An entry of `expect`."""


class _Case(OpenCase, kw_only=True):
    """A case of a skill, with the settings of its run."""

    place: Place
    turn: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)


def convert(source: Source, folder: Path, *, allow_missing: bool) -> ImportResult:
    """Convert an evals.json, or the folder with the cases of `claude plugin eval`.

    Args:
        source: the file or folder.
        folder: the absolute output folder.
        allow_missing: whether something without a counterpart becomes a comment only; otherwise it also becomes a
            grader that raises.

    Raises:
        ConfigurationError: there are no such cases, a file cannot be used, or no case can be run.
    """
    builder = _Builder(source, Collector(source, allow_missing=allow_missing))
    try:
        name = builder.read_folder() if source.path.is_dir() else builder.read_file()
    except UnfitError as error:
        raise ConfigurationError([f"{source.shown}: {error}"]) from None
    return ImportResult([builder.build(name, folder)], builder.parts.rows)


class _Builder:
    def __init__(self, source: Source, parts: Collector) -> None:
        self._source = source
        self.parts = parts
        self._cases: list[_Case] = []

    def read_file(self) -> str:
        """Add the cases of an evals.json; return the name of the skill."""
        file, root = self._source.name, self._source.document().root
        listed = root.get("evals") if isinstance(root, dict) else None
        if not isinstance(listed, list) or not listed:
            raise UnfitError("has no evals (expected: an evals.json of a skill, or the folder of claude plugin eval)")
        skill = str(root.get("skill_name") or self._source.path.parent.parent.name)
        for index, each in enumerate(listed):
            given = each if isinstance(each, dict) else {}
            name = str(given.get("name") or given.get("id", index + 1))
            case = self._add_case(name, place_of(file, listed, index), given.get("prompt"))
            triggered = given.get("should_trigger")
            if isinstance(triggered, bool):
                check = {"skill": {"used" if triggered else "never": skill}}
                self._expect(case, case.place, "should_trigger", check, Outcome.METRIC, "")
            key = next((key for key in ("assertions", "expectations") if given.get(key)), "expected_output")
            texts = given.get(key) or []
            for at, text in enumerate(texts if isinstance(texts, list) else [texts]):
                place = place_of(file, texts, at) if isinstance(texts, list) else place_of(file, given, key)
                self._add_assertion(case, place, key, text)
            if given.get("files"):
                reason = "put them where the prompt expects them in the workspace, and remove this grader"
                self.parts.add_missing(case, place_of(file, given, "files"), "files", reason, asserts=False)
        return skill

    def _add_assertion(self, case: _Case, place: Place, key: str, text: Any) -> None:
        match text:
            case {"type": "contains" | "not_contains" as kind, "value": str(value)}:
                self._expect(case, place, key, {kind: value}, Outcome.METRIC, "")
            case str() if text.strip():
                metric = self._judge(place, key, text)
                check = {"workspace_text": _RESULT, "metrics": [metric]}
                self._expect(case, place, key, check, Outcome.SIMILAR, _JUDGED)
            case _:
                self.parts.add_missing(case, place, key, "it is not a text; write a check", asserts=True)

    def _judge(self, place: Place, name: str, criteria: str) -> dict[str, Any]:
        params = ["input", "actual_output"]
        return {"type": "geval", "name": f"{name} ({place})", "criteria": criteria, "evaluation_params": params}

    def read_folder(self) -> str:
        """Add the cases below a folder; return the name of the plugin's folder."""
        source = self._source
        found = [path for name in ("prompt.md", "case.yaml") for path in source.existing(f"{source.name}/*/{name}")]
        for folder in sorted({path.parent for path in found}):
            self._read_case(folder)
        if not found:
            raise UnfitError("has no case (expected: folders with prompt.md or case.yaml)")
        return source.path.parent.name

    def _read_case(self, folder: Path) -> None:
        source, start = self._source, self._source.relative(folder)
        written: dict[str, Any] = {}
        file, graders = f"{start}/case.yaml", []
        for path in source.existing(file):
            root = source.data(path)
            written = dict(root) if isinstance(root, dict) else {}
            listed = written.get("graders") or []
            if not isinstance(listed, list):
                raise UnfitError(f"{file}: graders is not a list")
            graders = [(place_of(file, listed, at), each) for at, each in enumerate(listed)]
        given = written.get("execution")
        execution: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        for path in source.existing(f"{start}/prompt.md"):
            file = source.relative(path)
            front, body = self._prose(path)
            execution |= {key: value for key, value in front.items() if key in _EXECUTION}
            written |= {key: value for key, value in front.items() if key not in _EXECUTION}
            execution["prompt"] = body or execution.get("prompt")
        for path in source.existing(f"{start}/graders/*.md"):
            front, body = self._prose(path)
            text = {"pattern" if front.get("type") == "regex" else "criteria": body}
            graders.append((Place(source.relative(path), 1), {"name": path.stem, **text, **front}))
        written["mocks"] = [found for at in (source.name, start) for found in source.existing(f"{at}/mocks/*/*.md")]
        case = self._add_case(str(written.get("name") or folder.name), Place(file, 1), execution.get("prompt"))
        case.settings = {**_DEFAULTS, **execution, "runs": written.get("runs", _DEFAULTS["runs"])}
        for place, grader in graders:
            self._add_grader(case, place, grader if isinstance(grader, dict) else {})
        for key in _UNFIT_SETTINGS:
            if (written | execution).get(key):
                reason = "a case has no such setting; prepare the workspace, or write an own target"
                self.parts.add_missing(case, case.place, key, reason, asserts=False)

    def _prose(self, path: Path) -> tuple[Mapping[str, Any], str]:
        text = self._source.text(path).replace("\r\n", "\n")
        found = _FRONT_MATTER.fullmatch(text)
        # One line more, so that positions are those of the file.
        front = self._source.parse(f"\n{found[1] or ''}", self._source.relative(path)) if found else None
        return front if isinstance(front, dict) else {}, (found[2] if found else text).strip()

    def _add_grader(self, case: _Case, place: Place, grader: Mapping[str, Any]) -> None:
        kind = str(grader.get("type"))
        try:
            checks, outcome, note = self._checks(place, kind, grader)
        except UnfitError as error:
            self.parts.add_missing(case, place, kind, str(error), asserts=True)
            return
        for check in checks:
            self._expect(case, place, kind, check, outcome, note)

    def _checks(self, place: Place, kind: str, grader: Mapping[str, Any]) -> tuple[list[_Check], Outcome, str]:
        """Return the entries of `expect` that do what a grader does."""
        match kind:
            case "regex":
                negated = {"contains": False, "not_contains": True}.get(str(grader.get("match", "contains")))
                if negated is None:
                    raise UnfitError("matches are not counted; write a code grader")
                name = "not_regex" if negated else "regex"
                metric = {"type": name, "pattern": _pattern(_text(grader, "pattern"), str(grader.get("flags") or ""))}
                note = "an empty text does not pass" if negated else ""
                return [_seen(grader.get("target"), metric, ())], Outcome.METRIC, note
            case "llm":
                metric = self._judge(place, str(grader.get("name") or kind), _text(grader, "criteria"))
                return [_seen(grader.get("focus"), metric, ("files", "trace"))], Outcome.SIMILAR, _JUDGED
            case "file_exists":
                wanted = "any" if grader.get("exists", True) else "never"
                note = "a file that is changed counts, too"
                return [{"changed": {wanted: [_text(grader, "path")]}}], Outcome.SIMILAR, note
            case "tool_used":
                return _called(grader), Outcome.SIMILAR if grader.get("input_match") else Outcome.METRIC, ""
            case _:
                raise UnfitError(_UNFIT_GRADERS.get(kind, f"the kind {kind} is not known; write a check"))

    def _expect(self, case: _Case, place: Place, source: str, check: _Check, outcome: Outcome, note: str) -> None:
        case.turn.setdefault("expect", []).append(check)
        self.parts.add_row(place, source, next(iter(check)), outcome, note, asserts=True)

    def _add_case(self, name: str, place: Place, prompt: Any) -> _Case:
        asked = isinstance(prompt, str) and prompt.strip()
        case = _Case(name=self.parts.case_name(name), place=place, turn={"input": prompt if asked else NOT_IMPORTED})
        self._cases.append(case)
        if not asked:
            self.parts.add_missing(case, place, "prompt", "it has no prompt", asserts=False)
        return case

    def build(self, name: str, folder: Path) -> ConvertedSuite:
        """Return the suite, which is written to `folder`."""
        for case in self._cases:
            if "expect" not in case.turn and not case.metrics:
                self.parts.add_missing(case, case.place, "no assertion", "give the case a check", asserts=False)
        policy = self._policy(folder)
        written = [
            ConvertedCase(case.name, [str(case.place), *case.comments], [ConvertedTurn(case.turn)], case.metrics)
            for case in self._cases
        ]
        kept, notes = self.parts.runnable(written)
        top = {"name": name, "model": _JUDGE, "instructions": OWN_INSTRUCTIONS}
        graders = self.parts.graders.text()
        return ConvertedSuite("", self._source.name, top, kept, policy, notes=notes, graders=graders)

    def _policy(self, folder: Path) -> dict[str, Any]:
        target: dict[str, Any] = {"agent": "claude"}
        options: dict[str, str] = {}
        place = Place(self._source.name, 1)
        if (found := self._workspace()) is None:
            for case in self._cases:
                reason = "it is in no .claude/skills and no plugin; name a workspace that has it in the policy file"
                self.parts.add_missing(case, place, "the skill", reason, asserts=False)
        else:
            workspace, options = found
            target["workspace"] = os.path.relpath(workspace, folder).replace(os.sep, "/")
            note = "each trial gets a copy of it; whatever it has of the cases, the agent can read"
            self.parts.add_row(place, "the skill", "workspace", Outcome.SIMILAR, note, 0, asserts=False)
        shared = {key: value for key in _SHARED if (value := self._shared(key)) is not None}
        policy: dict[str, Any] = {"target": target}
        if "runs" in shared:
            policy["trials"] = {"repeat": shared["runs"]}
            policy["limits"] = {"turn_timeout_s": shared.get("timeout_seconds", _DEFAULTS["timeout_seconds"])}
        if "model" in shared:
            target["model"] = str(shared["model"])
        if any(case.settings.get("allowed_tools") for case in self._cases):
            note = "the program may use all of its tools; take some away with disallowed-tools"
            self.parts.add_row(place, "allowed_tools", "nothing", Outcome.SIMILAR, note, 0, asserts=False)
        for key in ("max_turns", "append_system_prompt", "disallowed_tools"):
            if key in shared:
                value = shared[key]
                options[key.replace("_", "-")] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if options:
            target["options"] = options
        return policy

    def _shared(self, key: str) -> Any:
        """Return the setting that all cases have; None if there is none. A case with another one cannot pass."""
        values = [plain(case.settings.get(key)) for case in self._cases]
        for case, value in zip(self._cases, values, strict=True):
            if json.dumps(value) != json.dumps(values[0]):
                reason = "the first case has another one, and a suite has one; write a suite for each"
                self.parts.add_missing(case, case.place, key, reason, asserts=False)
        return values[0]

    def _workspace(self) -> tuple[Path, dict[str, str]] | None:
        """Return the folder in which the program finds the skill, and options for it; None if there is none."""
        for folder in self._source.path.parents:
            if folder.name == ".claude":
                return folder.parent, {}
            if (folder / ".claude-plugin" / "plugin.json").is_file():
                return folder, {"plugin-dir": "."}
            if folder == self._source.root:
                break
        return None


def _text(grader: Mapping[str, Any], key: str) -> str:
    """Return the text that a grader looks for; without it, the opposite of the grader would always pass."""
    text = str(grader.get(key) or "")
    if not text.strip():
        raise UnfitError(f"it has no {key}; write a check")
    return text


def _pattern(pattern: Any, flags: str = "") -> str:
    """Return a pattern of JavaScript for this program's metrics."""
    if set(flags) - set("gi"):
        raise UnfitError(f"the flags {flags} of its pattern are not translated; write a regex metric")
    found = metric_pattern(str(pattern))
    if found is None:
        raise UnfitError("its pattern may match half of a character; write a regex metric")
    return f"(?i){found}" if "i" in flags else found


def _seen(focus: Any, metric: dict[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    """Return the entry of `expect` for a metric of what a grader looks at; `allowed`: without the answer and files."""
    match focus:
        case None | "last_message" if "pattern" in metric:
            return {metric["type"]: metric["pattern"]}
        case None | "last_message":
            return {"workspace_text": "{{response}}", "metrics": [metric]}
        case {"source": "file", "path": str(path)}:
            return {"workspace_text": f"{{{{file {path}}}}}", "metrics": [metric]}
        case str() if focus in allowed:
            text = {"files": "{{files}}", "trace": "{{trajectory}}"}[focus]
            return {"workspace_text": text, "metrics": [metric]}
        case _:
            raise UnfitError(f"it looks at {focus}, which has another form here; write a check")


def _called(grader: Mapping[str, Any]) -> list[dict[str, Any]]:
    tool, least, most = _text(grader, "tool"), grader.get("min", 1), grader.get("max")
    if least not in (0, 1) or (least == 0 and most is None):
        raise UnfitError("its least number of calls is not checked; write a code grader")
    if not (pattern := grader.get("input_match")):
        checks = [{"called": {"tool": tool}}] if least else []
        return checks if most is None else [*checks, {"called": {"tool": tool, "max": most}}]
    if tool not in _ARGUMENTS:
        raise UnfitError(f"its pattern is for all arguments together; write args of called for {tool}")
    if most is None:
        return [{"called": {"tool": tool, "args": {_ARGUMENTS[tool]: {"matches": _pattern(pattern)}}}}]
    if most != 0:
        raise UnfitError("calls that match a pattern are not counted; write a code grader")
    return [{"called": {"tool": tool, "never": {"matches": _pattern(pattern)}}}]
