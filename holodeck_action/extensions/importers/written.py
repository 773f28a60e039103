"""An imported suite as a value, and the files that say it."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from holodeck_action.extensions.importers.accounting import Row
from holodeck_action.extensions.importers.grader_file import MODULE
from holodeck_action.text.plain import one_line

SUITE, POLICY, TRANSCRIPT, AGENT = "agent.yaml", "holodeck-action.yaml", "imported_answers.jsonl", "imported_agent.py"

_START, _END = "\ufdd0" + "".join(str(byte) for byte in os.urandom(6)) + "_", "\ufdd1"
"""Around the name of a variable. No imported text can hold it: it is another one in each process that converts."""
_VARIABLE = re.compile(f"{_START}([A-Za-z_][A-Za-z0-9_]*){_END}")


def variable(name: str) -> str:
    """Return a mark for the value of an environment variable, which files of the suite write as `${NAME}`."""
    return f"{_START}{name}{_END}"


def has_variable(value: Any) -> bool:
    """Whether the value of an environment variable stands anywhere in a value."""
    if isinstance(value, str):
        return _START in value
    if isinstance(value, Mapping):
        return any(map(has_variable, value.values()))
    return isinstance(value, list | tuple) and any(map(has_variable, value))


class WrittenTurn(Struct, frozen=True):
    """One turn: the fields of agent.yaml that it has, and the recorded reply, if there is one."""

    fields: Mapping[str, Any]
    reply: Mapping[str, Any] | None = None


class WrittenCase(Struct, frozen=True):
    """One case.

    Attributes:
        name: unique in the suite.
        comments: lines that stand above it, the first of which says where it was.
        turns: at least one.
        metrics: entries of `evaluations`.
    """

    name: str
    comments: Sequence[str]
    turns: Sequence[WrittenTurn]
    metrics: Sequence[Mapping[str, Any]]


UNASKED = "(not imported)"
"""Stands for the input of a case that cannot be asked."""


def without_unasked(cases: Sequence[WrittenCase]) -> tuple[Sequence[WrittenCase], Sequence[str]]:
    """Return the cases that can be asked, and what the comments of the others say."""
    asked = [case for case in cases if all(turn.fields["input"] != UNASKED for turn in case.turns)]
    return asked, [f"{case.name}: {comment}" for case in cases if case not in asked for comment in case.comments[1:]]


class WrittenSuite(Struct, frozen=True):
    """One suite.

    Attributes:
        folder: where it is written, relative to the output folder; empty for that folder itself.
        source: name of the imported file.
        top: `name`, `description`, `model`, `instructions` and other keys of agent.yaml.
        metrics: `evaluations.metrics`.
        cases: at least one.
        policy: the keys of the policy file.
        notes: lines at the top of agent.yaml.
        graders: text of the file with the graders; empty without any.
        agent: text of the file with the agent; empty without any.
    """

    folder: str
    source: str
    top: Mapping[str, Any]
    cases: Sequence[WrittenCase]
    policy: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    graders: str = ""
    agent: str = ""


class Imported(Struct, frozen=True):
    """What was read: suites to write, and the account of everything."""

    suites: Sequence[WrittenSuite]
    rows: Sequence[Row]


def files_of(suite: WrittenSuite) -> dict[str, str]:
    """Return the files of a suite: each one's path below the output folder, and its text."""
    made = {SUITE: _suite_text(suite), POLICY: _policy_text(suite)}
    replies = [row for case in suite.cases for row in rows_of(case)]
    if replies:
        made[TRANSCRIPT] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in replies)
    if suite.graders:
        made[f"{MODULE}.py"] = suite.graders
    if suite.agent:
        made[AGENT] = suite.agent
    start = f"{suite.folder}/" if suite.folder else ""
    return {f"{start}{name}": text for name, text in made.items()}


def rows_of(case: WrittenCase) -> list[dict[str, Any]]:
    """Return the rows of the transcript that answer a case."""
    return [
        {"case": case.name, "turn": index, **turn.reply}
        for index, turn in enumerate(case.turns)
        if turn.reply is not None
    ]


def document_of(suite: WrittenSuite) -> dict[str, Any]:
    """Return the data of agent.yaml, with marks for variables."""
    made = dict(suite.top)
    if suite.metrics:
        made["evaluations"] = {"metrics": list(suite.metrics)}
    return {**made, "test_cases": [_case(case) for case in suite.cases]}


def policy_of(suite: WrittenSuite) -> dict[str, Any]:
    """Return the data of the policy file, with marks for variables."""
    return dict(suite.policy)


def _suite_text(suite: WrittenSuite) -> str:
    parts = [_comment(f"Imported from {suite.source}."), *map(_comment, suite.notes)]
    parts.append(_dump(suite.top))
    if suite.metrics:
        parts.append(_dump({"evaluations": {"metrics": list(suite.metrics)}}))
    text = io.StringIO()
    text.writelines([*parts, "test_cases:\n"])
    for case in suite.cases:
        text.writelines(f"  {_comment(comment)}" for comment in case.comments)
        # Line by line: a case may have a file of millions of lines.
        text.writelines(line if line == "\n" else f"  {line}" for line in io.StringIO(_dump([_case(case)])))
    return text.getvalue()


def _case(case: WrittenCase) -> dict[str, Any]:
    made: dict[str, Any] = {"name": case.name}
    if len(case.turns) == 1 and "turn_config" not in case.turns[0].fields:
        made.update(case.turns[0].fields)
    else:
        made["turns"] = [dict(turn.fields) for turn in case.turns]
    if case.metrics:
        made["evaluations"] = list(case.metrics)
    return made


def _policy_text(suite: WrittenSuite) -> str:
    head = _comment(f"Imported from {suite.source}. Every case must pass, and every evaluation must have happened.")
    return head + (_dump(suite.policy) if suite.policy else "{}\n")


def _comment(text: str) -> str:
    return f"# {one_line(text, 500)}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        """Say that every value is written in full."""
        return True


_ESCAPED = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What only quotes with escapes keep: tabs, what breaks lines, and what cannot be printed."""
_NO_BLOCK = re.compile(r" \n| $|^\s")


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if _ESCAPED.search(text):
        style = '"'
    elif "\n" in text:
        style = '"' if _NO_BLOCK.search(text) else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def _dump(value: Any) -> str:
    return yaml.dump(_escaped(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _escaped(value: Any) -> Any:
    """Return plain data in which `${` is text and marked variables are substituted."""
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", str(value).replace("${", "$${"))
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return value
