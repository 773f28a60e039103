"""Checks of suites before the first case runs; all errors of all suites are reported at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from holodeck_action.record.agent_errors import TargetError
from holodeck_action.run.case_choice import check_bounds_attainable, choose_cases, unmatched_filters
from holodeck_action.run.concurrency import with_growth
from holodeck_action.run.conditions import unreported_tools_notices
from holodeck_action.run.loading import (
    LoadedSuite,
    SuiteContext,
    check_callables,
    is_not_utf8,
    load_suites,
    with_lines,
    with_python,
)
from holodeck_action.run.model_calls import model_environment
from holodeck_action.run.options.settings import Settings, SettingsError, baseline_problem, gates_problem, merge
from holodeck_action.run.run import Run
from holodeck_action.run.shards import choose_part, parse_shard
from holodeck_action.run.stages import stages_of
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.model.policy import Gates, active_gates
from holodeck_action.suite.model.targets import (
    OWN_MODEL,
    AnyTarget,
    CallableTarget,
    PythonTarget,
    WrittenTarget,
    parse_target,
)
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import build_agent, describe_target
from holodeck_action.targets.protocol import Agent

REFUSED = "a run would be refused here: "
"""The beginning of a note about a missing requirement."""


def load_runs(context: SuiteContext, on_found: Callable[[Sequence[Path]], None]) -> tuple[Run, ...]:
    """Load the suites that the options name, and determine settings, cases and target of every suite.

    Raises:
        ConfigurationError: suites have problems; the error lists those of all suites.
    """
    return prepare_suites(load_suites(context.flags.suites, context, on_found=on_found, grades=True))


def prepare_suites(suites: Sequence[LoadedSuite]) -> tuple[Run, ...]:
    """Determine settings, cases and target of every suite.

    Raises:
        ConfigurationError: suites have problems; the error lists those of all suites.
    """
    prepared: list[Run] = []
    flags, environ = suites[0].flags, suites[0].context.environ
    lines: list[str | LocatedProblem] = [*unmatched_filters([loaded.suite for loaded in suites], flags)]
    stages = stages_of([loaded.suite for loaded in suites], flags)
    with collected(lines, suites[0]):
        shard = None if flags.shard is None else parse_shard(flags.shard, environ)
    for loaded in suites if not lines else ():
        with collected(lines, loaded):
            cases = choose_cases(loaded.suite, flags)
            settings = merge(loaded.suite, flags, loaded.environ)
            check_bounds_attainable(settings, loaded.suite, cases)
            equipped, target, files = with_target(loaded)
            part = None if shard is None else choose_part(cases, *shard, None)
            run = Run(
                **structs.asdict(equipped),
                settings=settings,
                cases=cases,
                target=target,
                target_files=files,
                part=part,
            )
            lines += metric_class_problems(run)
            lines += gate_problems(run, settings, cases)
            lines += model_problems(run)
            run = structs.replace(run, settings=with_growth(run))
            lines += _unmergeable_settings(run)
            lines += (each for stage in stages for each in stage.check(run.staged))
            prepared.append(run)
    if lines:
        raise ConfigurationError(with_lines(lines, suites, environ))
    return tuple(prepared)


@contextmanager
def collected(lines: list[str | LocatedProblem], loaded: LoadedSuite) -> Iterator[None]:
    """Add the problems of a suite for which the block ends early to `lines`."""
    try:
        yield
    except SettingsError as error:
        setting = error.setting or ""
        lines.append(loaded.problem(str(error), loaded.suite.gate_marks.get(setting), setting))
    except TargetError as error:
        lines += loaded.target_problems(error)
    except ConfigurationError as error:
        lines += error.problems


def with_target(loaded: LoadedSuite) -> tuple[LoadedSuite, AnyTarget, Checkout]:
    """Return a suite with the Python of its project, its target, and the files that the target may read.

    Raises:
        TargetError: the target cannot be used.
        ConfigurationError: the project's Python cannot be used.
    """
    target, files = target_of(loaded)
    equipped = with_python(loaded, target)
    check_python_target(equipped, target)
    return equipped, target, files


def _unmergeable_settings(run: Run) -> Iterator[str | LocatedProblem]:
    """Yield a problem for each setting that cannot be used with shards, because `merge` runs no code and reads no
    cards."""
    if run.part is None:
        return
    summary = run.settings.gates.summary
    if summary is not None and summary.function is not None:
        message = (
            "--shard cannot be combined with method custom, because merge runs no code of the suite; use "
            "weighted_average"
        )
        yield run.problem(message, run.suite.gate_marks.get("gates.summary"), "gates.summary")
    if run.cards:
        message = (
            "--shard cannot be combined with judge cards, which correct the rates of whole runs; leave out judges.cards"
        )
        yield run.problem(message, run.suite.card_marks[0], "judges.cards")


def check_targets(suites: Sequence[LoadedSuite]) -> tuple[tuple[str, ...], ...]:
    """Check each suite's target (the one in the policy file, else the suite's own model) and the judges of its metrics.

    Returns:
        Notes for each suite: data that cases need but the target does not report, and requirements of a run that are
        missing here, such as an API key.

    Raises:
        ConfigurationError: suites have problems; the error lists those of all suites.
    """
    lines: list[str | LocatedProblem] = []
    notes: list[tuple[str, ...]] = []
    for loaded in suites:
        suite, target = loaded.suite, loaded.suite.policy.target
        settings = merge(suite, loaded.flags, loaded.environ)
        silence: tuple[str, ...] = ()
        reasons: tuple[str, ...] = ()
        with collected(lines, loaded):
            equipped = with_python(loaded, target)
            if target is None:
                reasons = _check_own_model(equipped)
            else:
                silence, unreported = asyncio.run(_try_target(loaded, target))
                lines += unreported
                check_python_target(equipped, target)
        lines += gate_problems(loaded, settings, suite.cases)
        unusable, missing = _check_models(suite, loaded.environ)
        lines += map(loaded.located, unusable)
        without_base = baseline_problem(settings.baseline, settings.gates, compared=settings.compared)
        reasons += () if without_base is None else (" ".join(without_base),)
        # If the suite's own model is also a judge, what it lacks is reported once.
        lacking = [str(loaded.located(each)) for each in missing]
        reasons += tuple(each for each in lacking if not any(reason in each for reason in reasons))
        refused = (f"{REFUSED}{reason}" for reason in reasons)
        notes.append(tuple(map(loaded.redactor.text, (*silence, *refused))))
    if lines:
        raise ConfigurationError(with_lines(lines, suites))
    return tuple(notes)


def gate_problems(loaded: LoadedSuite, settings: Settings, cases: Sequence[Case]) -> list[str | LocatedProblem]:
    """Return a list with a problem if no gate can fail with these cases; else an empty list."""
    problem = gates_problem(settings, loaded.flags, loaded.suite, cases)
    if problem is None:
        return []
    return [loaded.problem(str(problem)) if problem.mark is None else loaded.located(problem)]


def target_of(loaded: LoadedSuite) -> tuple[AnyTarget, Checkout]:
    """Return the target of a suite, and the files that the target may read, with the base folder of relative paths.

    Raises:
        TargetError: the target cannot be used.
    """
    suite, context, written = loaded.suite, loaded.context, loaded.flags.target
    if isinstance(written, CallableTarget):
        return written, suite.checkout
    # With --against-target, the base has another target.
    if context.conversations is not None and f"{written}".startswith(f"{context.conversations.target.name}:"):
        return context.conversations.target, Checkout.unbounded(context.cwd)
    if written == OWN_MODEL or (written is None and suite.policy.target is None):
        from holodeck_action.targets.own_model.own_agent import own_target

        return own_target(suite), suite.checkout
    if written is not None:
        if is_not_utf8(written):
            raise TargetError("--target is not UTF-8 text; rename what it names")
        try:
            return parse_target(written), Checkout.unbounded(context.cwd)
        except ValueError as error:
            raise TargetError(f"--target: {error}, or {OWN_MODEL} for the suite's own") from error
    assert suite.policy.target is not None
    return suite.policy.target, suite.checkout


async def _try_target(loaded: LoadedSuite, target: WrittenTarget) -> tuple[tuple[str, ...], list[str | LocatedProblem]]:
    """Build the agent and close it; return notices and problems about data that it does not report."""
    suite, redact = loaded.suite, loaded.redactor.text
    agent = build_agent(
        suite,
        target,
        checkout=suite.checkout,
        environ=loaded.environ,
        max_bytes=suite.policy.limits.max_response_bytes,
        code=loaded.code,
        pool=loaded.worker_pool(1, redact),
        redact=redact,
    )
    await agent.close()
    problems = list(unreported_gates(loaded, suite.policy.gates, agent, target))
    return tuple(unreported_tools_notices(agent, suite.cases)), problems


def unreported_gates(
    loaded: LoadedSuite, gates: Gates, agent: Agent, target: AnyTarget
) -> Iterator[str | LocatedProblem]:
    """Yield a problem for each gate that depends on data that the target does not report, and so could never pass."""
    for name, gate, _ in active_gates(gates):
        reason = None if gate.reported is None else agent.unreported.get(gate.reported)
        if reason is not None:
            message = (
                f"gates.{name} cannot be judged: {describe_target(target)} does not report what the gate depends "
                f"on: {reason}; give it with every reply, or remove the gate"
            )
            yield loaded.problem(message, loaded.suite.gate_marks.get(f"gates.{name}"), f"gates.{name}")


def check_python_target(loaded: LoadedSuite, target: AnyTarget) -> None:
    """Import a Python target in a worker process, to find defects before the cases run; ignore other targets.

    Raises:
        TargetError: the target cannot be called.
    """
    if not isinstance(target, PythonTarget):
        return
    problem = asyncio.run(
        check_callables(loaded, [target.worker_reference], spans=bool(loaded.suite.policy.spans))
    ).get(target.worker_reference)
    if problem is not None:
        raise TargetError(problem)


def metric_class_problems(loaded: LoadedSuite) -> list[str | LocatedProblem]:
    """Import a suite's own metric classes in a worker process; return a problem for each that cannot be imported."""
    classes = loaded.suite.metric_classes
    wrong = asyncio.run(check_callables(loaded, classes)) if classes else {}
    return [loaded.located(Problem(classes[reference], "metric", message)) for reference, message in wrong.items()]


