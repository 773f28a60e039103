"""Files that a suite names: there, within reach, and no larger than they may be (problems at their lines)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from holodeck_action.suite.checkout import MOST_FILE, MOST_TEXT, MOST_TRANSCRIPT, Checkout
from holodeck_action.suite.errors import Problem, field_path
from holodeck_action.suite.model.agent import AgentConfig, ExecutionConfig, ProjectConfig
from holodeck_action.suite.model.cases import CaseEntry, FileInput
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.targets import RecordedTarget
from holodeck_action.suite.yaml.document import Document
from holodeck_action.suite.yaml.document import Path as Where
from holodeck_action.text.foreign import ForeignError, RefusedFileError
from holodeck_action.text.plain import cut

_MISSING = "the file does not exist (allowed: a path relative to {beside})"


def unreadable_files(agent: AgentConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """Files of agent.yaml that cannot be read, and places of it that are out of reach.

    Without instructions, the schema of the answer and prompts nothing can be asked: these must be there. Whether the
    others are there is known to those who read them.
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
        (place, _problem_of(checkout, name, MOST_TEXT, missing=_MISSING.format(beside="agent.yaml")))
        for place, name in needed
        if name is not None and not _unset(document, place)
    ]
    found += [
        (place, _problem_of(checkout, name, MOST_TEXT))
        for place, name in others
        if name is not None and not _unset(document, place)
    ]
    for place, source in sources:
        path = source_path(source)
        if path is not None and not _unset(document, place):
            found.append((place, _problem_of_place(checkout, path, "source")))
    if agent.execution is not None:
        found += _folders(agent.execution, checkout)
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_of_policy(policy: Policy, checkout: Checkout, document: Document) -> list[Problem]:
    """Files and folders of the policy file that are out of reach."""
    found: list[tuple[Where, str | None]] = []
    if isinstance(policy.target, RecordedTarget):
        found.append((("target",), _problem_of(checkout, policy.target.path, MOST_TRANSCRIPT)))
    if policy.cache.mode != "off":
        found.append((("cache", "dir"), _problem_of_place(checkout, policy.cache.dir, "folder")))
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_of_project(project: ProjectConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """Files and folders of the project configuration that are out of reach."""
    found: list[tuple[Where, str | None]] = []
    for index, server in enumerate(project.mcp_servers or ()):
        if server.env_file is not None:
            place = ("mcp_servers", index, "env_file")
            found.append((place, _problem_of(checkout, server.env_file, MOST_TEXT)))
    if project.execution is not None:
        found += _folders(project.execution, checkout)
    return [document.problem(place, message) for place, message in found if message is not None]


def unreadable_case_files(
    entry: CaseEntry, raw: Any, checkout: Checkout, document: Document, case: int
) -> list[Problem]:
    """Files on disk that a case names and that are not there or cannot be read.

    Args:
        entry: the case.
        raw: the case as written.
        checkout: the suite's folder, and what may be read.
        document: where the case stands; paths start in its folder.
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
            if file.path is None or holder.unset("path"):
                continue
            name = str(beside / file.path)
            message = _problem_of(checkout, name, MOST_FILE, missing=_MISSING.format(beside=document.file))
            if message is not None:
                field = field_path((*place, "files", index, "path"))
                problems.append(Problem(document.mark(*holder.value_position("path")), field, message))
    return problems


def bad_response_format(agent: AgentConfig, checkout: Checkout, document: Document) -> list[Problem]:
    """A schema of the answer that is none; a file that does not exist is another check's."""
    written: Any = agent.response_format
    place: Where = ("response_format",)
    if written is None or document.root.unset("response_format"):
        return []
    what = "is no JSON schema"
    if isinstance(written, str):
        try:
            written = checkout.read(written).json()
        except OSError:
            return []
        except ForeignError as error:
            return [document.problem(place, f"the file {error}")]
        what = "the file holds no JSON schema"
    wrong = _no_schema(written)
    return [] if wrong is None else [document.problem(place, f"{what} ({wrong})")]


def _no_schema(written: Any) -> str | None:
    """Return why a value is no JSON schema of an answer, None when it is one."""
    # Only suites with such a schema pay for the import.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(written, dict):
        return "it must be an object"
    try:
        Draft202012Validator.check_schema(written)
    except SchemaError as error:
        where = field_path([*error.path])
        return cut(f"{where}: {error.message}" if where else error.message, 300)
    except RecursionError:
        return "it is nested too deeply"
    return None


def source_path(source: str) -> str | None:
    """Return the path that the source of a tool is; None for what is on another machine."""
    if source.lower().startswith("file:"):
        parts = urlsplit(source)
        return unquote(parts.path) if parts.netloc in ("", "localhost") else None
    return None if "://" in source and urlsplit(source).scheme else source


def _problem_of(checkout: Checkout, name: str, most: int, *, missing: str | None = None) -> str | None:
    """Return why a file cannot be read, None where it can; a file that is not there has the given message."""
    try:
        checkout.check(name, most)
    except FileNotFoundError:
        return missing
    except RefusedFileError as error:
        return f"the file {error.clause}"
    except OSError as error:
        return None if missing is None else f"the file cannot be read: {error.strerror}"
    return None


def _folders(execution: ExecutionConfig, checkout: Checkout) -> Iterator[tuple[Where, str | None]]:
    if execution.cache_dir is not None:
        yield ("execution", "cache_dir"), _problem_of_place(checkout, execution.cache_dir, "folder")


def _problem_of_place(checkout: Checkout, name: str, what: str) -> str | None:
    try:
        checkout.place(name)
    except RefusedFileError as error:
        return f"the {what} {error.clause}"
    return None


def _unset(document: Document, place: Where) -> bool:
    """Whether a variable in a value is not set, which is reported already."""
    holder = document.root
    for part in place[:-1]:
        holder = holder[part]
    return bool(holder.unset(place[-1]))
