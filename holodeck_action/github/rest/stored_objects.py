"""GitHub's commits, Git objects, artifacts and workflow runs, validated strictly when read from JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.github.rest.objects import (
    ShapeError,
    object_id,
    optional_field,
    read_list,
    required_field,
    required_hash,
)
from holodeck_action.github.rest.payload import is_number
from holodeck_action.record.workflow_job import workflow_path


class Commit(Struct, frozen=True):
    """A commit; `parents` are the hashes of its parents in order, empty for a root commit."""

    sha: str
    parents: tuple[str, ...]


class Artifact(Struct, frozen=True):
    """A file that a workflow run uploaded.

    Attributes:
        id: id of the artifact.
        name: name of the artifact; untrusted text.
        size: bytes of its archive.
        expired: whether GitHub has deleted it.
        created_at: time of creation, ISO 8601 in UTC; empty if GitHub does not report it.
        digest: `sha256:` and the hash of the archive; None if GitHub does not report it.
        run_id: id of the workflow run.
        own: whether the run's commit is from this repository, not from a fork.
        branch: branch of the run; None if it had no branch. A fork's branch may have any name.
        sha: commit of the run.
    """

    id: int
    name: str
    size: int
    expired: bool
    created_at: str
    digest: str | None
    run_id: int
    own: bool
    branch: str | None
    sha: str


class WorkflowRun(Struct, frozen=True):
    """A workflow run.

    Attributes:
        id: id of the run.
        event: name of the event that started the run.
        status: status of the run, such as `completed`; empty if GitHub does not report it.
        workflow: path of the workflow's file in its repository; empty if GitHub does not report it.
    """

    id: int
    event: str
    status: str
    workflow: str


class TreeEntry(Struct, frozen=True):
    """An entry of a tree: `mode` as in Git, `type` is `blob`, `tree` or `commit`, `size` the bytes of a blob, or 0."""

    path: str
    mode: str
    type: str
    sha: str
    size: int


def commit(data: Any) -> Commit:
    """Read a commit, from a list of commits or from the Git database API."""
    parents = required_field(data, "parents", list)
    return Commit(required_hash(data, "sha"), tuple(required_hash(parent, "sha") for parent in parents))


def nested_hash(data: Any, name: str) -> str:
    """Read the hash of an object nested under `name`, such as `tree` of a commit."""
    return required_hash(required_field(data, name, dict), "sha")


def branch_names(data: Any) -> tuple[str, ...]:
    """Read the names of branches from a list."""
    return read_list(data, lambda item: required_field(item, "name", str))


def default_branch(data: Any) -> str:
    """Read the name of a repository's default branch."""
    return required_field(data, "default_branch", str)


def artifact(data: Any) -> Artifact | None:
    """Read an artifact from a list; None if it lacks the id or the commit of its workflow run."""
    run = optional_field(data, "workflow_run", dict)
    if run is None or not is_number(run.get("id")) or run.get("head_sha") is None:
        return None
    repository = run.get("repository_id")
    return Artifact(
        id=object_id(data),
        name=required_field(data, "name", str),
        size=required_field(data, "size_in_bytes", int),
        expired=required_field(data, "expired", bool),
        created_at=optional_field(data, "created_at", str) or "",
        digest=optional_field(data, "digest", str),
        run_id=object_id(run),
        own=is_number(repository) and run.get("head_repository_id") == repository,
        branch=optional_field(run, "head_branch", str),
        sha=required_hash(run, "head_sha"),
    )


def workflow_run(data: Any) -> WorkflowRun:
    """Read a workflow run."""
    status = optional_field(data, "status", str) or ""
    path = workflow_path(optional_field(data, "path", str) or "")
    return WorkflowRun(object_id(data), required_field(data, "event", str), status, path)


def tree(data: Any) -> tuple[TreeEntry, ...]:
    """Read the entries of a tree. Raises: `ShapeError` if GitHub truncated the list."""
    if required_field(data, "truncated", bool):
        raise ShapeError("the list is truncated")
    return tuple(map(_entry, required_field(data, "tree", list)))


def blob(data: Any) -> bytes:
    """Read the content of a file."""
    if required_field(data, "encoding", str) != "base64":
        raise ShapeError("`encoding` is not base64")
    try:
        return base64.b64decode(required_field(data, "content", str))
    except (binascii.Error, ValueError):
        raise ShapeError("`content` is not Base64") from None


def created_hash(data: Any) -> str:
    """Read the hash of a Git object that was created."""
    return required_hash(data, "sha")


def _entry(data: Any) -> TreeEntry:
    if not isinstance(data, Mapping):
        raise ShapeError("`tree` has an entry that is not an object")
    return TreeEntry(
        path=required_field(data, "path", str),
        mode=required_field(data, "mode", str),
        type=required_field(data, "type", str),
        sha=required_hash(data, "sha"),
        size=optional_field(data, "size", int) or 0,
    )
