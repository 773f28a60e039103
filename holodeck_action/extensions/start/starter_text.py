"""Edits the shipped files: the policy's lines, and the suite's lines that belong to one check."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holodeck_action.suite.model.environments import Environment
from holodeck_action.text.foreign import ForeignError, read_file

_OF_CHECKS = " #? "
"""Mark before the names of the checks that a line of a shipped suite belongs to."""


def keep_check(suite: str, check: str) -> str:
    """Return a shipped suite with the lines of one check, and without those of the others."""
    lines = []
    for line in suite.splitlines(keepends=True):
        text, mark, names = line.rstrip("\n").partition(_OF_CHECKS)
        if not mark:
            lines.append(line)
        elif check in names.split():
            lines.append(f"{text}\n")
    return "".join(lines).replace("\n\n\n", "\n\n")


def name_suites(text: str, default: str, suites: Sequence[str]) -> str:
    """Return a shipped workflow or pipeline that evaluates the suites at these paths in place of the default one."""
    if suites == [default]:
        return text
    # The next suite is a further line; a name with a line break is none.
    listed = "\n".join(suites)
    named = "|\n" + textwrap.indent(listed, " " * 12) if "".join(suites).isprintable() else quote(listed)
    text = text.replace(f"suite: {default}\n", f"suite: {named}\n")
    if len(suites) > 1:
        # The results of each suite have their own folder.
        text = text.replace(": holodeck-results/", ": holodeck-results/*/")
    arguments = shlex.join(suites)
    return re.sub("- (holodeck-action (?:validate|run).*)", lambda line: f"- {quote(f'{line[1]} {arguments}')}", text)


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
        lines: new values as YAML, by key; None comments the key out. A comment after a value of one line stays.
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
    if value is None:
        return f"# {key}: {rest}"
    return f"{key}:{value}\n" if "\n" in value else f"{key}: {value}{mark}{comment}\n"


def quote(value: str) -> str:
    """Return a string as a one-line YAML scalar."""
    return json.dumps(value, ensure_ascii=False)


def import_agent(module_text: str, reference: str, *, is_async: bool) -> str:
    """Return a shipped module that calls an agent, with the import of the agent that MODULE:NAME names."""
    module, _, name = reference.partition(":")
    lines = module_text.splitlines(keepends=True)
    at, line = next((at, line) for at, line in enumerate(lines) if line.startswith("from my_"))
    called = line.split()[-1]
    lines[at] = f"from {module} import {name}{'' if name == called else f' as {called}'}\n"
    text = "".join(lines)
    if is_async:
        text = text.replace("\ndef ", "\nasync def ").replace(f"return {called}(", f"return await {called}(")
    return text
