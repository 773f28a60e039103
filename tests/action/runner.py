"""What GitHub's runner makes of a step's log and files: an independent reader of its protocols.

Follows actions/runner: `ActionCommand.TryParseV2` and `TryParse`, `ActionCommandManager.TryProcessCommand` and
`EnvFileKeyValuePairs`. Where the runner depends on the machine's culture (leading characters that it may skip), the
reader takes the side on which more is a command.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

REGISTERED = frozenset(
    {"add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "notice", "remove-matcher"}
    | {"save-state", "set-env", "set-output", "stop-commands", "warning"}
)


@dataclass(frozen=True)
class Command:
    """A command that the runner obeys."""

    name: str
    data: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A step's log: the commands obeyed, in order, and the lines that are only text."""

    commands: tuple[Command, ...]
    text: tuple[str, ...]

    def named(self, name: str) -> list[Command]:
        return [command for command in self.commands if command.name == name]


def read_log(output: bytes) -> Log:
    """Read a step's output as the runner does, line by line (a lone carriage return ends a line, too)."""
    commands: list[Command] = []
    text: list[str] = []
    token: str | None = None
    for line in re.split("\r\n|\n|\r", output.decode("utf-8", "replace")):
        known = REGISTERED if token is None else REGISTERED | {token.lower()}
        command = _second_form(line, known) or _first_form(line, known)
        if token is not None:
            if command is not None and command.name == token.lower():
                token = None
            else:
                text.append(line)
        elif command is None:
            text.append(line)
        elif command.name == "stop-commands":
            token = command.data
            commands.append(command)
        else:
            commands.append(command)
    return Log(tuple(commands), tuple(text))


def _second_form(line: str, known: frozenset[str]) -> Command | None:
    """`::name key=value,key=value::data` at the start of a line."""
    while line and (line[0].isspace() or unicodedata.category(line[0]) in ("Cf", "Cc", "Mn")):
        line = line[1:]
    if not line.startswith("::"):
        return None
    head, found, data = line[2:].partition("::")
    name, _, properties = head.partition(" ")
    if not found or name.lower() not in known:
        return None
    pairs = [pair.split("=", 1) for pair in properties.strip().split(",") if "=" in pair]
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    return Command(
        name.lower(),
        _unescaped(data, {"%0D": "\r", "%0A": "\n"}),
        {key: _unescaped(value, escapes) for key, value in pairs},
    )


def _first_form(line: str, known: frozenset[str]) -> Command | None:
    """`##[name key=value;key=value]data` anywhere in a line."""
    _, found, rest = line.partition("##[")
    head, closed, data = rest.partition("]")
    name = head.partition(" ")[0].lower()
    if not found or not closed or name not in known:
        return None
    return Command(name, data)


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    for written, meant in (*escapes.items(), ("%25", "%")):
        text = text.replace(written, meant)
    return text


def read_pairs(content: str) -> list[tuple[str, str]]:
    """Read an outputs file; raises ValueError where the runner fails the step."""
    pairs: list[tuple[str, str]] = []
    lines = content.split("\n")
    # What follows the last line end is a line only if there is something.
    ended = [(line, True) for line in lines[:-1]] + ([(lines[-1], False)] if lines[-1] else [])
    position = 0
    while position < len(ended):
        line, _ = ended[position]
        position += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            name, _, value = line.partition("=")
            pairs.append((name, value))
            continue
        name, _, delimiter = line.partition("<<")
        if heredoc < 0 or not name or not delimiter:
            raise ValueError(f"invalid line {line!r}")
        value_lines: list[str] = []
        while True:
            if position >= len(ended):
                raise ValueError(f"no end of {name!r}")
            line, complete = ended[position]
            position += 1
            if line == delimiter:
                break
            if not complete:
                raise ValueError(f"no line end in the value of {name!r}")
            value_lines.append(line)
        pairs.append((name, "\n".join(value_lines)))
    return pairs
