"""Finding and reading the files of a suite, and merging its configuration files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.suite.cases.columns import ColumnMap
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError
from holodeck_action.suite.model.cases import CaseEntry, TableCase
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign, RefusedFileError

POLICY_NAMES = ("holodeck-action.yaml", "holodeck-action.yml")
CONFIG_NAMES = ("config.yml", "config.yaml")


class CaseFile(Struct):
    """A file with cases.

    Attributes:
        document: the file's name in messages, and its problems.
        cases: the entries as written, with their positions; invalid entries are included. The list is emptied when the
            cases are built.
        columns: mapping of a table's columns to fields; None if the file is not a table.
    """

    document: Document
    cases: list[Any]
    columns: ColumnMap | None = None

    @property
    def model(self) -> type[CaseEntry]:
        """The pydantic class that validates an entry."""
        return CaseEntry if self.columns is None else TableCase

    def mark_of(self, index: int) -> SourceMark:
        """Return the position of the case at an index."""
        cases = self.cases
        if isinstance(cases, MarkedList):
            return self.document.mark(*cases.value_position(index))
        return self.document.mark_at()


class Sources(Struct):
    """The files of a suite, collected while it is loaded.

    Attributes:
        checkout: the folder of agent.yaml, and the paths that the suite may read.
        environ: variables for substitution.
        metrics: the available metrics.
        agent: agent.yaml.
        case_files: the files with cases, in order; agent.yaml itself unless it names other files.
        cases_found: whether the cases could be determined.
        user, project, policy: user configuration, project configuration and policy file; None if a file is missing.
        problems: the problems found so far.
        notices: notices for the reader.
        parts: for each file of the suite, its role (such as the policy file) and its `text_digest`.
    """

    checkout: Checkout
    environ: Mapping[str, str]
    metrics: MetricTypes
    agent: Document
    case_files: list[CaseFile] = field(default_factory=list)
    cases_found: bool = False
    user: Document | None = None
    project: Document | None = None
    policy: Document | None = None
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    parts: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Absolute folder of agent.yaml."""
        return self.checkout.folder

    @property
    def documents(self) -> tuple[Document, ...]:
        """All files that were read, without duplicates."""
        found = (self.agent, *(file.document for file in self.case_files), self.user, self.project, self.policy)
        unique = {document.file: document for document in found if document is not None}
        return tuple(unique.values())

    @property
    def secrets(self) -> frozenset[str]:
        """Values of substituted variables and of literal secret fields in all files."""
        return frozenset[str]().union(*(document.secrets for document in self.documents))

    @property
    def count(self) -> int:
        """Number of cases."""
        return sum(len(file.cases) for file in self.case_files)

    def error(self) -> SuiteError:
        """Return the problems so far as an error without secrets."""
        return SuiteError(self.problems, self.secrets, (document.file for document in self.documents))

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the suite's own files: role, length and text of each, with line ends as line feeds."""
        total = hashlib.sha256()
        for role, digest in self.parts:
            total.update(f"{role} ".encode() + digest)
        return total.hexdigest()


def read_sources(
    path: Path, checkout: Checkout, *, environ: Mapping[str, str], home: Path | None, metrics: MetricTypes
) -> Sources:
    """Read agent.yaml and every file that belongs to it.

    Args:
        path: agent.yaml.
        checkout: its folder, and the paths that the suite may read.
        environ: variables for substitution.
        home: the user's home folder; None to ignore user configuration.
        metrics: the available metrics.

    Raises:
        SuiteError: agent.yaml cannot be read.
    """
    data, reason = read_content(checkout, path.name)
    if data is None:
        raise SuiteError([Problem(None, "", f"{path}: {reason}")])
    agent = read_yaml(data, file=path.name, environ=environ, checks=metrics.written)
    sources = Sources(checkout, environ, metrics, agent)
    sources.parts.append(("agent", text_digest(data)))
    _read_configuration(sources, home)
    if agent.readable and not isinstance(agent.root, MarkedMap):
        what = "is empty" if agent.root is None else "must be a mapping"
        sources.problems.append(agent.problem((), f"{what} (required: name, model, instructions and cases)"))
    for document in sources.documents:
        sources.problems += document.problems
    return sources


def read_content(checkout: Checkout, name: str | Path) -> tuple[Foreign | None, str]:
    """Return a file's content and an empty string, or None and the reason why the file cannot be read."""
    try:
        return checkout.read(name, MOST_YAML), ""
    except IsADirectoryError:
        return None, "is a folder (allowed: a YAML file)"
    except FileNotFoundError:
        return None, "does not exist"
    except RefusedFileError as error:
        return None, error.clause
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"


def text_digest(content: Foreign) -> bytes:
    """Return the length and SHA-256 of a text after its line ends are converted to line feeds."""
    return content.parse(_text_digest)


def _text_digest(data: bytes) -> bytes:
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return f"{len(text)} ".encode() + hashlib.sha256(text).digest()


def _read_configuration(sources: Sources, home: Path | None) -> None:
    sources.project = _read_first(sources, sources.checkout, CONFIG_NAMES, "")
    if home is not None:
        sources.user = _read_first(sources, Checkout.unbounded(home / ".holodeck"), CONFIG_NAMES, "~/.holodeck/")
    policies = [name for name in POLICY_NAMES if os.path.lexists(sources.folder / name)]
    if len(policies) > 1:
        message = f"is next to {policies[0]}: keep one of them"
        sources.problems.append(Problem(SourceMark(policies[1], 1, 1), "", message))
    sources.policy = _read_first(sources, sources.checkout, POLICY_NAMES, "")


def _read_first(sources: Sources, checkout: Checkout, names: Sequence[str], prefix: str) -> Document | None:
    present = [name for name in names if os.path.lexists(checkout.folder / name)]
    if not present:
        return None
    shown = prefix + present[0]
    if len(present) > 1 and names is CONFIG_NAMES:
        sources.notices.append(f"{prefix}{present[1]} is not read, because {shown} is next to it")
    data, reason = read_content(checkout, present[0])
    if data is None:
        sources.problems.append(Problem(SourceMark(shown, 1, 1), "", reason))
        return None
    document = read_yaml(data, file=shown, environ=sources.environ, checks=sources.metrics.written)
    if names is POLICY_NAMES:
        sources.parts.append(("policy", text_digest(data)))
    if document.root is None:
        return Document(shown, MarkedMap.at(1, 1), document.readable, document.problems, document.secrets)
    return document


def merge_project(sources: Sources) -> dict[str, Any]:
    """Merge the project configuration over the user configuration, key by key."""
    merged: dict[str, Any] = {}
    for document in (sources.user, sources.project):
        if document is not None and isinstance(document.root, dict):
            merged = _merge(merged, document.root)
    return merged


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in override.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def fill_models(agent: MarkedMap, project: Mapping[str, Any]) -> None:
    """Complete `model` and `evaluations.model` from their provider's entry in the project configuration.

    The entry under the provider's name takes precedence over the first entry with that `provider`.
    """
    providers = project.get("providers")
    evaluations = agent.get("evaluations")
    judge = evaluations.get("model") if isinstance(evaluations, dict) else None
    for model in (agent.get("model"), judge):
        if not isinstance(model, dict) or not isinstance(providers, dict):
            continue
        name = model.get("provider")
        entries = [entry for entry in providers.values() if isinstance(entry, dict)]
        matching = next((entry for entry in entries if entry.get("provider") == name), {})
        own = providers.get(name) if isinstance(name, str) else None
        for key, value in (own if isinstance(own, dict) else matching).items():
            model.setdefault(key, value)
