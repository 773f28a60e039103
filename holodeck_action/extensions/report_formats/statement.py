"""An in-toto statement (v1) with the predicate "test result" (v0.1): the verdict on files and on a commit.

https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, field

from holodeck_action.decide.verdict import Outcome
from holodeck_action.extensions.report_formats.problems import encode
from holodeck_action.record.result_files import VERDICT_FILE, results_path, verdict_values
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.phrases import repository_path
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.foreign import open_file
from holodeck_action.text.given_paths import GivenPath


class Resource(Struct, frozen=True, omit_defaults=True):
    """Something with a digest: a file, or a commit."""

    digest: Mapping[str, str]
    name: str = ""


class Predicate(Struct, frozen=True, rename="camel"):
    """The result of a run, the commit that has its suite, and the ids of its cases.

    Quarantined cases are warnings. A case that asserts nothing is in no list.
    """

    result: Literal["PASSED", "WARNED", "FAILED"]
    configuration: tuple[Resource, ...]
    passed_tests: list[str] = []
    warned_tests: list[str] = []
    failed_tests: list[str] = []


class Statement(Struct, frozen=True, rename="camel"):
    """A statement about `subject`. Unknown fields are ignored, as the specification demands."""

    type: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")
    subject: tuple[Resource, ...]
    predicate_type: Literal["https://in-toto.io/attestation/test-result/v0.1"]
    predicate: Predicate


def intoto(concluded: Conclusion, results: GivenPath) -> Iterator[bytes]:
    """Yield the statement on a run, see `state`."""
    yield encode(state(concluded, results_path(results))) + b"\n"


def state(concluded: Conclusion, results: GivenPath) -> Statement:
    """Return the statement on a run, its results file and the verdict.json next to it.

    Raises:
        ConfigurationError: verdict.json is missing, or it is the verdict on other results.
    """
    judged, report, verdict = results.parent / VERDICT_FILE, concluded.report, concluded.verdict
    written = verdict_values(judged.parent)
    if written.get("record_digest") != verdict.record_digest:
        raise ConfigurationError([f"{judged}: is not the verdict on {results}; write it with gate --output-dir"])
    ids: defaultdict[Outcome, list[str]] = defaultdict(list)
    for case in verdict.cases:
        ids[case.outcome].append(case.id)
    failed = [*ids["failed"], *ids["error"], *ids["skipped"]]
    result: Literal["PASSED", "WARNED", "FAILED"] = "FAILED"
    if written.get("outcome") == "passed":
        result = "WARNED" if failed or ids["quarantined"] else "PASSED"
    commit = report.provenance.commit
    suite = repository_path(report.provenance.folder or "", SourceMark(report.file, 1, 1)) or report.file
    at_commit = () if commit is None else (Resource({"gitCommit": commit}, suite),)
    return Statement(
        type="https://in-toto.io/Statement/v1",
        subject=(_digested(results), _digested(judged), *at_commit),
        predicate_type="https://in-toto.io/attestation/test-result/v0.1",
        predicate=Predicate(result, at_commit, ids["passed"], ids["quarantined"], failed),
    )


def _digested(path: GivenPath) -> Resource:
    digest = hashlib.sha256()
    with open_file(path, None) as file:
        for line in file:
            digest.update(line)
    return Resource({"sha256": digest.hexdigest()}, path.name)
