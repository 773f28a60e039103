"""The files of a history, on a branch or in a folder: one line per run, and the results of some runs.

`history.jsonl` has one JSON object per line, with at least `commit` and `time`; lines are only added. Results are in
`records/COMMIT/SUITE.json.gz`, compressed. If the job is known, the path is `records/COMMIT/SUITE-VARIANT.json.gz`, so
that jobs with different targets do not overwrite each other's results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime

from holodeck_action.record.workflow_job import NO_JOB, WorkflowJob
from holodeck_action.text.lazy_patterns import lazy_pattern

HISTORY_FILE = "history.jsonl"
RECORDS_FOLDER = "records"
RECORD_ENDING = ".json.gz"
VARIANT_LENGTH = 8

LATEST_KEPT = 30
"""Number of the newest commits whose results are kept; of older ones, one per week is kept."""
MOST_KEPT = 100
"""Maximum number of commits, of any age, whose results are kept."""
_READABLE_LENGTH = 60
_INVALID_CHARACTERS = lazy_pattern(r"[^A-Za-z0-9._]+")


def suite_key(folder: str | None, file: str) -> str:
    """Return a key for a suite that is unique in its repository and valid in file names.

    Args:
        folder: the suite's folder in its repository, with `/` as the separator; empty if it is the root, None if there
            is no repository.
        file: name of the suite's file, such as `agent.yaml`.
    """
    place = f"{folder}/{file}" if folder else file
    readable = _INVALID_CHARACTERS.sub("-", place).strip("-.")[-_READABLE_LENGTH:]
    return f"{readable}-{hashlib.sha256(place.encode(errors='surrogatepass')).hexdigest()[:8]}"


def job_variant(target: str, job: WorkflowJob) -> str:
    """Return the key that distinguishes the results of a job and target; empty if the job is unknown."""
    if job == NO_JOB:
        return ""
    text = json.dumps([target, job.workflow, job.job])
    return hashlib.sha256(text.encode()).hexdigest()[:VARIANT_LENGTH]


def record_path(commit: str, key: str, variant: str = "") -> str:
    """Return the path of a suite's results at a commit, relative to the history."""
    return f"{RECORDS_FOLDER}/{commit}/{key}{variant and f'-{variant}'}{RECORD_ENDING}"


def commits_to_keep(times: Mapping[str, datetime]) -> frozenset[str]:
    """Return the commits whose results a history keeps: the newest, then one per week, up to a limit.

    Args:
        times: time of the latest run of each commit.
    """
    newest = sorted(times, key=lambda commit: (times[commit], commit), reverse=True)
    kept = newest[:LATEST_KEPT]
    weeks = {tuple(times[commit].isocalendar()[:2]) for commit in kept}
    for commit in newest[LATEST_KEPT:]:
        week = tuple(times[commit].isocalendar()[:2])
        if week not in weeks:
            weeks.add(week)
            kept.append(commit)
    return frozenset(kept[:MOST_KEPT])
