"""`validate`: checks suites and everything that they refer to, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.decide.certainty import gates_by_end
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.run.caller import Caller
from holodeck_action.run.environments.extra_needs import describe_needs
from holodeck_action.run.environments.extras import needed_extras
from holodeck_action.run.loading import load_suites
from holodeck_action.run.options.request import flags_from
from holodeck_action.run.preflight import check_targets
from holodeck_action.suite.model.policy import Policy, fails_on_loss
from holodeck_action.suite.yaml.garbage_collection import pause_garbage_collection
from holodeck_action.text.plain import one_line

_MAX_LINE = 1000
"""Maximum characters of a path or sentence in a printed line."""


def validate_suites(values: Mapping[str, Any], caller: Caller) -> int:
    """Check suites, and print notes about requirements of a run that are missing here, such as API keys.

    Args:
        values: the command line's values by setting name.
        caller: gets a line for each suite on standard output, and notes on standard error.

    Raises:
        ConfigurationError: suites are invalid; the error lists the problems of all of them.
    """
    flags = flags_from(values)
    context = caller.suite_context(flags)
    # All cases stay in memory until they are checked.
    with pause_garbage_collection():
        suites = load_suites(flags.suites, context)
        missing = check_targets(suites)
    for loaded, notes in zip(suites, missing, strict=True):
        suite = loaded.suite
        place = one_line(loaded.place, _MAX_LINE)
        turns = sum(len(case.turns) for case in suite.cases)
        caller.stdout.write(
            f"{place}: valid: {count_phrase(len(suite.cases), 'case')}, {count_phrase(turns, 'turn')}\n"
        )
        if needs := needed_extras(suite, loaded.environ):
            caller.stdout.write(f"{place}: {one_line(loaded.redactor.text(describe_needs(needs)), _MAX_LINE)}\n")
        if suite.policy.stop == "certain":
            caller.stdout.write(f"{place}: {one_line(early_end_text(suite.policy), _MAX_LINE)}\n")
        for notice in (*suite.notices, *notes):
            caller.note(loaded.redactor.text(notice))
    return ExitCode.PASSED


def early_end_text(policy: Policy) -> str:
    """Return which gates of a suite can end its runs early with `stop: certain`, as a sentence."""
    compared = policy.baseline.source is not None and fails_on_loss(policy.baseline)
    early, late = gates_by_end(policy.gates, compared=compared)
    named = " or ".join(early)
    red = f"a certain violation of {named} ends a run early" if early else "no violation ends a run early"
    waiting = f"; {' and '.join(late)} can be judged only after the last case" if late else ""
    return f"stop: certain: {red}{waiting}; a run that passes ends early at most before its quarantined cases"