def _check_own_model(loaded: LoadedSuite) -> tuple[str, ...]:
    """Check the suite's own model; return reasons why a run would be refused here, such as a missing API key."""
    from holodeck_action.targets.own_model.own_agent import check_own_agent

    return check_own_agent(loaded.suite, loaded.environ, loaded.code, loaded.redactor, loaded.interpreter)


def model_problems(run: Run) -> Iterator[str | LocatedProblem]:
    """Yield a problem for each metric whose judge is not configured or whose package is not installed, and for each
    case whose simulated user's model is not configured."""
    metrics = judged_metrics(run.cases) | library_metrics(run.cases)
    if metrics:
        from holodeck_action.scoring.judges import unusable_judges

        yield from map(run.located, unusable_judges(run.suite, metrics, model_environment(run)))
    # Users whose messages are stored say nothing more.
    if run.stored is None and any(case.simulation is not None for case in run.cases):
        yield from map(run.located, _unusable_users(run.cases, model_environment(run)))


def _unusable_users(cases: Sequence[Case], environ: Mapping[str, str]) -> list[Problem]:
    found, simulated = registry.users(), [case for case in cases if case.simulation is not None]
    return [] if found is None or not simulated else [*registry.resolve(found.problems)(simulated, environ)]


def _check_models(suite: Suite, environ: Mapping[str, str]) -> tuple[list[Problem], list[Problem]]:
    """Return the problems of a suite's judges and simulated users, and those of packages and API keys that are missing
    here."""
    metrics = judged_metrics(suite.cases) | library_metrics(suite.cases)
    wrong: list[Problem] = []
    lacking: list[Problem] = []
    if metrics:
        from holodeck_action.scoring.judges import check_judges

        wrong, lacking = check_judges(suite, metrics, environ)
    if any(case.simulation is not None for case in suite.cases):
        from holodeck_action.llm.providers import KeylessEnvironment

        unusable = _unusable_users(suite.cases, KeylessEnvironment(environ))
        missing = () if unusable else reversed(_unusable_users(suite.cases, environ))
        wrong, lacking = [*wrong, *unusable], [*lacking, *{problem.message: problem for problem in missing}.values()]
    return wrong, lacking
