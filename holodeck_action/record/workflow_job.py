"""The workflow job that runs an evaluation. It distinguishes the evaluation's results from those of other jobs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holodeck_action.text.plain import one_line

_LONGEST = 300


class WorkflowJob(Struct, frozen=True):
    """A job of a workflow.

    Attributes:
        workflow: path of the workflow's file in its repository; empty if unknown.
        job: id of the job in the workflow, followed by the input `comment-id` if it is a matrix job; empty if unknown.
    """

    workflow: str = ""
    job: str = ""


NO_JOB = WorkflowJob()


def workflow_job(environ: Mapping[str, str]) -> WorkflowJob:
    """Return the job that runs this step; its fields are empty outside of a workflow."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return NO_JOB
    # OWNER/REPOSITORY/PATH@REF
    parts = environ.get("GITHUB_WORKFLOW_REF", "").split("/", 2)
    path = workflow_path(parts[2]) if len(parts) == 3 else ""
    names = (environ.get("GITHUB_JOB", ""), environ.get("INPUT_COMMENT-ID", ""))
    return WorkflowJob(path, one_line("/".join(name.strip() for name in names if name.strip()), _LONGEST))


def workflow_path(reference: str) -> str:
    """Return the path of a workflow's file without the reference that GitHub may append."""
    return one_line(reference.partition("@")[0], _LONGEST)
