"""Which job of a workflow evaluates: what tells its results from those that other jobs have of the same suite."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holodeck_action.text.plain import one_line

_LONGEST = 300


class Asker(Struct, frozen=True):
    """A job.

    Attributes:
        workflow: path of the workflow's file in its repository; empty where it is not known.
        job: its id there, with the input `comment-id` that tells parts of a matrix apart; empty where it is not known.
    """

    workflow: str = ""
    job: str = ""


NO_ASKER = Asker()


def asker_of(environ: Mapping[str, str]) -> Asker:
    """Return the job that a step belongs to; nothing is known of one outside of a workflow."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return NO_ASKER
    # OWNER/REPOSITORY/PATH@REF
    parts = environ.get("GITHUB_WORKFLOW_REF", "").split("/", 2)
    path = workflow_path(parts[2]) if len(parts) == 3 else ""
    names = (environ.get("GITHUB_JOB", ""), environ.get("INPUT_COMMENT-ID", ""))
    return Asker(path, one_line("/".join(name.strip() for name in names if name.strip()), _LONGEST))


def workflow_path(written: str) -> str:
    """Return the path of a workflow's file without the reference that GitHub may put behind it."""
    return one_line(written.partition("@")[0], _LONGEST)
