"""`compare --judge`: a judge compares the answers of two stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from msgspec.structs import replace

from holodeck_action.commands.compare import ComparedRun, compare_results, compare_runs, read_runs
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import Results, results_path
from holodeck_action.run.caller import Caller
from holodeck_action.run.judge_probes import probe_judges
from holodeck_action.run.loading import SuiteContext, load_one_suite, with_lines
from holodeck_action.run.open_suites import open_suites
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.flags import MODEL_CALLS, SETTINGS
from holodeck_action.run.options.request import flags_from, is_given
from holodeck_action.run.options.settings import merge
from holodeck_action.run.preflight import model_problems
from holodeck_action.run.run import Run
from holodeck_action.run.schedule import Stop
from holodeck_action.run.signals import stop_on_signals
from holodeck_action.run.stored import find_stored_run, stored_suite
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import compares_answers
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.given_paths import GivenPath

JUDGING = (*MODEL_CALLS, "max-cost-usd", "max-tokens")
"""Names of the options that only `--judge` uses."""


def compare_with(
    base: GivenPath, head: GivenPath | None, judge: str | None, values: Mapping[str, Any], caller: Caller
) -> int:
    """Compare two runs; with a judge, also their answers, side by side.

    Args:
        base: see `compare_runs`.
        head: see `compare_runs`.
        judge: file, folder or glob of the suite whose `preference` metrics and judges apply; None to use no judge.
        values: the command line's values by setting name.
        caller: environment, folder and streams of the command.

    Returns:
        The exit code of the comparison; 0 after `--dry-run`.

    Raises:
        ConfigurationError: the suite has no such metric or does not have the head's cases, a judge cannot be used, no
            extension compares answers, or options contradict each other or have no effect; no judge was asked.
    """
    if judge is None:
        settings = {name: SETTINGS[name].setting for name in JUDGING}
        useless = [name for name, setting in settings.items() if is_given(setting, values.get(setting))]
        if useless:
            raise ConfigurationError([f"--{useless[0]} has no effect without --judge; leave it out, or give --judge"])
        return compare_runs(base, head, flags_from(values), caller).exit_code
    if registry.pairs() is None:
        raise ConfigurationError([f"--judge {registry.unknown_phrase()}"])
    flags = flags_from(values)
    before, after = read_runs(base, head, flags, caller)
    judged = _judge_answers(judge, before.results.record, after, flags, caller)
    if judged is None:
        return ExitCode.PASSED
    results = replace(after.results, record=judged)
    return compare_results(before, replace(after, results=results), flags, caller).exit_code


def _judge_answers(judge: str, base: Record, head: ComparedRun, flags: Flags, caller: Caller) -> Record | None:
    """Return the head's record with the judge's verdicts; None after `--dry-run`."""
    from holodeck_action.run.plan import plan_lines

    # The gates are those of the comparison.
    item = _prepare(judge, head.place, head.results, caller.suite_context(flags))
    (ready,) = open_suites([item])
    plan = "".join(f"{line}\n" for line in plan_lines([[item]]))
    if flags.dry_run:
        asyncio.run(ready.close())
        caller.stdout.write(plan)
        return None
    if item.settings.calls.mode != "replay":
        caller.stderr.write(plan)
    caller.note(*(ready.redactor.text(notice) for notice in item.suite.notices))
    return asyncio.run(_judge(ready, base, head.results.record, caller))


def _prepare(judge: str, path: GivenPath, head: Results, context: SuiteContext) -> Run:
    """Return the suite with the head's cases and answers, and only the metrics that compare answers."""
    loaded = load_one_suite(judge, context, "a record holds the answers of a single suite; give that suite")
    stored = find_stored_run(path, head, loaded)
    stored = replace(stored, cases=tuple(map(_only_pairs, stored.cases)))
    if not any(map(compares_answers, stored.cases)):
        raise ConfigurationError(
            [f"--judge {judge}: no case of {path} has a metric that compares answers; add one of type preference"]
        )
    settings = replace(merge(loaded.suite, context.flags, loaded.environ), compared=True)
    run = stored_suite(str(results_path(path)), loaded, stored, settings)
    problems = [*model_problems(run)]
    if problems:
        raise ConfigurationError(with_lines(problems, [loaded]))
    return run


def _only_pairs(case: Case) -> Case:
    *earlier, last = case.turns
    metrics = tuple(spec for spec in last.metrics if spec.config.OF_PAIR)
    return replace(case, turns=(*(replace(turn, metrics=()) for turn in earlier), replace(last, metrics=metrics)))


async def _judge(open_suite: Run, base: Record, head: Record, caller: Caller) -> Record:
    pairs = registry.pairs()
    assert pairs is not None
    stop = Stop()
    try:
        with ExitStack() as scope:
            scope.enter_context(stop_on_signals(stop, None, "", caller.signals))
            for budget in open_suite.resources.budgets:
                scope.enter_context(budget.notify_refusal(stop.drain))
            open_suite = await probe_judges(open_suite, {}, open_suite.resources.target_pool, stop)
            judged: Record = await registry.resolve(pairs.judge)(open_suite, head, base, stop)
    finally:
        await open_suite.close()
    wire = open_suite.resources.wire
    for notice in (*(() if wire is None else wire.notices), *open_suite.exams.notices):
        caller.note(open_suite.redactor.text(notice))
    if stop.reason is not None:
        caller.note(f"not all answers were compared: {stop.reason}")
    return judged
