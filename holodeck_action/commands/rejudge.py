"""`rejudge`: grades the stored answers of a record again, by a suite's current metrics and judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holodeck_action.commands.suites import evaluate
from holodeck_action.record.folder import Claims, is_inside
from holodeck_action.record.result_files import read_results, results_path
from holodeck_action.run.caller import Caller
from holodeck_action.run.case_choice import check_bounds_attainable
from holodeck_action.run.loading import LoadedSuite, load_one_suite, with_lines
from holodeck_action.run.options.request import flags_from, template_of
from holodeck_action.run.options.settings import merge
from holodeck_action.run.preflight import collected, gate_problems
from holodeck_action.run.run import Run
from holodeck_action.run.stored import check_stored, find_stored_run
from holodeck_action.run.ui import Ui
from holodeck_action.suite.applicability import case_asserts
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem
from holodeck_action.suite.model.policy import has_score_gate
from holodeck_action.text.given_paths import GivenPath


def rejudge_record(results: GivenPath, suite: str, values: Mapping[str, Any], caller: Caller) -> int:
    """Grade the answers of a record again.

    Args:
        results: a results.json.
        suite: file, folder or glob of the suite whose metrics and judges grade; it must match one suite.
        values: the command line's values by setting name.
        caller: environment, folder and streams of the command.

    Returns:
        The exit code of the run, adjusted by `fail_on`.

    Raises:
        ConfigurationError: the record, the suite or an option cannot be used; no answer was graded.
    """
    flags = flags_from(values)
    template = template_of(flags.template)
    progress = caller.progress_display()
    caller = replace(caller, stderr=progress.stream)
    with Claims() as claims:
        try:
            with progress.phase("loading suite and results"):
                reason = "a record holds the answers of a single suite; give that suite"
                loaded = load_one_suite(suite, caller.suite_context(flags), reason, grades=True)
                prepared = [prepare_stored(results, loaded)]
            ui = Ui(caller, flags, claims, progress, flags.output_dir, template)
            done = evaluate(prepared, ui)
        except ConfigurationError:
            if not flags.dry_run and not is_inside(results, flags.output_dir):
                claims.clear(flags.output_dir)
            raise
    return flags.process_exit_code(done.exit_code)


def prepare_stored(results: GivenPath, loaded: LoadedSuite) -> Run:
    """Prepare a suite to grade the answers of a record again; the suite's target is ignored.

    Args:
        results: a results.json.
        loaded: the suite whose metrics, judges, gates and budget apply.

    Raises:
        ConfigurationError: the file is not a record, its cases differ from the suite's, no gate or metric can fail with
            these cases, a judge cannot be used, or the new record would overwrite the file.
    """
    suite, output_dir = loaded.suite, loaded.flags.output_dir
    if output_dir is not None and output_dir.real == results_path(results).parent.real:
        raise ConfigurationError(
            [f"--output-dir {output_dir}: the new record would replace {results}; give another folder"]
        )
    stored = find_stored_run(results, read_results(results), loaded)
    settings = merge(suite, loaded.flags, loaded.environ)
    problems: list[str | LocatedProblem] = []
    with collected(problems, loaded):
        check_bounds_attainable(settings, suite, stored.cases)
    if problems:
        raise ConfigurationError(with_lines(problems, [loaded]))
    if stored.cases and not has_score_gate(settings.gates) and not any(map(case_asserts, stored.cases)):
        reason = f"nothing can fail in the cases of {results}: every metric is informational or disabled"
        raise ConfigurationError([f"{loaded.place}: {reason}"])
    problems += gate_problems(loaded, settings, stored.cases)
    return check_stored(str(results_path(results)), loaded, stored, settings, problems)
