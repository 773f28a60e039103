"""The files of a suite: which they are, what they hold, and how the configuration files are merged."""

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
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign, RefusedFileError

POLICY_NAMES = ("holodeck-action.yaml", "holodeck-action.yml")
CONFIG_NAMES = ("config.yml", "config.yaml")


class CaseFile(Struct):
    """A file that holds cases.

    Attributes:
        document: how it is called, and what is wrong with it.
        cases: as written, with their marks; what is no case, too. Emptied when they are built.
        columns: which column of a table fills which field; None where it has none.
    """

    document: Document
    cases: list[Any]
    columns: ColumnMap | None = None

    def mark_of(self, index: int) -> SourceMark:
        """Where a case stands."""
        cases = self.cases
        return (
            self.document.mark(*cases.value_position(index)) if isinstance(cases, MarkedList) else self.document.place()
        )


class Sources(Struct):
    """What was read, in the making.

    Attributes:
        checkout: the folder of agent.yaml, and what paths in the files may reach.
        environ: variables for substitution.
        metrics: the metrics that there are.
        agent: agent.yaml.
        case_files: the files of the cases, in their order; agent.yaml unless it names others.
        cases_found: whether it is known which cases there are.
        user, project, policy: the optional files.
        problems: what is wrong so far.
        notices: what the reader should know.
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
        """Every file that was read, each once."""
        found = (self.agent, *(file.document for file in self.case_files), self.user, self.project, self.policy)
        unique = {document.file: document for document in found if document is not None}
        return tuple(unique.values())

    @property
    def secrets(self) -> frozenset[str]:
        """Values of variables and literal secret fields of every file."""
        return frozenset[str]().union(*(document.secrets for document in self.documents))

    @property
    def count(self) -> int:
        """How many cases there are."""
        return sum(len(file.cases) for file in self.case_files)

    def error(self) -> SuiteError:
        """The problems so far as an error that shows no secret."""
        return SuiteError(self.problems, self.secrets, (document.file for document in self.documents))

    @property
    def digest(self) -> str:
        """sha256 hex over the suite's own files: role, length and text of each, with line ends as line feeds."""
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
        checkout: its folder, and what paths in it may reach.
        environ: variables for substitution.
        home: the user's home folder; None to leave user configuration out.
        metrics: the metrics that there are.

    Raises:
        SuiteError: agent.yaml cannot be read.
    """
    data, reason = read_content(checkout, path.name)
    if data is None:
        raise SuiteError([Problem(None, "", f"{path}: {reason}")])
    agent = read_yaml(data, file=path.name, environ=environ)
    sources = Sources(checkout, environ, metrics, agent)
    sources.parts.append(("agent", text_digest(data)))
    _read_others(sources, home)
    if agent.readable and not isinstance(agent.root, MarkedMap):
        what = "is empty" if agent.root is None else "must be a mapping"
        sources.problems.append(agent.problem((), f"{what} (required: name, model, instructions and cases)"))
    for document in sources.documents:
        sources.problems += document.problems
    return sources


def read_content(checkout: Checkout, name: str | Path) -> tuple[Foreign | None, str]:
    """Return a file's content, or None and why it cannot be read."""
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
    """Length and SHA-256 of a text, with line ends as line feeds."""
    return content.parse(_text_digest)


def _text_digest(data: bytes) -> bytes:
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return f"{len(text)} ".encode() + hashlib.sha256(text).digest()


def _read_others(sources: Sources, home: Path | None) -> None:
    sources.project = _first(sources, sources.checkout, CONFIG_NAMES, "")
    if home is not None:
        sources.user = _first(sources, Checkout.anywhere(home / ".holodeck"), CONFIG_NAMES, "~/.holodeck/")
    policies = [name for name in POLICY_NAMES if os.path.lexists(sources.folder / name)]
    if len(policies) > 1:
        message = f"stands beside {policies[0]}: keep one of them"
        sources.problems.append(Problem(SourceMark(policies[1], 1, 1), "", message))
    sources.policy = _first(sources, sources.checkout, POLICY_NAMES, "")


def _first(sources: Sources, checkout: Checkout, names: Sequence[str], prefix: str) -> Document | None:
    present = [name for name in names if os.path.lexists(checkout.folder / name)]
    if not present:
        return None
    shown = prefix + present[0]
    if len(present) > 1 and names is CONFIG_NAMES:
        sources.notices.append(f"{prefix}{present[1]} is not read, because {shown} stands beside it")
    data, reason = read_content(checkout, present[0])
    if data is None:
        sources.problems.append(Problem(SourceMark(shown, 1, 1), "", reason))
        return None
    document = read_yaml(data, file=shown, environ=sources.environ)
    if names is POLICY_NAMES:
        sources.parts.append(("policy", text_digest(data)))
    if document.root is None:
        return Document(shown, MarkedMap.empty(), document.readable, document.problems, document.secrets)
    return document


def merged_project(sources: Sources) -> dict[str, Any]:
    """Project configuration over user configuration, key by key; what neither sets stays unset."""
    merged: dict[str, Any] = {}
    for document in (sources.user, sources.project):
        if document is not None and isinstance(document.root, dict):
            merged = _over(merged, document.root)
    return merged


def _over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        merged[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def fill_models(agent: MarkedMap, project: Mapping[str, Any]) -> None:
    """Fill what `model` and `evaluations.model` omit from the provider's entry.

    The entry is the one under the provider's name, else the first of that provider.
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
