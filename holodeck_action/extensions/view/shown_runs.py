"""Runs that `view` lists: where they are, what came of them, and what their pages show; nothing is changed."""

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
from holodeck_action.extensions.history.history_store import HistoryFolder
from holodeck_action.extensions.history.results_history import HistoryLine
from holodeck_action.record.base_results import results_in
from holodeck_action.record.folder import LOCK_FILE, PREVIOUS_FOLDER
from holodeck_action.record.found_results import results_name
from holodeck_action.record.record import SCHEMA_VERSION, CaseRecord, Provenance, Record, RunInfo, SuiteIdentity
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    RESULTS_FILE,
    TABLES_FOLDER,
    VERDICT_FILE,
    opened_results,
    results_place,
    verdict_values,
)
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import View
from holodeck_action.reports.page.viewer_index import ViewedSuite
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import JOURNAL_FILE, Running, follow
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.viewed import read_viewed
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Gates
from holodeck_action.text.foreign import Foreign, ForeignError, open_file
from holodeck_action.text.given_paths import GivenPath

_USUAL = (LAST_RESULTS.parent, Path("holodeck-results"))
"""Where runs keep results that are given no folder."""
_MOST_FOLDERS = 10_000
_HEAD_BYTES = 1024 * 1024
_MANIFEST_BYTES = 64 * 1024 * 1024


class ShownRun(Struct, frozen=True):
    """A run of the list.

    Attributes:
        key: tells it apart in addresses.
        place: where it is, as the reader would type it.
        title: names of its suites.
        outcome: of its verdict; `pending` for a run that goes on.
        sentence: why.
        changed: when its files changed last, seconds since 1970.
        view: makes what its page shows.
        journal: of a run that goes on; None for any other.
    """

    key: str
    place: str
    title: str
    outcome: str
    sentence: str
    changed: float
    view: Callable[[], View]
    journal: Path | None = None


class Progress(Struct, frozen=True):
    """How far a run is: `version` changes whenever its page does."""

    version: str
    done: int
    planned: int
    running: bool


def shown_runs(
    given: Sequence[GivenPath], caller: Caller, note: Callable[[str], None] = lambda sentence: None
) -> list[ShownRun]:
    """Return the runs that are there, the newest first.

    Args:
        given: results files, output folders, folders of these, or a history; without any, the folders that runs write
            into where the caller is.
        caller: whose folder that is.
        note: takes sentences about lines of histories that cannot be read.

    Raises:
        ConfigurationError: something that is given is not there, or holds no run.
    """
    runs: dict[str, ShownRun] = {}
    for path in given or _usual(caller):
        found = list(_runs(path, caller, note))
        if given and not found:
            raise ConfigurationError([f"{path}: holds no {RESULTS_FILE}; give the output folder of a run"])
        runs.update((run.key, run) for run in found)
    return sorted(runs.values(), key=lambda run: -run.changed)


