"""Checks of suites before the first case runs; all errors of all suites are reported at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from holodeck_action.record.agent_errors import TargetError
from holodeck_action.run.case_choice import check_bounds_attainable, choose_cases, unmatched_filters
from holodeck_action.run.concurrency import with_growth
from holodeck_action.run.conditions import unreported_tools_notices
from holodeck_action.run.loading import (
    LoadedSuite,
    SuiteContext,
    check_callables,
    display_folder,
    is_not_utf8,
    redactor_of_loaded,
    with_lines,
    with_python,
)
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import Settings, SettingsError, baseline_problem, gates_problem, merge
from holodeck_action.run.run import Run
from holodeck_action.run.shards import ShardError, choose_part, parse_shard
from holodeck_action.run.stages import stages_of
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import (
    ConfigurationError,
    LocatedProblem,
    locate_problem,
    map_texts,
    suite_problem,
    target_problems,
)
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.loader import metric_classes
from holodeck_action.suite.model.policy import Baseline, Gates, active_gates
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


def prepare_suites(suites: Sequence[LoadedSuite], flags: Flags, context: SuiteContext) -> tuple[Run, ...]:
    """Determine settings, cases and target of every suite.

    Raises:
        ConfigurationError: suites have problems; the error lists those of all suites.
    """
    prepared: list[Run] = []
    lines: list[str | LocatedProblem] = [*unmatched_filters([loaded.suite for loaded in suites], flags)]
    stages = stages_of([loaded.suite for loaded in suites], flags)
    try:
        shard = None if flags.shard is None else parse_shard(flags.shard, context.environ)
    except ShardError as error:
        lines.append(str(error))
    for loaded in suites if not lines else ():
        suite = loaded.suite
        shown = display_folder(suite.folder, context.cwd)
        try:
            cases = choose_cases(suite, flags)
            settings = merge(suite, flags, loaded.environ)
            check_bounds_attainable(settings, suite, cases)
            target, files = target_of(suite, flags, context)
            equipped = with_python(loaded, context, target)
            check_python_target(equipped, target)
            lines += metric_class_problems(equipped, shown)
        except SettingsError as error:
            lines.append(settings_problem(suite, shown, error))
            continue
        except TargetError as error:
            lines += target_problems(suite, shown, str(error), error.problems, target_text=flags.written_target)
            continue
        except ConfigurationError as error:
            lines += error.problems
            continue
        lines += gate_problems(settings.gates, settings.baseline, flags, suite, cases, shown)
        lines += judge_problems(suite, cases, settings, loaded.environ, shown)
        lines += user_problems(suite, cases, settings, loaded.environ, shown)
        run = Run(
            **structs.asdict(equipped),
            display_folder=shown,
            settings=settings,
            cases=cases,
            target=target,
            target_files=files,
            base_files=suite.checkout if flags.baseline is None else Checkout.unbounded(context.cwd),
            written_target=flags.written_target,
            part=None if shard is None else choose_part(cases, *shard, None),
        )
        trials = sum(case.repeat for case in run.own_cases)
        run = structs.replace(run, settings=with_growth(settings, suite, target, loaded.environ, trials, flags))
        lines += () if shard is None else _unmergeable_settings(run)
        lines += (each for stage in stages for each in stage.check(run.staged))
        prepared.append(run)
    if lines:
        redactor = redactor_of_loaded(suites, context.environ)
        raise ConfigurationError([map_texts(line, redactor.text) for line in with_lines(lines, suites)])
    return tuple(prepared)


def _unmergeable_settings(suite: Run) -> Iterator[str | LocatedProblem]:
    """Yield a problem for each setting that cannot be used with shards, because `merge` runs no code and reads no
    cards."""
    summary = suite.settings.gates.summary
    if summary is not None and summary.function is not None:
        yield suite_problem(
            *(suite.suite, suite.display_folder, suite.suite.gate_marks.get("gates.summary"), "gates.summary"),
            (
                "--shard cannot be combined with method custom, because merge runs no code of the suite; use "
                "weighted_average"
            ),
        )
    if suite.cards:
        message = (
            "--shard cannot be combined with judge cards, which correct the rates of whole runs; leave out judges.cards"
        )
        yield suite_problem(suite.suite, suite.display_folder, suite.suite.card_marks[0], "judges.cards", message)


def settings_problem(suite: Suite, display_path: str, error: SettingsError) -> str | LocatedProblem:
    """Return the problem of a setting, with the setting's line if it is in the policy file."""
    setting = error.setting or ""
    return suite_problem(suite, display_path, suite.gate_marks.get(setting), setting, str(error))


