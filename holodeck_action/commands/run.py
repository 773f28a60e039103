"""`run`: evaluates suites by the options of the command line and the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from holodeck_action.commands.last_run import choose_results_folder, results_or_last
from holodeck_action.commands.output import clear_suite_folders
from holodeck_action.commands.suites import evaluate
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims, combined_suites
from holodeck_action.record.result_files import results_path
from holodeck_action.reports.terminal.progress import QuietProgress
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.options.input_values import anchor_paths, output_dir_of, read_inputs
from holodeck_action.run.options.request import failed_cases, flags_from, template_of
from holodeck_action.run.preflight import load_runs
from holodeck_action.run.ui import Ui
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


def run_suites(values: Mapping[str, Any], caller: Caller) -> int:
    """Run suites.

    Args:
        values: the command line's values by setting name; they override inputs.
        caller: environment, folder and streams of the command.

    Returns:
        The exit code of the run, adjusted by `fail_on`.

    Raises:
        ConfigurationError: the flags, a suite or its target cannot be used; nothing was run.
    """
    progress = QuietProgress(caller.stderr) if values["quiet"] else caller.progress_display()
    caller = replace(caller, stderr=progress.stream)
    with Claims(caller.disk or DISK) as claims:
        flags = _read_flags(values, caller, claims)
        template = template_of(flags.template)
        context = caller.suite_context(flags)

        def clear(suites: Sequence[Path]) -> None:
            if not flags.dry_run:
                clear_suite_folders(claims, flags.output_dir, suites, caller.cwd)

        with progress.phase("loading suites"):
            context = context.with_conversations()
            prepared = load_runs(context, clear)
        ui, kept = Ui(caller, flags, claims, progress, flags.output_dir, template), ""
        if ui.folder is None and not flags.dry_run:
            folder, kept = choose_results_folder(caller, claims)
            ui = structs.replace(ui, folder=folder, reports=False)
        done = evaluate(prepared, ui)
        if kept and not flags.quiet:
            ui.note(kept)
    return flags.process_exit_code(done.exit_code)


def _read_flags(values: Mapping[str, Any], caller: Caller, claims: Claims) -> Flags:
    """Return the options; remove earlier results from the output folder, even if ConfigurationError is raised."""
    try:
        # `--failed-from` may read results in the output folder.
        flags = flags_from(values, anchor_paths(read_inputs(caller.environ), caller.cwd))
        if flags.last_failed:
            flags = replace(flags, failed_from=_last_failed(flags, caller))
    except ConfigurationError:
        if not values["dry_run"]:
            claims.clear(values["output_dir"] or output_dir_of(caller.environ, caller.cwd))
        raise
    if not flags.dry_run:
        claims.clear(flags.output_dir)
    return flags


def _last_failed(flags: Flags, caller: Caller) -> frozenset[str] | None:
    """Return the ids of the cases that did not pass in the last run; None if all passed, or if there was no run."""
    folder = flags.output_dir or GivenPath(LAST_RESULTS.parent, caller.cwd)
    if results_path(folder) == folder and not combined_suites(folder):
        return None
    return failed_cases(results_or_last(flags.output_dir, caller)) or None
