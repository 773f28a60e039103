"""The commands of `history`: show the trend of earlier runs, and import their results."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.history.history_layout import HISTORY_FILE
from holodeck_action.extensions.history.history_lines import HistoryLines, history_line
from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryFolder
from holodeck_action.extensions.history.history_text import SuiteHistory, console_history, markdown_history
from holodeck_action.extensions.history.trends import history_of
from holodeck_action.record.base_results import read_base, read_results_file
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.record.results_search import find_results
from holodeck_action.record.serialization import to_plain
from holodeck_action.run.caller import Caller
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line


def show_history(folder: GivenPath, format_name: str, caller: Caller) -> int:
    """Print the runs and trends of a history in a folder.

    Args:
        folder: folder of the history.
        format_name: `console`, `markdown` or `json`.
        caller: receives the history on standard output, and notes about unreadable lines on standard error.

    Raises:
        ConfigurationError: the folder has no history, or it cannot be read.
    """
    found = HistoryFolder(folder, caller.pause, caller.disk or DISK).read()
    caller.note(*found.notices)
    if not found.lines:
        raise ConfigurationError(
            [f"{folder / HISTORY_FILE}: holds no run; add runs with `run --history`, or with `history import`"]
        )
    suites = _suite_histories(found)
    if format_name == "json":
        text = json.dumps({suite.suite: _json_values(suite) for suite in suites}, indent=1) + "\n"
    else:
        text = (markdown_history if format_name == "markdown" else console_history)(suites)
    caller.stdout.write(text)
    return ExitCode.PASSED


def _suite_histories(lines: HistoryLines) -> Sequence[SuiteHistory]:
    names = sorted({line.suite for line in lines.lines})
    return [SuiteHistory(name, lines.of_suite(name), history_of(lines.of_suite(name))) for name in names]


def _json_values(suite: SuiteHistory) -> object:
    return {
        "runs": len(suite.lines),
        "history": None if suite.history is None else to_plain(suite.history),
    }


def import_runs(results: Sequence[GivenPath], history: GivenPath, caller: Caller) -> int:
    """Add the runs of results files to a history; runs that the history already has are skipped.

    Args:
        results: results files, or folders to search recursively.
        history: folder of the history; created if missing.
        caller: receives the counts on standard output, and notes about skipped runs on standard error.

    Raises:
        ConfigurationError: there are no results, a results file is invalid, or the history cannot be written.
    """
    entries: list[HistoryEntry] = []
    problems: list[str] = []
    for file in (file for path in results for file in find_results(path, (PREVIOUS_FOLDER, BASE_FOLDER))):
        try:
            entry = _read_entry(file)
        except ConfigurationError as error:
            problems += error.lines if isinstance(error, RecordError) else (f"{file}: {error}",)
            continue
        if entry is None:
            caller.stderr.write(f"note: {one_line(str(file), 500)}: skipped: its answers were graded again\n")
        else:
            entries.append(entry)
    if problems:
        raise ConfigurationError(problems)
    store = HistoryFolder(history, caller.pause, caller.disk or DISK)
    caller.note(*store.read().notices)
    added = store.append(entries)
    known = len(entries) - added
    caller.stdout.write(f"imported {added} {'run' if added == 1 else 'runs'}{f', {known} known' if known else ''}\n")
    return ExitCode.PASSED


def _read_entry(file: GivenPath) -> HistoryEntry | None:
    """Return the history entry of a results file; None if the file's run graded stored answers again.

    Raises:
        ConfigurationError: the file is invalid, or so is the file with the base's results next to it.
    """
    stored = read_results_file(file)
    record = stored.results.record
    if record.provenance.rejudged is not None:
        return None
    line = history_line(record, decide(record, Terms.against(read_base(file, record))))
    return HistoryEntry(line, stored.content if line.is_counted else None)
