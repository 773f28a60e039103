"""A record judged again, without running anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TextIO

from holodeck_action.prepare.preflight import writable_folder
from holodeck_action.prepare.settings import Flags, merge_gates
from holodeck_action.reports.console import show
from holodeck_action.results.decision import decide, minimized_in
from holodeck_action.results.folder import Claims
from holodeck_action.results.record import Record
from holodeck_action.results.report_building import build_report
from holodeck_action.results.result_files import VERDICT_FILE, RecordError, Results, read_results, write_verdict
from holodeck_action.suite.checks import wrong_bounds
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.policy import GatedCases, Gates, unable_to_fail
from holodeck_action.text.given_paths import GivenPath


def redecide(results: GivenPath, gates: Gates | None, flags: Flags, folder: GivenPath | None, stdout: TextIO) -> int:
    """Judge a results file.

    Args:
        results: a results.json.
        gates: gates to apply; None for those the run was made with.
        flags: gates of the command line, which win.
        folder: where verdict.json is written; None for nowhere.
        stdout: where the report goes.

    Returns:
        The exit code (docs/results.md).

    Raises:
        ConfigurationError: the file is no record, a gate names a metric it does not have, or the folder cannot be
            written.
        FolderError: a run writes into the folder.
    """
    try:
        stored = read_results(results)
    except RecordError as error:
        raise ConfigurationError([str(error)]) from error
    record = stored.record
    applied = merge_gates(gates if gates is not None else record.gates, flags)
    _check_names(record, applied, results)
    _check_gates(record, applied, results)
    with Claims() as claims:
        if folder is not None:
            writable_folder(folder)
            claims.hold(folder)
        return _judge(stored, applied, folder, stdout)


def _judge(stored: Results, gates: Gates, folder: GivenPath | None, stdout: TextIO) -> int:
    record = stored.record
    verdict = replace(decide(record, gates), results_digest=stored.digest)
    show(build_report(record, verdict), stdout)
    if folder is not None:
        try:
            write_verdict(folder.path / VERDICT_FILE, verdict)
        except OSError as error:
            raise ConfigurationError([f"{folder / VERDICT_FILE}: cannot be written: {error.strerror}"]) from error
    return verdict.exit_code


def _check_gates(record: Record, gates: Gates, results: GivenPath) -> None:
    """Refuse gates of which none can fail in the cases of the record."""
    cases = record.cases
    found = GatedCases(len(cases), sum(case.asserting for case in cases), sum(case.repeat > 1 for case in cases))
    reason = unable_to_fail(gates, found) if cases else None
    if reason is not None:
        raise ConfigurationError([f"{results}: {reason}"])


def _check_names(record: Record, gates: Gates, results: GivenPath) -> None:
    """Refuse gates on metrics that the record does not know: they could never be reached."""
    known = {evaluation.evaluator_name for evaluation in record.evaluations}
    asked = {*gates.metrics, *((gates.summary.weights if gates.summary else None) or {})}
    minimized = minimized_in(record)
    wrong = [
        f"{results}: gates.metrics.{name}.{key}: {problem}"
        for name, bounds in sorted(gates.metrics.items())
        if name in known
        for key, problem in wrong_bounds(name, bounds, low_is_good=name in minimized)
    ]
    if wrong:
        raise ConfigurationError(wrong)
    unknown = sorted(asked - known)
    if unknown and known:
        raise ConfigurationError(
            [f"{results}: no metric is called {name!r} (there are: {', '.join(sorted(known))})" for name in unknown]
        )
