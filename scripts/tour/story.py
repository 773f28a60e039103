"""The story of the tour: examples/repository/tour.yaml, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import yaml


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An annotation that must be there.

    Attributes:
        file: the file that it is on.
        line: a part of the text of its line.
        says: a part of its message.
    """

    file: str
    line: str
    says: str


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="run"):
    """A run of a workflow, and its expected outcome.

    Attributes:
        event: the event that starts it; `push` merges the pull request first.
        exit: the exit code of the step.
        workflow: its file in .github/workflows.
        labels: the labels of the pull request.
        comment: texts of the comment on the pull request. A workflow has one, which each of its runs updates.
        without: texts that the comment does not have.
        annotations: annotations on lines; None if they are not checked.
        summary: texts of the job summary.
        traces: the conversations of nights.yaml that the shop's collector has then.
    """

    event: Literal["push", "pull_request", "pull_request.synchronize", "schedule", "workflow_dispatch"]
    exit: int
    workflow: str = "evaluate.yml"
    comment: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    annotations: tuple[Mark, ...] | None = None
    summary: tuple[str, ...] = ()
    traces: Literal["", "week", "night"] = ""


class Desk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="desk"):
    """A command that a person types at their desk, and its expected outcome.

    The folder is a checkout of `main`. Below `nights` are the results of the step's runs so far, from their artifacts,
    in folders with the names of their traces; `night.jsonl` are the last traces.

    Attributes:
        command: the command line, without a shell.
        exit: its exit code.
        prints: texts of its output.
        writes: files that it writes and the tour keeps.
    """

    command: str
    exit: int
    prints: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit and what happens to it.

    Attributes:
        title: its heading.
        shows: one sentence.
        runs: what happens, in this order.
        patch: the commit. Empty for the first one, which is the folder `shop`, and for what happens without a commit.
        branch: the branch of its pull request; the commit is pushed to an open one if there is one.
    """

    title: str
    shows: str
    runs: tuple[Run | Desk, ...]
    patch: str = ""
    branch: str = ""


def read_story(file: Path) -> tuple[Step, ...]:
    """Return the steps.

    Raises:
        msgspec.ValidationError: the file is not a story.
    """
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    for step in document["steps"]:
        step["runs"] = [{"kind": "desk" if "command" in run else "run", **run} for run in step["runs"]]
    return msgspec.convert(document["steps"], tuple[Step, ...])
