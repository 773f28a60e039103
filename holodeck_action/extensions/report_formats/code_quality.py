"""GitLab's code quality report: a JSON array in the part of CodeClimate's format that GitLab reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from holodeck_action.extensions.report_formats.problems import Problem, array_items, keep_problems
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.text.given_paths import GivenPath

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}
_MOST_BYTES = 10_000_000


def code_quality(concluded: Conclusion, results: GivenPath) -> Iterator[bytes]:
    """Yield a run as a code quality report, which shows each problem of a case or gate at its line.

    Args:
        concluded: the run.
        results: the path of its record; unused.
    """
    report = concluded.report
    yield b"["
    yield from array_items(keep_problems(report, partial(_entry, report.file), _MOST_BYTES).encoded)
    yield b"\n]\n"


def _entry(suite: str, problem: Problem) -> dict[str, Any]:
    before = "Worse than the base: " if problem.regressed else ""
    return {
        "description": f"{before}{problem.title}",
        "check_name": problem.rule.id,
        "fingerprint": problem.key,
        "severity": _SEVERITIES[problem.level],
        "location": {"path": problem.path or suite, "lines": {"begin": problem.line}},
    }
