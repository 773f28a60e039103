"""Implements `doctor`: collects the findings, redacts them, and prints them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.doctor.installation import examine_installation
from holodeck_action.extensions.doctor.job import examine_job
from holodeck_action.extensions.doctor.suites import examine_suites
from holodeck_action.github.job import event_permission
from holodeck_action.record.serialization import to_json
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import LoadedSuite, redactor_of_loaded
from holodeck_action.run.options.request import flags_from
from holodeck_action.text.plain import one_line

_MAX_LINE = 2000
"""Maximum characters of a printed line."""


def examine(values: Mapping[str, Any], caller: Caller) -> int:
    """Print the findings about installation, job and suites; return 2 if a suite cannot run here, else 0.

    Args:
        values: `online`, `as_json`, and the command line's values by setting name.
        caller: gets the findings on standard output.
    """
    flags = flags_from(values)
    judge = partial(event_permission, caller.environ, accepted=flags.allow_unsafe_forks)
    offline = None if values["online"] else judge
    context = caller.suite_context(flags, offline)
    findings = [*examine_installation(caller.environ), *examine_job(caller, online=values["online"])]
    loaded: list[LoadedSuite] = []
    for pattern in values["suites"]:
        suites, found = examine_suites(pattern, context, online=values["online"])
        loaded += suites
        findings += found
    findings = redactor_of_loaded(loaded, caller.environ).value(findings)
    runnable = all(finding.state != "problem" for finding in findings)
    if values["as_json"]:
        caller.stdout.write(to_json({"runnable": runnable, "findings": findings}, indent=2).decode() + "\n")
    else:
        before = ""
        for finding in findings:
            if finding.about != before:
                caller.stdout.write(("\n" if before else "") + f"{one_line(finding.about, _MAX_LINE)}\n")
                before = finding.about
            text = one_line(f"{finding.subject}: {finding.text}", _MAX_LINE)
            caller.stdout.write(f"  {finding.state:<8} {text}\n")
    return ExitCode.PASSED if runnable else ExitCode.CONFIGURATION
