"""Implements `optimize`: reads the axes of a suite, finds better values, and can write them into agent.yaml."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.race.axes import read_axes
from holodeck_action.extensions.race.descent import Descent, Plan
from holodeck_action.extensions.race.edits import EditError, diff_lines, edit_scalars, replace_file
from holodeck_action.extensions.race.optimization import Optimization, console_lines
from holodeck_action.extensions.race.preparing import raced_suite
from holodeck_action.extensions.race.variants import Value
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.formats import write_reports
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import LoadedSuite, ensure_writable, load_one_suite
from holodeck_action.run.options.request import flags_from
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.suite.yaml.variables import is_ci
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.given_paths import GivenPath

OPTIMIZATION_FILE = "optimize.json"
DEFAULT_FOLDER = Path("holodeck-optimize")
LEAST_CASES = 60
HELD_OUT_SHARE = 0.3


def optimize_suite(given: Mapping[str, Any], caller: Caller) -> int:
    """Optimize the numeric axes of a suite.

    Args:
        given: the command line's values by option.
        caller: environment, folder and streams of the command.

    Returns:
        The exit code: 0 if the optimization is decided; 1 if values are to be applied, but no gain is shown; 2 if
        agent.yaml was changed meanwhile; 3 if values are unknown or files cannot be written; 4 if it ended early.

    Raises:
        ConfigurationError: a file, an option, an axis or the suite cannot be used; nothing was run.
    """
    if given["apply"] and (is_ci(caller.environ) or caller.environ.get("GITHUB_ACTIONS") == "true"):
        raise ConfigurationError(
            [
                "--apply changes agent.yaml and is refused in CI; leave it out, and write the values that "
                f"{OPTIMIZATION_FILE} names into agent.yaml on your own machine"
            ]
        )
    progress = caller.progress_display()
    caller = replace(caller, stderr=progress.stream)
    folder = given["output_dir"] or GivenPath(DEFAULT_FOLDER, caller.cwd)
    flags = flags_from({**given, "output_dir": folder, "suites": (given["suite"] or "agent.yaml",)})
    disk = caller.disk or DISK
    with Claims(disk) as claims, asyncio.Runner() as runner:
        with progress.phase("loading the suite"):
            reason = "an optimization needs a single suite; give one path"
            loaded = load_one_suite(flags.suites[0], caller.suite_context(flags), reason, grades=True)
            content = Checkout.unbounded(loaded.suite.folder).read(loaded.suite.file, MOST_YAML)
            plan = _prepare(loaded, content, given)
            if given["apply"]:
                _check_edits(plan, content)
            descent = Descent(plan, folder, claims, caller, runner)
        try:
            if flags.dry_run:
                caller.stdout.writelines(f"{line}\n" for line in descent.plan_lines())
                caller.stdout.flush()
                return ExitCode.PASSED
            ensure_writable(folder)
            claims.clear(folder)
            disk.remove((folder / OPTIMIZATION_FILE).path)
            with progress.phase(f"optimizing {count_phrase(len(plan.axes), 'setting')}"):
                found, values = descent.run()
                write_reports(folder, {OPTIMIZATION_FILE: lambda: [to_json(found, 1), b"\n"]}, caller.note, disk)
                if found.outcome != "undecided":
                    descent.remove_journals()
        except OSError as error:
            caller.stderr.write(
                f"error: {folder}: results could not be written: {error.strerror}; --resume repeats no call\n"
            )
            return ExitCode.INCOMPLETE
        finally:
            runner.run(descent.host.close())
    caller.stdout.writelines(f"{line}\n" for line in console_lines(found))
    caller.stdout.flush()
    return _apply(found, values, plan, content, caller) if given["apply"] else found.exit_code


def _prepare(loaded: LoadedSuite, content: Foreign, given: Mapping[str, Any]) -> Plan:
    """Return the plan of an optimization, after checking that all values can be used.

    Raises:
        ConfigurationError: the suite, an axis, a value or the objective cannot be used, or there are too few cases.
    """
    suite = loaded.suite
    evaluations = suite.agent.evaluations
    optimizer = None if evaluations is None else evaluations.optimizer
    weights, place = {} if optimizer is None else optimizer.loss, "evaluations.optimizer.loss"
    if given["objective"] is not None:
        weights, place = {given["objective"]: 1.0}, "--objective"
    raced = raced_suite(loaded, weights, place)
    if optimizer is None:
        raise ConfigurationError(
            [f"{raced.head.place}: evaluations.optimizer is missing; name the settings to vary, or use race --vary"]
        )
    document = read_yaml(content, file=suite.file, environ=loaded.environ)
    axes = read_axes(loaded, optimizer, document, raced.head.display_folder, given["axis"], given["numeric_max_trials"])
    cases = raced.head.cases
    if len(cases) < LEAST_CASES:
        raise ConfigurationError(
            [
                f"{raced.head.place}: an optimization needs at least {LEAST_CASES} cases that count, of which "
                f"{HELD_OUT_SHARE:.0%} are held out to measure the gain, and there are {len(cases)}; add cases, or "
                "compare values with holodeck-action race --vary"
            ]
        )
    # One deadline holds for all races.
    settings, limit = raced.head.settings, loaded.flags.run_timeout_s or raced.head.settings.run_timeout_s
    raced = structs.replace(
        raced,
        loaded=loaded.with_flags(run_timeout_s=limit),
        head=structs.replace(raced.head, settings=structs.replace(settings, run_timeout_s=None)),
    )
    seed = optimizer.seed if given["seed"] is None else given["seed"]
    held_out = _hold_out(cases, seed)
    plan = Plan(
        raced,
        axes,
        [case for case in cases if case.id not in held_out],
        [case for case in cases if case.id in held_out],
        given["max_cycles"] or optimizer.max_cycles,
        optimizer.min_delta,
        seed,
    )
    for axis in axes:
        plan.race(axis, {})
    return plan


def _hold_out(cases: Sequence[Case], seed: int) -> frozenset[str]:
    """Return the ids of a random 30 % of the cases; they depend on the seed, but not on the order of the cases."""
    ranked = sorted(cases, key=lambda case: hashlib.sha256(f"held out {seed} {case.id}".encode()).digest())
    return frozenset(case.id for case in ranked[: round(HELD_OUT_SHARE * len(cases))])


def _check_edits(plan: Plan, content: Foreign) -> None:
    """Check that the settings can be changed in agent.yaml.

    Raises:
        ConfigurationError: a setting cannot be changed.
    """
    try:
        edit_scalars(content, {axis.place: axis.values[0] for axis in plan.axes})
    except EditError as error:
        raise ConfigurationError([f"--apply: {plan.suite.head.place} {error}"]) from error


def _apply(
    optimization: Optimization, values: Mapping[str, Value], plan: Plan, content: Foreign, caller: Caller
) -> int:
    """Write better values into agent.yaml, and print the difference; return the exit code."""
    place, suite = plan.suite.head.place, plan.suite.loaded.suite
    if optimization.outcome != "improved":
        why = "there is no better value" if optimization.outcome == "unchanged" else optimization.reason
        caller.note(f"--apply: {place} stays as it is: {why}")
        return ExitCode.VIOLATED if optimization.outcome == "not_shown" else optimization.exit_code
    try:
        changed = edit_scalars(content, {axis.place: values[axis.key] for axis in plan.axes if axis.key in values})
        replace_file(suite.folder / suite.file, content, changed, caller.disk or DISK)
    except EditError as error:
        caller.stderr.write(f"error: --apply: {place} {error}; change it yourself\n")
        return ExitCode.CONFIGURATION
    except OSError as error:
        caller.stderr.write(f"error: --apply: {place} could not be written: {error.strerror}; change it yourself\n")
        return ExitCode.INCOMPLETE
    caller.stdout.writelines(f"{plan.suite.head.redactor.text(line)}\n" for line in diff_lines(content, changed, place))
    caller.stdout.flush()
    return optimization.exit_code
