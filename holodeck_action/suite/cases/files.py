"""Checks of the files that a suite names: they must exist, be inside the checkout, and not be too large."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from holodeck_action.suite.checkout import MOST_FILE, MOST_TEXT, MOST_TRANSCRIPT, Checkout
from holodeck_action.suite.errors import Problem, field_path
from holodeck_action.suite.model.agent import DOWNLOADS_FOLDER, AgentConfig, ProjectConfig
from holodeck_action.suite.model.cases import CaseEntry, FileInput
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.targets import RecordedTarget
from holodeck_action.suite.yaml.document import Document
from holodeck_action.suite.yaml.document import Path as Where
from holodeck_action.text.foreign import ForeignError, RefusedFileError
from holodeck_action.text.plain import cut

_MISSING = "the file does not exist (allowed: a path relative to {beside})"


def unreadable_files(agent: AgentConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """Return a problem for each file named in agent.yaml that cannot be read, or that the suite may not read.

    The instructions, the schema of the answer and prompts must exist. Whether the other files exist is checked when
    they are read.
    """
    needed: list[tuple[Where, str | None]] = [(("instructions", "file"), agent.instructions.file)]
    if isinstance(agent.response_format, str):
        needed.append((("response_format",), agent.response_format))
    others: list[tuple[Where, str | None]] = []
    sources: list[tuple[Where, str]] = []
    for index, tool in enumerate(agent.tools or ()):
        if tool.type == "prompt":
            needed.append((("tools", index, "file"), tool.file))
        elif tool.type == "function":
            others.append((("tools", index, "file"), tool.file))
        elif tool.type == "mcp":
            others.append((("tools", index, "env_file"), tool.env_file))
        else:
            sources.append((("tools", index, "source"), tool.source))
    found = [
        (place, _file_problem(checkout, name, MOST_TEXT, missing_reason=_MISSING.format(beside="agent.yaml")))
        for place, name in needed
        if name is not None and not _is_unset(document, place)
    ]
    found += [
        (place, _file_problem(checkout, name, MOST_TEXT))
        for place, name in others
        if name is not None and not _is_unset(document, place)
    ]
    for place, source in sources:
        path = source_path(source)
        if path is not None and not _is_unset(document, place):
            found.append((place, _path_problem(checkout, path, "source")))
    given = agent.execution.cache_dir if agent.execution is not None else None
    found.append((("execution", "cache_dir"), _path_problem(checkout, given or DOWNLOADS_FOLDER, "folder")))
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_policy_files(policy: Policy, checkout: Checkout, document: Document) -> list[Problem]:
    """Return a problem for each file or folder named in the policy file that the suite may not read."""
    found: list[tuple[Where, str | None]] = []
    if isinstance(policy.target, RecordedTarget):
        found.append((("target",), _file_problem(checkout, policy.target.path, MOST_TRANSCRIPT)))
    if policy.cache.mode != "off":
        found.append((("cache", "dir"), _path_problem(checkout, policy.cache.dir, "folder")))
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_project_files(project: ProjectConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """Return a problem for each file or folder named in the project configuration that the suite may not read."""
    found: list[tuple[Where, str | None]] = []
    for index, server in enumerate(project.mcp_servers or ()):
        if server.env_file is not None:
            place = ("mcp_servers", index, "env_file")
            found.append((place, _file_problem(checkout, server.env_file, MOST_TEXT)))
    if project.execution is not None and project.execution.cache_dir is not None:
        found.append((("execution", "cache_dir"), _path_problem(checkout, project.execution.cache_dir, "folder")))
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_case_files(
    entry: CaseEntry, raw: Any, checkout: Checkout, document: Document, case: int
) -> list[Problem]:
    """Return a problem for each file of a case that is missing or cannot be read.

    Args:
        entry: the case.
        raw: the case as written.
        checkout: the suite's folder, and what may be read.
        document: the file with the case; paths are relative to its folder.
        case: index of the case.
    """
    if entry.turns is None and not entry.files:
        return []
    places: list[tuple[Where, Sequence[FileInput] | None, Any]] = [(("test_cases", case), entry.files, raw)]
    for index, turn in enumerate(entry.turns or ()):
        places.append((("test_cases", case, "turns", index), turn.files, raw["turns"][index]))
    beside = PurePosixPath(document.file).parent
    problems = []
    for place, files, written in places:
        for index, file in enumerate(files or ()):
            holder = written["files"][index]
            if file.path is None or holder.is_unset("path"):
                continue
            name = str(beside / file.path)
            message = _file_problem(checkout, name, MOST_FILE, missing_reason=_MISSING.format(beside=document.file))
            if message is not None:
                field = field_path((*place, "files", index, "path"))
                problems.append(Problem(document.mark(*holder.value_position("path")), field, message))
    return problems


def response_format_problems(agent: AgentConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """Return the problem of an invalid answer schema, as a list with at most one entry; a missing file is reported
    elsewhere."""
    written: Any = agent.response_format
    place: Where = ("response_format",)
    if written is None or document.root.is_unset("response_format"):
        return []
    what = "is not a JSON schema"
    if isinstance(written, str):
        try:
            written = checkout.read(written).json()
        except OSError:
            return []
        except ForeignError as error:
            return [document.problem(place, f"the file {error}")]
        what = "the file does not contain a JSON schema"
    wrong = _schema_problem(written)
    return [] if wrong is None else [document.problem(place, f"{what} ({wrong})")]


def _schema_problem(schema: Any) -> str | None:
    """Return why a value is not a JSON Schema for an answer; None if the value is valid."""
    # Imported only for suites with such a schema.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        return "it must be an object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = field_path([*error.path])
        return cut(f"{where}: {error.message}" if where else error.message, 300)
    except RecursionError:
        return "it is nested too deeply"
    return None


def source_path(source: str) -> str | None:
    """Return the local path that a tool's `source`, a path or a `file:` URL, names; None for a remote URL."""
    if source.lower().startswith("file:"):
        parts = urlsplit(source)
        return unquote(parts.path) if parts.netloc in ("", "localhost") else None
    return None if "://" in source and urlsplit(source).scheme else source


def _file_problem(checkout: Checkout, name: str, max_bytes: int, *, missing_reason: str | None = None) -> str | None:
    """Return why a file cannot be read; None if it is readable. `missing_reason` is the reason for a file that does not
    exist."""
    try:
        checkout.check(name, max_bytes)
    except FileNotFoundError:
        return missing_reason
    except RefusedFileError as error:
        return f"the file {error.clause}"
    except OSError as error:
        return None if missing_reason is None else f"the file cannot be read: {error.strerror}"
    return None


def _path_problem(checkout: Checkout, name: str, subject: str) -> str | None:
    try:
        checkout.resolve(name)
    except RefusedFileError as error:
        return f"the {subject} {error.clause}"
    return None


def _is_unset(document: Document, place: Where) -> bool:
    """Return whether a value contains an unset variable, which is reported elsewhere."""
    holder = document.root
    for part in place[:-1]:
        holder = holder[part]
    return bool(holder.is_unset(place[-1]))
