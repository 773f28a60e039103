"""The target of a suite that `init` writes: found in the repository, or entered at a terminal."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic_core import PydanticCustomError

from holodeck_action.run.caller import Caller
from holodeck_action.seam import registry
from holodeck_action.seam.manifest import Framework
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.environments import Environment
from holodeck_action.suite.model.targets import FORMS, parse_target
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.plain import one_line

T = TypeVar("T")

_ATTEMPTS = 3
_MAX_NAMES = 20


class FoundAgent(Protocol):
    """An agent of a framework, found in the repository (see `seam.manifest.Framework.find`)."""

    @property
    def file(self) -> str:
        """The Python file, relative to the searched folder."""

    @property
    def reference(self) -> str:
        """The agent as `MODULE:NAME`, the form that targets use."""

    @property
    def place(self) -> str:
        """Position of the agent in the code as `FILE:LINE`."""


def ask_target(caller: Caller) -> str | None:
    """Ask for the target at a terminal; return None if there is no terminal or the answer is empty.

    Raises:
        ConfigurationError: three answers in a row were not valid targets.
    """

    def parse(answer: str) -> str | None:
        try:
            parse_target(answer)
        except PydanticCustomError as error:
            caller.stderr.write(f"{one_line(answer, 200)}: {error.message()}\n")
            return None
        return answer

    return _ask(caller, f"What answers the cases? {FORMS}; empty for the suite's own model: ", parse, "target")


def framework_agent(folder: Path, framework: Framework, caller: Caller) -> tuple[FoundAgent | None, list[str]]:
    """Return the agent of a framework in a repository, and notes.

    If there are several agents, the user chooses one at a terminal; without a terminal the first is taken.

    Returns:
        The agent, and notes on the other agents; if no agent was found, None and a note that says so.

    Raises:
        ConfigurationError: three answers in a row were not the number of an agent.
    """
    found: Sequence[FoundAgent] = registry.resolve(framework.find)(folder, framework)
    if not found:
        function = ", and no function that returns one without an argument," if framework.adapter else ""
        return None, [f"found no name that holds {framework.agent}{function} at the top level of a Python file"]
    chosen = (_choose_agent(found, framework.agent, caller) if len(found) > 1 else None) or found[0]
    others = [agent.reference for agent in found if agent is not chosen]
    return chosen, [f"other agents were found: {_join_names(others)}"] if others else []


def _choose_agent(agents: Sequence[FoundAgent], kind: str, caller: Caller) -> FoundAgent | None:
    caller.stderr.writelines(
        f"{number:4}  {agent.reference}  {agent.place}\n" for number, agent in enumerate(agents, start=1)
    )

    def parse(answer: str) -> FoundAgent | None:
        if answer.isdecimal() and 0 < int(answer) <= len(agents):
            return agents[int(answer) - 1]
        caller.stderr.write(f"{one_line(answer, 200)}: must be a number from 1 to {len(agents)}\n")
        return None

    return _ask(caller, f"Each is {kind}. Which one answers the cases? Its number; empty for 1: ", parse, "agent")


def _ask(caller: Caller, question: str, parse: Callable[[str], T | None], noun: str) -> T | None:
    """Ask up to three times, and return the first valid answer; None if an answer is empty or there is no terminal."""
    if not caller.stdin.isatty():
        return None
    for _ in range(_ATTEMPTS):
        caller.stderr.write(question)
        caller.stderr.flush()
        answer = caller.stdin.readline().strip()
        if not answer:
            return None
        value = parse(answer)
        if value is not None:
            return value
    raise ConfigurationError([f"no {noun} was named in {_ATTEMPTS} answers; nothing was written"])


def packages_environment(folder: Path) -> Environment | None:
    """Return the `environment` setting for a repository's file of packages; None if it has no such file."""
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


def edit_policy(policy: bytes, lines: Mapping[str, str | None], removed_keys: Collection[str] = ()) -> bytes:
    """Return a shipped policy file with other values for its top-level keys.

    Args:
        policy: the file's text, in which each top-level key begins a line, perhaps in a comment.
        lines: new values as one-line YAML, by key; None comments the key out. A comment after the value stays.
        removed_keys: keys whose lines are left out.
    """
    return "".join(_edit_line(line, lines, removed_keys) for line in policy.decode().splitlines(keepends=True)).encode()


def _edit_line(line: str, lines: Mapping[str, str | None], removed_keys: Collection[str]) -> str:
    key, _, rest = line.removeprefix("# ").partition(": ")
    if key in removed_keys:
        return ""
    if key not in lines:
        return line
    value = lines[key]
    _, mark, comment = rest.rstrip("\n").partition(" # ")
    return f"# {key}: {rest}" if value is None else f"{key}: {value}{mark}{comment}\n"


def quote(value: str) -> str:
    """Return a string as a one-line YAML scalar."""
    return json.dumps(value, ensure_ascii=False)


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