def _usual(caller: Caller) -> Iterator[GivenPath]:
    yield from (GivenPath(path, caller.cwd) for path in _USUAL)
    for entry in sorted(os.scandir(caller.cwd), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            folder = GivenPath(Path(entry.name), caller.cwd)
            if any((folder / name).path.is_file() for name in (VERDICT_FILE, JOURNAL_FILE, HISTORY_FILE)):
                yield folder


def _runs(path: GivenPath, caller: Caller, note: Callable[[str], None]) -> Iterator[ShownRun]:
    if path.path.exists() and not path.path.is_dir():
        place = results_place(path)
        if place == path:
            with opened_results(path):
                # Whoever names a file is told at once why it is none.
                pass
        yield _of_results(place)
    elif (path / HISTORY_FILE).path.is_file():
        yield from _of_history(path, caller, note)
    elif path.path.is_dir():
        yield from _below(path)


def _below(path: GivenPath) -> Iterator[ShownRun]:
    for count, (folder, names, files) in enumerate(os.walk(path.path)):
        here = path if Path(folder) == path.path else path.below(folder)
        names[:] = sorted(name for name in names if name not in (PREVIOUS_FOLDER, BASE_FOLDER))
        results = results_name(names, files)
        names[:] = [name for name in names if name != TABLES_FOLDER]
        if results is not None:
            yield _of_results(here / results)
        elif VERDICT_FILE in files and (suites := _suites(here)):
            yield _of_several(here, suites)
            names[:] = [name for name in names if name not in suites]
        elif JOURNAL_FILE in files:
            yield _going_on(here)
        if count >= _MOST_FOLDERS:
            return


def _of_results(file: GivenPath) -> ShownRun:
    head, verdict = _head(file), verdict_values(file.path.parent)
    suite = head.get("suite")
    return ShownRun(
        key=_key(file.path),
        place=str(file),
        title=str(suite.get("name", "")) if isinstance(suite, dict) else "",
        outcome=str(verdict.get("outcome", "")),
        sentence=str(verdict.get("reason", "")),
        changed=file.path.stat().st_mtime,
        view=lambda: _view([read_viewed(file)], str(file)),
    )


def _of_several(folder: GivenPath, suites: Sequence[str]) -> ShownRun:
    verdict = verdict_values(folder)
    listed = [each for each in verdict["suites"] if isinstance(each, dict)]
    passed = sum(each.get("outcome") == "passed" for each in listed)
    files = [file for name in suites if (file := results_place(folder / name)) != folder / name]
    return ShownRun(
        key=_key(folder.path),
        place=str(folder),
        title=", ".join(str(each.get("suite", "")) for each in listed),
        outcome="passed" if verdict.get("exit_code") == ExitCode.PASSED else "failed",
        sentence=f"{passed} of {len(listed)} suites passed",
        changed=(folder / VERDICT_FILE).path.stat().st_mtime,
        view=lambda: _view([read_viewed(file) for file in files], str(folder / "SUITE" / RESULTS_FILE)),
    )


def _suites(folder: GivenPath) -> list[str]:
    """Return the folders of the suites that a combined verdict names."""
    found = verdict_values(folder).get("suites")
    names = [each.get("folder") for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    # What stands there may come from an artifact.
    return [name for name in names if isinstance(name, str) and name not in ("", ".", "..") and os.sep not in name]


def _of_history(folder: GivenPath, caller: Caller, note: Callable[[str], None]) -> Iterator[ShownRun]:
    store = HistoryFolder(folder, caller.pause)

    def view(line: HistoryLine) -> View:
        content = store.results(line)
        if content is None:
            raise RecordError(f"{folder / line.record_path}: the history has no results of this run any more")
        return _view(
            [ViewedSuite(conclude(results_in(content, f"{folder}: {line.place}").results.record))], str(folder)
        )

    history = store.read()
    for notice in history.notices:
        note(notice)
    for line in history.lines:
        if (folder / line.record_path).path.is_file():
            yield ShownRun(
                key=_key(folder.path / line.record_path),
                place=f"{folder}: {line.place[:7]}",
                title=line.suite,
                outcome=line.outcome,
                sentence="" if line.pass_rate is None else f"pass rate {line.pass_rate.value:.3f}",
                changed=line.moment.timestamp(),
                view=partial(view, line),
            )


def _going_on(folder: GivenPath) -> ShownRun:
    journal = (folder / JOURNAL_FILE).path

    def view() -> View:
        running = _followed(journal)
        if running is None:
            raise RecordError(f"{folder / JOURNAL_FILE}: holds nothing yet")
        return View([_so_far(running)], ExitCode.INCOMPLETE, results=str(folder / RESULTS_FILE))

    return ShownRun(
        key=_key(folder.path / RESULTS_FILE),
        place=str(folder),
        title="a run that goes on" if _is_locked(folder.path) else "a run that was interrupted",
        outcome="pending",
        sentence="",
        changed=journal.stat().st_mtime,
        view=view,
        journal=journal,
    )


def progress_of(run: ShownRun) -> Progress:
    """Return how far a run is."""
    if run.journal is None:
        return Progress(f"{run.changed}", 0, 0, running=False)
    version = run.journal.stat().st_size
    running = _followed(run.journal)
    done = 0 if running is None else len(running.trials)
    planned = done if running is None or running.planned is None else running.planned
    return Progress(f"{version} so far", done, planned, running=_is_locked(run.journal.parent))


def _followed(journal: Path) -> Running | None:
    """Return how far a run is, by its journal; None if that holds nothing yet.

    Raises:
        RecordError: the journal cannot be read.
    """
    try:
        return follow(journal)
    except OSError as error:
        raise RecordError(f"{journal}: cannot be read: {error.strerror}") from error


def _so_far(running: Running) -> ViewedSuite:
    """Return the suite of a run that goes on, as far as its journal tells: without names, gates and verdict."""
    told = running.identity
    trials = [trial for several in running.trials.values() for trial in several]
    started = min((trial.timing.started_at for trial in trials if trial.timing is not None), default="")
    cases = tuple(_case(name, running) for name in running.trials)
    record = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(str(told.get("suite", "")), "agent.yaml", str(told.get("digest", ""))),
        provenance=Provenance(str(told.get("tool", "")), str(told.get("target", "")), commit=told.get("commit")),
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
    return ViewedSuite(replace(concluded, report=report))


def _case(name: str, running: Running) -> CaseRecord:
    trials = tuple(running.trials[name])
    turns = [turn for trial in trials for turn in trial.turns]
    asserting = any(each.criteria.asserts for turn in turns for each in turn.evaluations)
    return CaseRecord(
        id=name,
        name=None,
        content_hash="",
        source=turns[0].source,
        multi_turn=max(len(trial.turns) for trial in trials) > 1,
        repeat=len(trials),
        min_pass=len(trials),
        planned_evaluations=sum(len(turn.evaluations) for turn in turns),
        not_applicable=0,
        asserting=asserting or any(turn.tool_assertions for turn in turns),
        trials=trials,
    )


def _view(suites: Sequence[ViewedSuite], results: str) -> View:
    code = worst_exit_code(suite.concluded.report.exit_code for suite in suites)
    return View(suites, code, results=results)


def _is_locked(folder: Path) -> bool:
    """Tell whether a process writes into a folder; its lock ends with it."""
    try:
        with open_file(folder / LOCK_FILE) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _key(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]


def _head(file: GivenPath) -> dict[str, Any]:
    """Return what a results file says before its cases; nothing where it is none."""
    try:
        with opened_results(file) as stream:
            start = stream.read(_HEAD_BYTES)
        return Foreign(start.partition(b',\n "cases": [')[0] + b"}").json_object()
    except (RecordError, ForeignError):
        return {}
