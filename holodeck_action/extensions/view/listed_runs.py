"""Finds the runs that `view` lists, with their outcomes and pages. No file is changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.extensions.history.history_layout import HISTORY_FILE
from holodeck_action.extensions.history.history_lines import HistoryLine
from holodeck_action.extensions.history.history_store import HistoryFolder
from holodeck_action.record.base_results import parse_base_results
from holodeck_action.record.folder import LOCK_FILE, PREVIOUS_FOLDER
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import SCHEMA_VERSION, CaseRecord, Provenance, Record, RunInfo, SuiteIdentity
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    RESULTS_FILE,
    TABLES_FOLDER,
    VERDICT_FILE,
    open_results,
    results_path,
    verdict_values,
)
from holodeck_action.record.results_search import results_name
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.page.run_columns import MOST_RUNS, RunColumn, check_columns, column_name
from holodeck_action.reports.page.viewer import PageView
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import JOURNAL_FILE, RunProgress, read_progress
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Gates
from holodeck_action.text.foreign import Foreign, ForeignError, open_file
from holodeck_action.text.given_paths import GivenPath

_DEFAULT_FOLDERS = (LAST_RESULTS.parent, Path("holodeck-results"))
"""Folders of results that a run writes without an output folder."""
_MOST_FOLDERS = 10_000
_HEAD_BYTES = 1024 * 1024


class ListedRun(Struct, frozen=True):
    """A run in the list of runs.

    Attributes:
        key: id of the run in URLs.
        place: path of the run's results as the user would type it.
        title: names of the run's suites; if the run has not finished, its state.
        outcome: outcome of the run's verdict; `pending` if the run has not finished, empty if it is unknown.
        sentence: reason of the verdict, or the pass rate; may be empty.
        changed: time of the last change of the run's files, in seconds since 1970.
        view: function that returns the content of the run's page.
        journal: path of the run's journal if the run has not finished, else None.
    """

    key: str
    place: str
    title: str
    outcome: str
    sentence: str
    changed: float
    view: Callable[[], PageView]
    journal: Path | None = None


class Progress(Struct, frozen=True):
    """The progress of a run; `version` changes whenever the run's page changes."""

    version: str
    done: int
    planned: int
    running: bool


def list_runs(
    paths: Sequence[GivenPath], caller: Caller, note: Callable[[str], None] = lambda sentence: None
) -> list[ListedRun]:
    """Return the runs in results files, folders and histories, newest first.

    Args:
        paths: results files, output folders, folders of output folders, or histories. If empty, the default output
            folders in the caller's working folder are searched.
        caller: provides the working folder.
        note: called with a sentence for each line of a history that cannot be read.

    Raises:
        ConfigurationError: a given path does not exist or contains no run.
    """
    runs: dict[str, ListedRun] = {}
    for path in paths or _default_folders(caller):
        found = list(_runs_at(path, caller, note))
        if paths and not found:
            raise ConfigurationError([f"{path}: holds no {RESULTS_FILE}; give the output folder of a run"])
        runs.update((run.key, run) for run in found)
    return sorted(runs.values(), key=lambda run: -run.changed)


