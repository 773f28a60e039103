"""The results that each suite is compared with, found before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.annotations import placed
from holodeck_action.record.asker import asker_of
from holodeck_action.record.base_results import results_at, results_from
from holodeck_action.record.record import BaseRun, Record, RecordedBaseline
from holodeck_action.record.result_files import BaseResults, results_place
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.run.loading import with_lines
from holodeck_action.run.preflight import Prepared
from holodeck_action.seam import registry
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError, Located, located, suite_problem
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.model.base_sources import MERGE_BASE, parse_source
from holodeck_action.targets.factory import describe
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.github.bases.stored_results import ResultsSource, SuitePlace
    from holodeck_action.github.job import Job
    from holodeck_action.github.rest.api import Api

_MOST_BYTES = 256 * 1024 * 1024


class FoundBase(Struct, frozen=True):
    """The results of a base, and what they are."""

    results: BaseResults
    run: BaseRun


class MissingBase(Struct, frozen=True):
    """Why there is no base and how to get one, in one sentence."""

    reason: str


Base = FoundBase | MissingBase | None
"""What a suite is compared with; None where nothing is asked for."""


def find_bases(prepared: Sequence[Prepared], job: Job) -> tuple[Base, ...]:
    """Find the stored results that each suite is compared with; None where there are to be none.

    Args:
        prepared: the suites.
        job: GitHub, and what the event of the job is about.

    Raises:
        ConfigurationError: a file that is named cannot be used.
    """
    problems: list[str | Located] = []
    found: list[Base] = []
    stores: dict[tuple[Api, str], ResultsSource] = {}
    for item in prepared:
        try:
            found.append(_find(item, job, stores))
        except RecordError as error:
            problems.append(_problem(item, str(error)))
    if problems:
        raise ConfigurationError(with_lines(problems, prepared))
    return tuple(found)


def _problem(item: Prepared, message: str) -> str | Located:
    """Say what is wrong at the line that names the source, or of the command line."""
    suite, given = item.suite, item.base_files is not item.suite.checkout
    mark = None if given else suite.gate_marks.get("baseline.source")
    if mark is None:
        return suite_problem(suite, item.shown, None, "", f"--baseline: {message}")
    return located(Problem(mark, "baseline.source", message), suite.folder, item.shown)


def _find(item: Prepared, job: Job, stores: dict[tuple[Api, str], ResultsSource]) -> Base:
    source = item.settings.baseline.source
    if source is None or source == MERGE_BASE:
        return None
    kind, name = parse_source(source)
    if kind == "file":
        return _from_file(item, name)
    from holodeck_action.github.bases.stored_results import NoResultsError
    from holodeck_action.github.rest.objects import ApiError

    try:
        return _from_github(item, job, stores)
    except NoResultsError as error:
        return MissingBase(str(error))
    except ApiError as error:
        return MissingBase(error.needing("contents: read"))


def _from_github(item: Prepared, job: Job, stores: dict[tuple[Api, str], ResultsSource]) -> Base:
    """Return the results that an artifact or a branch has for the commit to compare with, or for one before it.

    Raises:
        NoResultsError: there are none.
        ApiError: GitHub cannot be asked.
    """
    from holodeck_action.github.bases.artifacts import ArtifactResults
    from holodeck_action.github.bases.merge_base import NoCommit

    folder, source = item.suite.folder, item.settings.baseline.source or ""
    api = job.api(folder)
    wanted = job.wanted(evaluated_commit(item), folder)
    if isinstance(wanted, NoCommit):
        return MissingBase(wanted.sentence)
    if (api, source) not in stores:
        kind, name = parse_source(source)
        stores[api, source] = ArtifactResults(api, name, job.now) if kind == "artifact" else _on_branch(api, name, job)
    found = stores[api, source].find(place_of(item), job.ancestry(api, wanted))
    run = BaseRun(source, found.commit, wanted.commit, found.distance, found.notices, wanted.branch)
    return FoundBase(found.results, run)


def _on_branch(api: Api, name: str, job: Job) -> ResultsSource:
    past = registry.past()
    if past is None:
        raise RecordError(f"branch:{name} {registry.unknown()}")
    found: ResultsSource = registry.resolve(past.branch)(api, name, lambda: job.branch_entries(api, name), job.now)
    return found


def evaluated_commit(item: Prepared) -> str | None:
    """Return the commit that is evaluated, or that was when stored answers are judged again."""
    return head_commit(item.suite.folder) if item.stored is None else item.stored.record.provenance.commit


def folder_of(item: Prepared) -> str | None:
    """Return where a suite stands in its repository; None outside of one."""
    return placed(item.suite.folder, item.environ).folder


def place_of(item: Prepared) -> SuitePlace:
    """Return what tells a suite from the others of its repository."""
    from holodeck_action.github.bases.stored_results import SuitePlace

    target = describe(item.target) if item.stored is None else item.stored.record.provenance.target
    return SuitePlace(folder_of(item), item.suite.file, item.redactor.text(target), asker_of(item.environ))


def _from_file(item: Prepared, name: str) -> FoundBase:
    """Read a results file, or the one in a folder.

    Raises:
        RecordError: it cannot be used.
    """
    files = item.base_files
    try:
        results = results_place(GivenPath(Path(name), files.folder))
        if files.place(results.path).is_dir():
            found = results_at(results)
        else:
            with files.open(results.given, _MOST_BYTES) as opened:
                found = results_from(opened, str(results))
    except OSError as error:
        raise RecordError(f"{name}: cannot be read: {error.strerror}; give the results.json of a run") from error
    return FoundBase(found, BaseRun(f"file:{name}", found.results.record.provenance.commit))


def compared(record: Record, item: Prepared, base: Base) -> tuple[Record, BaseResults | None]:
    """Return the record of a suite with what it is compared with, and the results of its base; None for none."""
    if base is None:
        return record, None
    settings = item.settings.baseline
    if isinstance(base, MissingBase):
        return replace(record, baseline=RecordedBaseline(settings, None, base.reason)), None
    run = replace(record.run, base_digest=base.results.results.digest)
    return replace(record, baseline=RecordedBaseline(settings, base.run), run=run), base.results
