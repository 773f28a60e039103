"""Annotations of requirements for passing that differ from the base's, such as a lower threshold."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from holodeck_action.decide.loosened_gate import ON_LOOSENED
from holodeck_action.decide.terms_changes import MAX_CASES_NAMED, change_phrase
from holodeck_action.github.annotations import MESSAGE_LIMIT, Annotation, annotation_at, annotation_key
from holodeck_action.reports.phrases import repository_path
from holodeck_action.reports.report_views import Report
from holodeck_action.text.plain import one_line, short_line

_MOST = 50
"""Maximum number of changed requirements that are annotated per suite, each at its first line."""


def annotate_terms(reports: Sequence[Report]) -> tuple[Annotation, ...]:
    """Return an annotation for each changed requirement; requirements without a line in the run's files are omitted."""
    return tuple(made for report in reports for made in _report_annotations(report))


def _report_annotations(report: Report) -> Iterator[Annotation]:
    terms, folder = None if report.comparison is None else report.comparison.terms, report.provenance.folder
    if terms is None:
        return
    fails = any(gate.name == ON_LOOSENED and gate.state == "failed" for gate in report.gates)
    for change in terms.reported_changes[:_MOST]:
        source = next((place.source for place in change.places if place.source is not None and not place.of_base), None)
        path = None if source is None else repository_path(folder, source)
        if source is None or path is None:
            continue
        text = change_phrase(change, MAX_CASES_NAMED)
        yield annotation_at(
            source,
            path,
            "failure" if fails else "warning",
            f"UNLIKE THE BASE · {short_line(text)}",
            one_line(f"Unlike the base, this run {text}", MESSAGE_LIMIT),
            annotation_key(posixpath.join(folder or "", report.file), change.way, change.said),
        )
