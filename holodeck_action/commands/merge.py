"""`merge`: joins the results of all shards of a run, and decides their verdict as for one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holodeck_action.commands.output import Outcome, report_suite, report_together
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.written_results import RelatedFiles
from holodeck_action.record.base_results import read_base_results
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import PREVIOUS_FOLDER, Claims, is_inside, suite_folders
from holodeck_action.record.merging import MergeError, ShardResults, merge_shards
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    RESULTS_FILE,
    TABLES_FOLDER,
    VERDICT_FILE,
    BaseResults,
    read_record,
    results_path,
)
from holodeck_action.record.results_search import results_name
from holodeck_action.reports.conclusion import conclude
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import JOURNAL_FILE
from holodeck_action.run.loading import ensure_writable
from holodeck_action.run.options.request import flags_from, template_of
from holodeck_action.run.ui import Ui
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

_SuiteKey = tuple[str, str, str]
"""A suite's folder (in the shard's output, or else in the repository), its file name, and its name."""


def merge_runs(folders: Sequence[GivenPath], values: Mapping[str, Any], caller: Caller) -> int:
    """Merge the shards of a run.

    Args:
        folders: output folders of shards, or folders that contain them.
        values: the command line's values for the settings `output_dir`, `template` and `fail_on`.
        caller: environment, folder and streams of the command.

    Returns:
        The exit code of the run, adjusted by `fail_on`.

    Raises:
        ConfigurationError: the folders are not all shards of one run; nothing was written.
    """
    flags = flags_from(values)
    template, progress = template_of(flags.template), caller.progress_display()
    with Claims(caller.disk or DISK) as claims:
        ui = Ui(caller, flags, claims, progress, flags.output_dir, template)
        return flags.process_exit_code(merge_folders(folders, ui).exit_code)


def merge_folders(folders: Sequence[GivenPath], ui: Ui) -> Outcome:
    """Merge the shards of a run, and report each suite like a run without shards.

    Args:
        folders: output folders of shards, or folders that contain them.
        ui: the outputs of the merged run.

    Raises:
        ConfigurationError: the folders are not all shards of one run, or the output folder cannot be used.
    """
    found = _read_results(folders, ui.folder)
    problems: list[str] = []
    merged: list[tuple[Record, BaseResults | None]] = []
    for (_, file, _), parts in found.items():
        try:
            merged.append(merge_shards(parts))
        except MergeError as error:
            named = f"{file}: " if len(found) > 1 else ""
            problems += (f"{named}{reason}" for reason in error.reasons)
    if problems:
        raise ConfigurationError(problems)
    into = suite_folders([(folder, file) for folder, file, _ in found], ui.folder)
    for folder in (ui.folder, *into):
        if folder is not None:
            ensure_writable(folder)
            ui.claims.clear(folder)
    done = []
    for (record, base), folder in zip(merged, into, strict=True):
        terms = Terms.against(None if base is None else base.results)
        concluded = conclude(record, terms, folder=record.provenance.folder or "")
        done.append(report_suite(replace(concluded, folder=folder), ui, RelatedFiles(base), journaled=False))
    return Outcome(report_together(done, (), ui), tuple(done))


def _read_results(folders: Sequence[GivenPath], output_folder: GivenPath | None) -> dict[_SuiteKey, list[ShardResults]]:
    """Read all results below folders, by suite.

    Raises:
        ConfigurationError: there are no results, some cannot be used or would be overwritten, or a shard has not ended.
    """
    found: dict[_SuiteKey, list[ShardResults]] = {}
    problems: list[str] = []
    files = list(dict.fromkeys(file for folder in folders for file in _results_files(folder)))
    for file in files:
        if file.name == JOURNAL_FILE:
            problems.append(f"{file}: the shard has not ended; run it again with --resume")
            continue
        if is_inside(file, output_folder):
            problems.append(
                f"{file}: is in the output folder, where the merged results would replace it; give another --output-dir"
            )
            continue
        try:
            record = read_record(file)
            base = read_base_results(file, record)
        except RecordError as error:
            problems += map(str, error.problems)
            continue
        suite = (_suite_folder(file) or record.provenance.folder or "", record.suite.file, record.suite.name)
        found.setdefault(suite, []).append(ShardResults(str(file), record, base))
    if problems:
        raise ConfigurationError(problems)
    return dict(sorted(found.items()))


def _suite_folder(file: GivenPath) -> str:
    """Return a suite's folder relative to the run's output folder; empty if the run had a single suite."""
    above = file.path.parent.parent
    several = (above / VERDICT_FILE).is_file() and results_path(above) == above
    return file.path.parent.name if several else ""


def _results_files(folder: GivenPath) -> Iterator[GivenPath]:
    if folder.name == TABLES_FOLDER or (folder.path.exists() and not folder.path.is_dir()):
        yield folder
        return
    there = False
    for where, folders, names in os.walk(folder.path):
        # Results of an earlier run are stale now, and a base is not the result of this run.
        folders[:] = sorted(name for name in folders if name not in (PREVIOUS_FOLDER, BASE_FOLDER))
        name = results_name(folders, names) or (JOURNAL_FILE if JOURNAL_FILE in names else None)
        folders[:] = [each for each in folders if each != TABLES_FOLDER]
        if name is not None:
            there = True
            yield folder.written_path(os.path.join(where, name))
    if not there:
        raise ConfigurationError([f"{folder}: holds no {RESULTS_FILE}; give the output folders of all shards"])
