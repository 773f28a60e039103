"""Collects the cases, graders and report rows of a suite; each importer has its own way to find them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.converted_suite import ConvertedCase, runnable_cases
from holodeck_action.extensions.importers.grader_file import Check, GraderFile
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.source import Place, Source
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.named_models import SMALL
from holodeck_action.text.plain import one_line

NAME_LIMIT = 80
"""Most characters of a case's name."""
DEFAULT_MODEL = {"provider": "openai", "name": SMALL}
OWN_INSTRUCTIONS = {"inline": "Not used: the target has its own."}


class OpenCase(Struct, kw_only=True):
    """A case to which metrics and comments are added one by one."""

    name: str
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


class Collector:
    """Collects what the cases of one suite share: the grader file, unique names, and the rows of the import report."""

    def __init__(self, source: Source, *, allow_missing: bool) -> None:
        """Begin a suite; `allow_missing`: something without a counterpart becomes a comment only, and no grader that
        raises."""
        self._source = source
        self._allow_missing = allow_missing
        self._metric_names: dict[str, str] = {}
        self._case_names = UniqueNames("{} ({})")
        self.graders = GraderFile(source.name)
        self.rows: list[Row] = []

    def case_name(self, name: str) -> str:
        """Return a name for a case that no other case has."""
        return self._case_names.add(one_line(name, NAME_LIMIT))

    def add_row(
        self, place: Place, source: str, becomes: str, outcome: Outcome, note: str, cases: int = 1, *, asserts: bool
    ) -> None:
        """Add a row to the import report."""
        row = Row(place.file, place.line, source, becomes, outcome, note, cases, asserts, place.column)
        self.rows.append(row)

    def add_missing(self, case: OpenCase, place: Place, source: str, reason: str, *, asserts: bool) -> None:
        """Add a row and a comment for something without a counterpart, and, unless `allow_missing`, a grader that
        raises."""
        self.add_row(place, source, "", Outcome.MISSING, reason, asserts=asserts)
        case.comments.append(f"Not imported: {source} ({place}): {reason}")
        if not self._allow_missing:
            stem = re.sub("[^a-z0-9]+", "_", source.lower()).strip("_")
            check = Check(f"line_{place.line}_{stem}", f"{place}: {source}", "not_imported")
            self.add_check(case, check, {"name": one_line(f"not imported: {source} (line {place.line})", 100)})

    def add_check(self, case: OpenCase, check: Check, entry: Mapping[str, Any]) -> str:
        """Add the grader of a check to a case, with further keys of its metric; return the grader's reference."""
        grader = self.graders.add(check, case.name)
        # If the grader raises, the case must not pass.
        metric: dict[str, Any] = {"type": "code", "grader": grader, **entry, "fail_on_error": True}
        if "name" in metric and self._metric_names.setdefault(metric["name"], grader) != grader:
            # A metric's name must be unique in the suite.
            del metric["name"]
        if metric not in case.metrics:
            case.metrics.append(metric)
        return grader

    def add_metric(self, case: OpenCase, metric: dict[str, Any], suffix: str) -> None:
        """Add a metric to a case. If another metric of the suite has its name, `suffix` follows the name."""
        if "name" in metric:
            said = json.dumps(metric, sort_keys=True)
            if self._metric_names.setdefault(metric["name"], said) != said:
                metric["name"] += suffix
                self._metric_names[metric["name"]] = said
        if metric not in case.metrics:
            case.metrics.append(metric)

    def runnable(self, cases: Sequence[ConvertedCase]) -> tuple[Sequence[ConvertedCase], Sequence[str]]:
        """Return the cases to write, and comments on those that are left out, since they cannot be run.

        Raises:
            ConfigurationError: none of the cases can be run.
        """
        kept, notes = runnable_cases(cases) if self._allow_missing else (cases, ())
        if not kept:
            raise ConfigurationError([f"{self._source.shown}: no case can be run ({notes[0]})"])
        return kept, notes
