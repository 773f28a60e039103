"""The data of an imported suite, and functions that render the suite's files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from holodeck_action.extensions.importers.grader_file import MODULE
from holodeck_action.extensions.importers.import_report import Row
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

SUITE, POLICY, TRANSCRIPT, AGENT = "agent.yaml", "holodeck-action.yaml", "imported_answers.jsonl", "imported_agent.py"

_START, _END = "\ufdd0" + "".join(str(byte) for byte in os.urandom(6)) + "_", "\ufdd1"
"""Markers before and after the name of a variable. They are random in each process, so no imported text contains
them."""
_VARIABLE = lazy_pattern(f"{_START}([A-Za-z_][A-Za-z0-9_]*){_END}")


def variable(name: str) -> str:
    """Return a placeholder for an environment variable's value; the suite's files have `${NAME}` instead."""
    return f"{_START}{name}{_END}"


def has_variable(value: Any) -> bool:
    """Return whether a value contains a placeholder for an environment variable."""
    if isinstance(value, str):
        return _START in value
    if isinstance(value, Mapping):
        return any(map(has_variable, value.values()))
    return isinstance(value, list | tuple) and any(map(has_variable, value))


class ConvertedTurn(Struct, frozen=True):
    """One turn of a case: its fields in agent.yaml, and the recorded reply (None if no reply is recorded)."""

    fields: Mapping[str, Any]
    reply: Mapping[str, Any] | None = None


class ConvertedCase(Struct, frozen=True):
    """One case of the suite.

    Attributes:
        name: name of the case, unique in the suite.
        comments: comment lines above the case; the first one is the position of the original.
        turns: turns of the case, at least one.
        metrics: the case's own entries of `evaluations`.
    """

    name: str
    comments: Sequence[str]
    turns: Sequence[ConvertedTurn]
    metrics: Sequence[Mapping[str, Any]]


NOT_IMPORTED = "(not imported)"
"""Input of a case that cannot be run."""


def runnable_cases(cases: Sequence[ConvertedCase]) -> tuple[Sequence[ConvertedCase], Sequence[str]]:
    """Return the cases that can be run, and the comments of the other cases."""
    asked = [case for case in cases if all(turn.fields.get("input") != NOT_IMPORTED for turn in case.turns)]
    return asked, [f"{case.name}: {comment}" for case in cases if case not in asked for comment in case.comments[1:]]


class ConvertedSuite(Struct, frozen=True):
    """One suite to write.

    Attributes:
        folder: folder of the suite, relative to the output folder; empty for the output folder itself.
        source: name of the imported file.
        top: `name`, `description`, `model`, `instructions` and other keys of agent.yaml.
        metrics: entries of `evaluations.metrics` in agent.yaml.
        cases: cases of the suite, at least one.
        policy: data of the policy file.
        notes: comment lines at the top of agent.yaml.
        graders: content of the grader file; empty if there are no graders.
        agent: content of the agent file; empty if no agent is needed.
    """

    folder: str
    source: str
    top: Mapping[str, Any]
    cases: Sequence[ConvertedCase]
    policy: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    graders: str = ""
    agent: str = ""


class ImportResult(Struct, frozen=True):
    """The result of a conversion: the suites to write, and the rows of the import report."""

    suites: Sequence[ConvertedSuite]
    rows: Sequence[Row]


def files_of(suite: ConvertedSuite) -> dict[str, str]:
    """Return the contents of a suite's files, by path relative to the output folder."""
    made = {SUITE: _suite_text(suite), POLICY: _policy_text(suite)}
    replies = [row for case in suite.cases for row in transcript_rows(case)]
    if replies:
        made[TRANSCRIPT] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in replies)
    if suite.graders:
        made[f"{MODULE}.py"] = suite.graders
    if suite.agent:
        made[AGENT] = suite.agent
    start = f"{suite.folder}/" if suite.folder else ""
    return {f"{start}{name}": text for name, text in made.items()}


def transcript_rows(case: ConvertedCase) -> list[dict[str, Any]]:
    """Return the rows of the transcript for a case: its recorded replies."""
    return [
        {"case": case.name, "turn": index, **turn.reply}
        for index, turn in enumerate(case.turns)
        if turn.reply is not None
    ]


def suite_document(suite: ConvertedSuite) -> dict[str, Any]:
    """Return the data of agent.yaml, with placeholders for environment variables."""
    made = dict(suite.top)
    if suite.metrics:
        made["evaluations"] = {"metrics": list(suite.metrics)}
    return {**made, "test_cases": [_case_entry(case) for case in suite.cases]}


def policy_document(suite: ConvertedSuite) -> dict[str, Any]:
    """Return the data of the policy file, with placeholders for environment variables."""
    return dict(suite.policy)


def _suite_text(suite: ConvertedSuite) -> str:
    parts = [comment_line(f"Imported from {suite.source}."), *map(comment_line, suite.notes)]
    parts.append(_dump(suite.top))
    if suite.metrics:
        parts.append(_dump({"evaluations": {"metrics": list(suite.metrics)}}))
    return "".join([*parts, cases_text(suite.cases)])


def cases_text(cases: Sequence[ConvertedCase]) -> str:
    """Return the key `test_cases` of a YAML file, with the comments of the cases."""
    text = io.StringIO()
    text.write("test_cases:\n")
    for case in cases:
        text.writelines(f"  {comment_line(comment)}" for comment in case.comments)
        # Joined line by line: the file may have millions of lines.
        text.writelines(line if line == "\n" else f"  {line}" for line in io.StringIO(_dump([_case_entry(case)])))
    return text.getvalue()


def _case_entry(case: ConvertedCase) -> dict[str, Any]:
    made: dict[str, Any] = {"name": case.name}
    if len(case.turns) == 1 and "turn_config" not in case.turns[0].fields:
        made.update(case.turns[0].fields)
    else:
        made["turns"] = [dict(turn.fields) for turn in case.turns]
    if case.metrics:
        made["evaluations"] = list(case.metrics)
    return made


def _policy_text(suite: ConvertedSuite) -> str:
    head = comment_line(f"Imported from {suite.source}. Every case must pass, and every evaluation must have happened.")
    return head + (_dump(suite.policy) if suite.policy else "{}\n")


def comment_line(text: str) -> str:
    """Return a text as a single comment line; a long text is truncated."""
    return f"# {one_line(text, 500)}\n"


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line strings as blocks, and never dumps aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that every value is written in full."""
        return True


_DIRECTIONS = lazy_pattern("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f]")
"""Matches invisible characters that change how a line looks; YAML allows them, but a reader would be misled."""
_ESCAPED = lazy_pattern(
    r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|" + _DIRECTIONS.pattern
)
"""Matches characters that must be escaped in a quoted string: tabs, breaks, unprintable and invisible characters."""
_NO_BLOCK = lazy_pattern(r" \n| $|^\s")


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if _ESCAPED.search(text):
        style = '"'
    elif "\n" in text:
        style = '"' if _NO_BLOCK.search(text) else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def _dump(value: Any) -> str:
    text: str = yaml.dump(_escape(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    # They are only in double quotes, where PyYAML does not escape them.
    return _DIRECTIONS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(value: Any) -> Any:
    """Return plain data in which a literal `${` is escaped and placeholders become `${NAME}`."""
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", str(value).replace("${", "$${"))
    if isinstance(value, Mapping):
        return {key: _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    return value
