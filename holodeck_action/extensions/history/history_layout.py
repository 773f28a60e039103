"""Where a history keeps its runs, on a branch as in a folder: one line a run, and the results of some of them.

`history.jsonl` has one JSON object a line, with at least `commit` and `time`; lines are only added. The results that it
still has are `records/COMMIT/SUITE.json.gz`, packed as the run wrote them; those of a job are
`records/COMMIT/SUITE-VARIANT.json.gz`, so that jobs with other targets do not overwrite each other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime

from holodeck_action.record.asker import NO_ASKER, Asker

HISTORY_FILE = "history.jsonl"
RECORDS_FOLDER = "records"
RECORD_ENDING = ".json.gz"
VARIANT_LENGTH = 8

LATEST_KEPT = 30
"""Commits whose results are kept, the newest; of those before, one a week."""
MOST_KEPT = 100
"""Commits whose results are kept altogether."""
_READABLE = 60
_OTHER = re.compile(r"[^A-Za-z0-9._]+")


def suite_key(folder: str | None, file: str) -> str:
    """Return what tells a suite from others of its repository, in a form that a file can be called.

    Args:
        folder: the suite's folder in its repository, with `/`, empty for the root; None outside of a repository.
        file: name of its file, such as `agent.yaml`.
    """
    place = f"{folder}/{file}" if folder else file
    readable = _OTHER.sub("-", place).strip("-.")[-_READABLE:]
    return f"{readable}-{hashlib.sha256(place.encode(errors='surrogatepass')).hexdigest()[:8]}"


def variant_of(target: str, asker: Asker) -> str:
    """Return what tells the results that a job has of a suite from those of others; empty where no job is known."""
    if asker == NO_ASKER:
        return ""
    text = json.dumps([target, asker.workflow, asker.job])
    return hashlib.sha256(text.encode()).hexdigest()[:VARIANT_LENGTH]


def record_path(commit: str, key: str, variant: str = "") -> str:
    """Return where the results of a suite at a commit are."""
    return f"{RECORDS_FOLDER}/{commit}/{key}{variant and f'-{variant}'}{RECORD_ENDING}"


def kept_commits(times: Mapping[str, datetime]) -> frozenset[str]:
    """Return the commits whose results stay: the latest, one a week before them, and not too many.

    Args:
        times: when a commit was last evaluated.
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