def check_targets(suites: Sequence[LoadedSuite], context: SuiteContext) -> tuple[tuple[str, ...], ...]:
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
        silence: tuple[str, ...] = ()
        suite, target = loaded.suite, loaded.suite.policy.target
        shown = display_folder(suite.folder, context.cwd)
        redactor = loaded.redactor
        reasons: tuple[str, ...] = ()
        try:
            equipped = with_python(loaded, context, target)
            if target is None:
                reasons = _check_own_model(equipped)
            else:
                silence, unreported = asyncio.run(_try_target(loaded, target, shown))
                lines += unreported
                check_python_target(equipped, target)
        except TargetError as error:
            wrong = target_problems(suite, shown, str(error), error.problems, target_text=None)
            lines += (map_texts(problem, redactor.text) for problem in wrong)
        except ConfigurationError as error:
            lines += (map_texts(each, redactor.text) for each in error.problems)
        lines += gate_problems(suite.policy.gates, suite.policy.baseline, Flags(), suite, suite.cases, shown)
        unusable, missing = _check_models(suite, loaded.environ)
        lines += (map_texts(locate_problem(each, suite.folder, shown), redactor.text) for each in unusable)
        lacking = [str(locate_problem(each, suite.folder, shown)) for each in missing]
        # If the suite's own model is also a judge, what it lacks is reported once.
        baseline = suite.policy.baseline
        without_base = baseline_problem(baseline, suite.policy.gates, compared=baseline.source is not None)
        reasons += () if without_base is None else (" ".join(without_base),)
        reasons += tuple(each for each in lacking if not any(reason in each for reason in reasons))
        refused = (f"{REFUSED}{reason}" for reason in reasons)
        notes.append(tuple(map(redactor.text, (*silence, *refused))))
    if lines:
        raise ConfigurationError(with_lines(lines, suites))
    return tuple(notes)


def gate_problems(
    gates: Gates, baseline: Baseline, flags: Flags, suite: Suite, cases: Sequence[Case], display_path: str
) -> list[str | LocatedProblem]:
    """Return a list with a problem if no gate can fail with these cases; else an empty list."""
    problem = gates_problem(gates, baseline, flags, suite, cases)
    if problem is None:
        return []
    if problem.mark is None:
        return [suite_problem(suite, display_path, None, "", str(problem))]
    return [locate_problem(problem, suite.folder, display_path)]


def target_of(suite: Suite, flags: Flags, context: SuiteContext) -> tuple[AnyTarget, Checkout]:
    """Return the target of a suite, and the files that the target may read, with the base folder of relative paths.

    Raises:
        TargetError: the target cannot be used.
    """
    if isinstance(flags.target, CallableTarget):
        return flags.target, suite.checkout
    if context.conversations is not None:
        return context.conversations.target, Checkout.unbounded(context.cwd)
    written = flags.target
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


async def _try_target(
    loaded: LoadedSuite, target: WrittenTarget, display_path: str
) -> tuple[tuple[str, ...], list[str | LocatedProblem]]:
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
    problems = list(unreported_gates(suite.policy.gates, suite, agent, target, display_path))
    return tuple(unreported_tools_notices(agent, suite.cases)), problems


def unreported_gates(
    gates: Gates, suite: Suite, agent: Agent, target: AnyTarget, display_path: str
) -> Iterator[str | LocatedProblem]:
    """Yield a problem for each gate that depends on data that the target does not report, and so could never pass."""
    for name, gate, _ in active_gates(gates):
        reason = None if gate.reported is None else agent.unreported.get(gate.reported)
        if reason is not None:
            message = (
                f"gates.{name} cannot be judged: {describe_target(target)} does not report what the gate depends "
                f"on: {reason}; give it with every reply, or remove the gate"
            )
            yield suite_problem(suite, display_path, suite.gate_marks.get(f"gates.{name}"), f"gates.{name}", message)


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


def metric_class_problems(loaded: LoadedSuite, display_path: str) -> list[str | LocatedProblem]:
    """Import a suite's own metric classes in a worker process; return a problem for each that cannot be imported."""
    classes = metric_classes(loaded.suite)
    wrong = asyncio.run(check_callables(loaded, classes)) if classes else {}
    problems = (Problem(classes[reference], "metric", message) for reference, message in wrong.items())
    return [locate_problem(problem, loaded.suite.folder, display_path) for problem in problems]


def _check_own_model(loaded: LoadedSuite) -> tuple[str, ...]:
    """Check the suite's own model; return reasons why a run would be refused here, such as a missing API key."""
    from holodeck_action.targets.own_model.own_agent import check_own_agent

    return check_own_agent(loaded.suite, loaded.environ, loaded.code, loaded.redactor, loaded.interpreter)


def judge_problems(
    suite: Suite, cases: Sequence[Case], settings: Settings, environ: Mapping[str, str], display_path: str
) -> list[str | LocatedProblem]:
    """Return a problem for each metric whose judge is not configured or whose package is not installed."""
    metrics = judged_metrics(cases) | library_metrics(cases)
    if not metrics:
        return []
    from holodeck_action.scoring.judges import unusable_judges
    from holodeck_action.targets.own_model.own_agent import model_environment

    keys = model_environment(environ, replayed=settings.calls.mode == "replay")
    return [locate_problem(problem, suite.folder, display_path) for problem in unusable_judges(suite, metrics, keys)]


def user_problems(
    suite: Suite, cases: Sequence[Case], settings: Settings, environ: Mapping[str, str], display_path: str
) -> list[str | LocatedProblem]:
    """Return a problem for each case whose simulated user's model is not configured."""
    if all(case.simulation is None for case in cases):
        return []
    from holodeck_action.llm.providers import KeylessEnvironment

    keys = KeylessEnvironment(environ) if settings.calls.mode == "replay" else environ
    return [locate_problem(problem, suite.folder, display_path) for problem in _unusable_users(cases, keys)]


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