def _default_folders(caller: Caller) -> Iterator[GivenPath]:
    yield from (GivenPath(path, caller.cwd) for path in _DEFAULT_FOLDERS)
    for entry in sorted(os.scandir(caller.cwd), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            folder = GivenPath(Path(entry.name), caller.cwd)
            if any((folder / name).path.is_file() for name in (VERDICT_FILE, JOURNAL_FILE, HISTORY_FILE)):
                yield folder


def _runs_at(path: GivenPath, caller: Caller, note: Callable[[str], None]) -> Iterator[ListedRun]:
    if path.path.exists() and not path.path.is_dir():
        place = results_path(path)
        if place == path:
            with open_results(path):
                # For a file that the caller names, raise the reason.
                pass
        yield _run_of_results(place)
    elif (path / HISTORY_FILE).path.is_file():
        yield from _runs_of_history(path, caller, note)
    elif path.path.is_dir():
        yield from _runs_below(path)


def _runs_below(path: GivenPath) -> Iterator[ListedRun]:
    for count, (folder, names, files) in enumerate(os.walk(path.path)):
        here = path if Path(folder) == path.path else path.written_path(folder)
        names[:] = sorted(name for name in names if name not in (PREVIOUS_FOLDER, BASE_FOLDER))
        results = results_name(names, files)
        names[:] = [name for name in names if name != TABLES_FOLDER]
        if results is not None:
            yield _run_of_results(here / results)
        elif VERDICT_FILE in files and (suites := _suite_folders(here)):
            yield _run_of_suites(here, suites)
            names[:] = [name for name in names if name not in suites]
        elif JOURNAL_FILE in files:
            yield _running_run(here)
        if count >= _MOST_FOLDERS:
            return


def _run_of_results(file: GivenPath) -> ListedRun:
    head, verdict = _read_head(file), verdict_values(file.path.parent)
    suite = head.get("suite")
    return ListedRun(
        key=_run_key(file.path),
        place=str(file),
        title=str(suite.get("name", "")) if isinstance(suite, dict) else "",
        outcome=str(verdict.get("outcome", "")),
        sentence=str(verdict.get("reason", "")),
        changed=file.path.stat().st_mtime,
        view=lambda: _make_view([read_conclusion(file)], str(file)),
    )


def _run_of_suites(folder: GivenPath, suites: Sequence[str]) -> ListedRun:
    verdict = verdict_values(folder)
    listed = [each for each in verdict["suites"] if isinstance(each, dict)]
    passed = sum(each.get("outcome") == "passed" for each in listed)
    files = [file for name in suites if (file := results_path(folder / name)) != folder / name]
    return ListedRun(
        key=_run_key(folder.path),
        place=str(folder),
        title=", ".join(str(each.get("suite", "")) for each in listed),
        outcome="passed" if verdict.get("exit_code") == ExitCode.PASSED else "failed",
        sentence=f"{passed} of {len(listed)} suites passed",
        changed=(folder / VERDICT_FILE).path.stat().st_mtime,
        view=lambda: _make_view([read_conclusion(file) for file in files], str(folder / "SUITE" / RESULTS_FILE)),
    )


def _suite_folders(folder: GivenPath) -> list[str]:
    """Return the names of the suites' folders that a combined verdict lists."""
    found = verdict_values(folder).get("suites")
    names = [each.get("folder") for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    # The files may come from an artifact and are not trusted.
    return [name for name in names if isinstance(name, str) and name not in ("", ".", "..") and os.sep not in name]


def _runs_of_history(folder: GivenPath, caller: Caller, note: Callable[[str], None]) -> Iterator[ListedRun]:
    store = HistoryFolder(folder, caller.pause)

    def view(line: HistoryLine) -> PageView:
        content = store.results(line)
        if content is None:
            raise RecordError(f"{folder / line.record_path}: the history no longer has the results of this run")
        return _make_view(
            [conclude(parse_base_results(content, f"{folder}: {line.results_folder}").results.record)],
            str(folder),
        )

    history = store.read()
    for notice in history.notices:
        note(notice)
    for line in history.lines:
        if (folder / line.record_path).path.is_file():
            yield ListedRun(
                key=_run_key(folder.path / line.record_path),
                place=f"{folder}: {line.results_folder[:7]}",
                title=line.suite,
                outcome=line.outcome,
                sentence="" if line.pass_rate is None else f"pass rate {line.pass_rate.value:.3f}",
                changed=line.moment.timestamp(),
                view=partial(view, line),
            )


def _running_run(folder: GivenPath) -> ListedRun:
    journal = (folder / JOURNAL_FILE).path

    def view() -> PageView:
        running = _read_journal(journal)
        if running is None:
            raise RecordError(f"{folder / JOURNAL_FILE}: is still empty")
        return PageView([_partial_suite(running)], ExitCode.INCOMPLETE, results=str(folder / RESULTS_FILE))

    return ListedRun(
        key=_run_key(folder.path / RESULTS_FILE),
        place=str(folder),
        title="a run in progress" if _is_locked(folder.path) else "a run that was interrupted",
        outcome="pending",
        sentence="",
        changed=journal.stat().st_mtime,
        view=view,
        journal=journal,
    )


def progress_of(run: ListedRun) -> Progress:
    """Return the progress of a run, from its journal if it is still running."""
    if run.journal is None:
        return Progress(f"{run.changed}", 0, 0, running=False)
    version = run.journal.stat().st_size
    running = _read_journal(run.journal)
    done = 0 if running is None else len(running.trials)
    planned = done if running is None or running.planned is None else running.planned
    return Progress(f"{version} so far", done, planned, running=_is_locked(run.journal.parent))


def _read_journal(journal: Path) -> RunProgress | None:
    """Return the state of a run from its journal; None if the journal is still empty.

    Raises:
        RecordError: the journal cannot be read.
    """
    try:
        return read_progress(journal)
    except OSError as error:
        raise RecordError(f"{journal}: cannot be read: {error.strerror}") from error


def _partial_suite(running: RunProgress) -> Conclusion:
    """Return the view of a suite whose run is in progress, built from its journal.

    The journal has no case names, gates or verdict.
    """
    identity = running.identity
    trials = [trial for several in running.trials.values() for trial in several]
    started = min((trial.timing.started_at for trial in trials if trial.timing is not None), default="")
    cases = tuple(_planned_case(name, running) for name in running.trials)
    record = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(str(identity.get("suite", "")), "agent.yaml", str(identity.get("digest", ""))),
        provenance=Provenance(
            str(identity.get("tool", "")), str(identity.get("target", "")), commit=identity.get("commit")
        ),
        gates=Gates(),
        quarantine=(),
        stop_when_decided=False,
        cases=cases,
        run=RunInfo("", started, "", 0.0, ""),
    )
    concluded = conclude(record)
    planned = f" of {running.planned}" if running.planned is not None else ""
    reason = f"{len(cases)}{planned} cases are done"
    report = replace(
        concluded.report, outcome="incomplete", exit_code=ExitCode.INCOMPLETE, reason=reason, gates=(), run=None
    )
    return replace(concluded, report=report)


def _planned_case(name: str, running: RunProgress) -> CaseRecord:
    trials = tuple(running.trials[name])
    turns = [turn for trial in trials for turn in trial.turns]
    evaluations = [each for trial in trials for _, each in trial.graded]
    asserting = any(each.criteria.asserts for each in evaluations)
    return CaseRecord(
        id=name,
        name=None,
        content_hash="",
        source=turns[0].source,
        multi_turn=max(len(trial.turns) for trial in trials) > 1,
        repeat=len(trials),
        min_pass=len(trials),
        planned_evaluations=len(evaluations),
        not_applicable=0,
        asserting=asserting or any(turn.tool_assertions for turn in turns),
        trials=trials,
    )


def _make_view(suites: Sequence[Conclusion], results: str) -> PageView:
    code = worst_exit_code(suite.report.exit_code for suite in suites)
    return PageView(suites, code, results=results)


def side_by_side(runs: Sequence[ListedRun]) -> PageView:
    """Return the page of several runs as columns, in the given order.

    Raises:
        ConfigurationError: a run has several suites, or the runs cannot be columns of one page.
    """
    views = [run.view() for run in runs[: MOST_RUNS + 1]]
    several = [
        f"{run.place}: has several suites; give the results of a single suite"
        for run, view in zip(runs, views, strict=False)
        if len(view.suites) > 1
    ]
    if several:
        raise ConfigurationError(several)
    columns = [
        RunColumn(column_name(run.place, RESULTS_FILE), view.suites[0]) for run, view in zip(runs, views, strict=False)
    ]
    check_columns(columns)
    return replace(views[0], runs=columns)


def _is_locked(folder: Path) -> bool:
    """Return whether another process holds the lock of a folder, as a run does while it writes to the folder."""
    try:
        with open_file(folder / LOCK_FILE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _run_key(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]


def _read_head(file: GivenPath) -> dict[str, Any]:
    """Return the fields of a results file that come before its cases; empty if they cannot be read."""
    try:
        with open_results(file) as stream:
            start = stream.read(_HEAD_BYTES)
        return Foreign(start.partition(b',\n "cases": [')[0] + b"}").json_object()
    except (RecordError, ForeignError):
        return {}
