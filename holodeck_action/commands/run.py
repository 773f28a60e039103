"""`run`: suites evaluated as the command line and the inputs say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from holodeck_action.commands.last_run import place_for_results
from holodeck_action.commands.output import Output, set_aside_earlier
from holodeck_action.commands.suites import evaluate
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_suites
from holodeck_action.run.options.action_inputs import anchored, output_dir_of, read_inputs
from holodeck_action.run.preflight import prepare
from holodeck_action.run.request import Request, request_from, template_of
from holodeck_action.suite.configuration_errors import ConfigurationError


def run_suites(given: Mapping[str, Any], caller: Caller) -> int:
    """Run suites.

    Args:
        given: value by setting of the command line, which wins over inputs.
        caller: the outside world.

    Returns:
        The exit code of the run, as `fail_on` wants it.

    Raises:
        ConfigurationError: nothing was run.
    """
    progress = caller.following()
    caller = replace(caller, stderr=progress.stream)
    with Claims(caller.disk or DISK) as claims:
        request = _request(given, caller, claims)
        template = template_of(request.template)
        around = caller.surroundings(request.env_file, request.allowed, request.requirements)

        def found(suites: Sequence[Path]) -> None:
            if not request.dry_run:
                set_aside_earlier(claims, request.output_dir, suites, caller.cwd)

        with progress.phase("loading suites"):
            loaded = load_suites(request.suites, around, allow_empty=request.allow_empty, found=found)
            prepared = prepare(loaded, request.flags, around)
        output, kept = Output.of(caller, request, template, progress), ""
        if output.folder is None and not request.dry_run:
            folder, kept = place_for_results(caller, claims)
            output = structs.replace(output, folder=folder, reports=False)
        with caller.job() as job:
            done = evaluate(prepared, request, output, claims, around, job)
        if kept:
            output.note(kept)
    return request.process_exit_code(done.exit_code)


def _request(given: Mapping[str, Any], caller: Caller, claims: Claims) -> Request:
    """Return what is asked for; what an earlier run left is no result of this one, even where it cannot be run."""
    try:
        # It may read results that stand in the output folder.
        request = request_from(given, anchored(read_inputs(caller.environ), caller.cwd))
    except ConfigurationError:
        if not given["dry_run"]:
            claims.clear(given["output_dir"] or output_dir_of(caller.environ, caller.cwd))
        raise
    if not request.dry_run:
        claims.clear(request.output_dir)
    return request
