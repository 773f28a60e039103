"""What answers the cases of a suite that `init` writes: found in the repository, or asked for at a terminal."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic_core import PydanticCustomError

from holodeck_action.extensions.frameworks.framework_agents import FoundAgent, find_agents
from holodeck_action.run.caller import Caller
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.environments import Environment
from holodeck_action.suite.model.frameworks import Framework
from holodeck_action.suite.model.targets import FORMS, parse_target
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.plain import one_line

T = TypeVar("T")

_ATTEMPTS = 3
_MOST_SHOWN = 20


def asked_target(caller: Caller) -> str | None:
    """Return the target that a person at a terminal names; None where nobody does.

    Raises:
        ConfigurationError: none of three answers was a target.
    """

    def read(answer: str) -> str | None:
        try:
            parse_target(answer)
        except PydanticCustomError as error:
            caller.stderr.write(f"{one_line(answer, 200)}: {error.message()}\n")
            return None
        return answer

    return _ask(caller, f"What answers the cases? {FORMS}; empty for the suite's own model: ", read, "target")


def framework_agent(folder: Path, about: Framework, caller: Caller) -> tuple[FoundAgent | None, list[str]]:
    """Return the agent of a framework in a repository, and sentences about others.

    Of several agents a person at a terminal chooses one, or else the first is taken.

    Returns:
        None for the agent where none was found.

    Raises:
        ConfigurationError: none of three answers was the number of an agent.
    """
    found = find_agents(folder, about)
    if not found:
        return None, [f"found no name that holds {about.agent} at the top level of a Python file"]
    chosen = (_ask_which(found, about.agent, caller) if len(found) > 1 else None) or found[0]
    others = [agent.reference for agent in found if agent is not chosen]
    return chosen, [f"others are {_listed(others)}"] if others else []


def _ask_which(found: Sequence[FoundAgent], what: str, caller: Caller) -> FoundAgent | None:
    caller.stderr.writelines(
        f"{number:4}  {agent.reference}  {agent.place}\n" for number, agent in enumerate(found, start=1)
    )

    def read(answer: str) -> FoundAgent | None:
        if answer.isdecimal() and 0 < int(answer) <= len(found):
            return found[int(answer) - 1]
        caller.stderr.write(f"{one_line(answer, 200)}: must be a number from 1 to {len(found)}\n")
        return None

    return _ask(caller, f"Each is {what}. Which one answers the cases? Its number; empty for 1: ", read, "agent")


def _ask(caller: Caller, question: str, read: Callable[[str], T | None], what: str) -> T | None:
    """Return the first of three answers that can be read; None after an empty one, or where there is no terminal."""
    if not caller.stdin.isatty():
        return None
    for _ in range(_ATTEMPTS):
        caller.stderr.write(question)
        caller.stderr.flush()
        answer = caller.stdin.readline().strip()
        if not answer:
            return None
        value = read(answer)
        if value is not None:
            return value
    raise ConfigurationError([f"no {what} was named in {_ATTEMPTS} answers; nothing was written"])


def environment_of(folder: Path) -> Environment | None:
    """Return where a repository says which packages its agent needs; None where it says so nowhere."""
    if (folder / "pyproject.toml").is_file() and (folder / "uv.lock").is_file():
        return Environment(project="pyproject.toml")
    if (folder / "requirements.txt").is_file():
        return Environment(requirements="requirements.txt")
    return Environment(project="pyproject.toml") if _has_dependencies(folder / "pyproject.toml") else None


def _has_dependencies(file: Path) -> bool:
    try:
        loaded = read_file(file).parse(lambda data: tomllib.loads(data.decode()))
    except (OSError, ForeignError):
        return False
    project = loaded.get("project")
    return isinstance(project, dict) and bool(project.get("dependencies"))


def policy_with(policy: bytes, lines: Mapping[str, str | None], without: Collection[str] = ()) -> bytes:
    """Return a shipped policy file with other values of keys at its top.

    Args:
        policy: its text, in which each key begins a line, as a comment or not.
        lines: YAML on one line by key; None makes the key a comment. A comment behind the value stays.
        without: keys whose lines are left out.
    """
    return "".join(_line(line, lines, without) for line in policy.decode().splitlines(keepends=True)).encode()


def _line(line: str, lines: Mapping[str, str | None], without: Collection[str]) -> str:
    key, _, rest = line.removeprefix("# ").partition(": ")
    if key in without:
        return ""
    if key not in lines:
        return line
    value = lines[key]
    _, mark, comment = rest.rstrip("\n").partition(" # ")
    return f"# {key}: {rest}" if value is None else f"{key}: {value}{mark}{comment}\n"


def quoted(value: str) -> str:
    """Return a text as YAML on one line."""
    return json.dumps(value, ensure_ascii=False)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
