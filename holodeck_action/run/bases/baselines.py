"""Finds the stored results to compare each suite with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.record.base_results import NO_BASE, make_base_results, parse_base_results, read_results_file
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import BaseRun, Record, RecordedBaseline
from holodeck_action.record.result_files import BaseResults, results_path
from holodeck_action.record.workflow_job import workflow_job
from holodeck_action.run.loading import with_lines
from holodeck_action.run.run import FoundBase, MissingBase, Run
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem, locate_problem, suite_problem
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.model.base_sources import MERGE_BASE, parse_source
from holodeck_action.targets.factory import describe_target
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.github.bases.stored_results import ResultsSource, WantedSuite
    from holodeck_action.github.job import Job
    from holodeck_action.github.rest.api import Api

_MOST_BYTES = 256 * 1024 * 1024


def find_bases(suites: Sequence[Run], job: Job) -> list[Run]:
    """Return the suites, each with the stored results that it is compared with, if any.

    Args:
        suites: the suites.
        job: the CI job, which gives access to GitHub and to the event.

    Raises:
        ConfigurationError: a results file that the user names cannot be used.
    """
    problems: list[str | LocatedProblem] = []
    found: list[Run] = []
    stores: dict[tuple[Api, str], ResultsSource] = {}
    for item in suites:
        try:
            found.append(_with_base(item, job, stores))
        except RecordError as error:
            problems.append(_source_problem(item, str(error)))
    if problems:
        raise ConfigurationError(with_lines(problems, suites))
    return found


def _source_problem(prepared_suite: Run, message: str) -> str | LocatedProblem:
    """Return a problem with the base's source, at its line in the policy file or for the option `--baseline`."""
    suite, given = prepared_suite.suite, prepared_suite.base_files is not prepared_suite.suite.checkout
    mark = None if given else suite.gate_marks.get("baseline.source")
    if mark is None:
        return suite_problem(suite, prepared_suite.display_folder, None, "", f"--baseline: {message}")
    return locate_problem(Problem(mark, "baseline.source", message), suite.folder, prepared_suite.display_folder)


def _with_base(suite: Run, job: Job, stores: dict[tuple[Api, str], ResultsSource]) -> Run:
    source = suite.settings.baseline.source
    if source is None or source == MERGE_BASE:
        return suite
    kind, name = parse_source(source)
    found = _read_base_file(suite, name, job) if kind == "file" else _find_on_github(suite, job, stores)
    return replace(suite, base=found)


def _find_on_github(suite: Run, job: Job, stores: dict[tuple[Api, str], ResultsSource]) -> FoundBase | MissingBase:
    """Return the results of the commit to compare with, or of an earlier commit; a `MissingBase` if there are none."""
    from holodeck_action.github.bases.artifacts import ArtifactResults
    from holodeck_action.github.bases.merge_base import NoCommit
    from holodeck_action.github.bases.stored_results import NoResultsError
    from holodeck_action.github.rest.objects import ApiError

    folder, source = suite.suite.folder, suite.settings.baseline.source or ""
    try:
        api = job.api(folder)
        wanted = job.commit_to_compare(suite.commit, folder)
        if isinstance(wanted, NoCommit):
            return MissingBase(wanted.sentence)
        if (api, source) not in stores:
            kind, name = parse_source(source)
            stores[api, source] = (
                ArtifactResults(api, name, job.now) if kind == "artifact" else _branch_results(api, name, job)
            )
        found = stores[api, source].find(wanted_suite(suite), job.ancestry(api, wanted))
    except NoResultsError as error:
        return MissingBase(str(error))
    except ApiError as error:
        return MissingBase(error.with_remedy("contents: read"))
    run = BaseRun(source, found.commit, wanted.commit, found.distance, found.notices, wanted.branch)
    return FoundBase(found.results, run)


def _branch_results(api: Api, name: str, job: Job) -> ResultsSource:
    past = registry.past()
    if past is None:
        raise RecordError(f"branch:{name} {registry.unknown_phrase()}")
    found: ResultsSource = registry.resolve(past.branch)(api, name, lambda: job.branch_entries(api, name), job.now)
    return found


def wanted_suite(suite: Run) -> WantedSuite:
    """Return the properties of a suite by which its stored results are found."""
    from holodeck_action.github.bases.stored_results import WantedSuite

    target = describe_target(suite.target) if suite.stored is None else suite.stored.record.provenance.target
    return WantedSuite(
        suite.repository_folder, suite.suite.file, suite.redactor.text(target), workflow_job(suite.environ)
    )


def _read_base_file(suite: Run, name: str, job: Job) -> FoundBase:
    """Read a results file, or the one in a folder, as a base, and look for the file of the base commit.

    Raises:
        RecordError: the file cannot be used.
    """
    files = suite.base_files
    try:
        results = results_path(GivenPath(Path(name), files.folder))
        if files.resolve(results.path).is_dir():
            found = read_results_file(results)
        else:
            with files.open(results.given, _MOST_BYTES) as opened:
                found = parse_base_results(opened.read(), str(results))
    except OSError as error:
        raise RecordError(f"{name}: cannot be read: {error.strerror}; give the results.json of a run") from error
    if found.results.record.certain is not None:
        raise RecordError(f"{name}: {NO_BASE}; give the results.json of a run that asked all cases")
    from holodeck_action.run.bases.committed_results import find_replaced

    replaced = find_replaced(suite, suite.commit, files.folder / name, found, results.path, job)
    return FoundBase(found, BaseRun(f"file:{name}", found.results.record.provenance.commit, replaced=replaced))


def attach_base(run: Run) -> tuple[Record, BaseResults | None]:
    """Return the record of a run with its base's description, and the base's results (None if there are none)."""
    record, base = run.record, run.base
    if base is None:
        return record, None
    if isinstance(base, Run):
        assert base.as_base is not None
        base = FoundBase(make_base_results(base.record), base.as_base.run)
    settings, accepted = run.settings.baseline, run.settings.on_changed_code
    if isinstance(base, MissingBase):
        return replace(record, baseline=RecordedBaseline(settings, None, base.reason, accepted)), None
    about = replace(record.run, base_digest=base.results.results.digest)
    described = RecordedBaseline(settings, base.run, on_changed_code=accepted)
    return replace(record, baseline=described, run=about), base.results
