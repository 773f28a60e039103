"""Everything that is checked before the first case runs: all errors of all suites at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holodeck_action.record.agent_errors import TargetError
from holodeck_action.run.case_choice import check_reachable, choose_cases, unmatched_filters
from holodeck_action.run.conditions import silence_on_tools
from holodeck_action.run.loading import (
    Loaded,
    Surroundings,
    check_callables,
    is_broken,
    known_secrets,
    shown_folder,
    with_lines,
    with_python,
)
from holodeck_action.run.settings import Flags, Settings, SettingsError, baseline_problem, gates_problem, merge
from holodeck_action.run.shards import Part, ShardError, numbered, part_of
from holodeck_action.run.stages import checked, stages_of
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import (
    ConfigurationError,
    Located,
    located,
    suite_problem,
    target_problems,
    through,
)
from holodeck_action.suite.model.policy import Baseline, Gates, given_gates
from holodeck_action.suite.model.targets import OWN_MODEL, AnyTarget, PythonTarget, WrittenTarget, parse_target
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import build_agent, describe
from holodeck_action.targets.protocol import Agent
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.run.stored import StoredRun


class Prepared(Loaded, frozen=True, kw_only=True):
    """A suite that is ready to run.

    `shown` is its folder as the reader would type it, empty for the current one. `target_files` is where a path in the
    target starts and what it may reach, `base_files` the same of a file to compare with. `stored` holds answers of an
    earlier run, which are graded in the place of new ones. `written` is the target of the command line, None where it
    names none. `part` says which cases are run here, None for all. `graded_by` is the suite whose cases, metrics and
    judges count, None for its own; `variant` says what tells it from the suite that the file is, empty for nothing.
    """

    shown: str
    settings: Settings
    cases: tuple[Case, ...]
    target: AnyTarget
    target_files: Checkout
    base_files: Checkout
    stored: StoredRun | None = None
    written: str | None = None
    part: Part | None = None
    graded_by: Loaded | None = None
    variant: str = ""

    @property
    def place(self) -> str:
        """The suite's file as the reader would type it, and what tells this one from others of that file."""
        place = f"{self.shown}/{self.suite.file}" if self.shown else self.suite.file
        return f"{place} ({self.variant})" if self.variant else place

    @property
    def own_cases(self) -> tuple[Case, ...]:
        """The cases that are run here."""
        return self.cases if self.part is None else tuple(case for case in self.cases if case.id in self.part.ids)

    @property
    def shards(self) -> int:
        """In how many parts the cases are run."""
        return 1 if self.part is None else self.part.shard.count

    @property
    def grading(self) -> Loaded:
        """The suite by whose metrics and judges answers are graded."""
        return self.graded_by or self


def prepare(suites: Sequence[Loaded], flags: Flags, around: Surroundings) -> tuple[Prepared, ...]:
    """Settle settings, cases and target of every suite.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    prepared: list[Prepared] = []
    lines: list[str | Located] = [*unmatched_filters([loaded.suite for loaded in suites], flags)]
    stages = stages_of([loaded.suite for loaded in suites], flags)
    try:
        shard = None if flags.shard is None else numbered(flags.shard, around.environ)
    except ShardError as error:
        lines.append(str(error))
    for loaded in suites if not lines else ():
        suite = loaded.suite
        shown = shown_folder(suite.folder, around.cwd)
        try:
            cases = choose_cases(suite, flags)
            settings = merge(suite, flags, loaded.environ)
            check_reachable(settings, suite, cases)
            target, files = target_of(suite, flags, around)
            equipped = with_python(loaded, around, target)
            check_python_target(equipped, target)
        except SettingsError as error:
            lines.append(settings_problem(suite, shown, error))
            continue
        except TargetError as error:
            lines += target_problems(suite, shown, str(error), error.problems, written=flags.target)
            continue
        except ConfigurationError as error:
            lines += error.problems
            continue
        lines += gate_problems(settings.gates, settings.baseline, flags, suite, cases, shown)
        lines += judge_problems(suite, cases, settings, loaded.environ, shown)
        prepared.append(
            Prepared(
                suite,
                loaded.environ,
                loaded.code,
                loaded.cards,
                equipped.python,
                shown=shown,
                settings=settings,
                cases=cases,
                target=target,
                target_files=files,
                base_files=suite.checkout if "baseline.source" not in flags.policy else Checkout.anywhere(around.cwd),
                written=flags.target,
                part=None if shard is None else part_of(cases, *shard, None),
            )
        )
        lines += () if shard is None else _unmergeable(prepared[-1])
        lines += checked(stages, prepared[-1])
    if lines:
        redactor = known_secrets(suites, around.environ)
        raise ConfigurationError([through(line, redactor.text) for line in with_lines(lines, suites)])
    return tuple(prepared)


def _unmergeable(item: Prepared) -> Iterator[str | Located]:
    """Yield what only code or files of the suite can make of all answers, which `merge` does not load."""
    summary = item.settings.gates.summary
    if summary is not None and summary.function is not None:
        yield suite_problem(
            *(item.suite, item.shown, item.suite.gate_marks.get("gates.summary"), "gates.summary"),
            "--shard does not go with method custom, as merge runs no code of the suite; use weighted_average",
        )
    if item.cards:
        message = "--shard does not go with judge cards, which correct the rates of whole runs; leave out judges.cards"
        yield suite_problem(item.suite, item.shown, item.suite.card_marks[0], "judges.cards", message)


def settings_problem(suite: Suite, shown: str, error: SettingsError) -> str | Located:
    """Return what is wrong with settings, at the line of the policy file that gives them, if one does."""
    setting = error.setting or ""
    return suite_problem(suite, shown, suite.gate_marks.get(setting), setting, str(error))


def check_targets(suites: Sequence[Loaded], around: Surroundings) -> tuple[tuple[str, ...], ...]:
    """Check the target which the policy file names, or else the suite's own model, and the judges of all metrics.

    Returns:
        For each suite what the target cannot tell and the cases look at, and what a run would miss here although the
        suite is right, such as a key, each one sentence.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    lines: list[str | Located] = []
    notes: list[tuple[str, ...]] = []
    for loaded in suites:
        silence: tuple[str, ...] = ()
        suite, target = loaded.suite, loaded.suite.policy.target
        shown = shown_folder(suite.folder, around.cwd)
        redactor = loaded.redactor
        reasons: tuple[str, ...] = ()
        try:
            equipped = with_python(loaded, around, target)
            if target is None:
                reasons = _check_own(equipped)
            else:
                silence, untold = asyncio.run(_try_target(loaded, target, shown))
                lines += untold
                check_python_target(equipped, target)
        except TargetError as error:
            wrong = target_problems(suite, shown, str(error), error.problems, written=None)
            lines += (through(problem, redactor.text) for problem in wrong)
        except ConfigurationError as error:
            lines += (through(each, redactor.text) for each in error.problems)
        lines += gate_problems(suite.policy.gates, suite.policy.baseline, Flags(), suite, suite.cases, shown)
        wrong, lacking = _check_judges(suite, loaded.environ, shown)
        lines += (through(each, redactor.text) for each in wrong)
        # A judge that is the suite's own model misses what that does.
        baseline = suite.policy.baseline
        without_base = baseline_problem(baseline, suite.policy.gates, compared=baseline.source is not None)
        reasons += () if without_base is None else (" ".join(without_base),)
        reasons += tuple(each for each in lacking if not any(reason in each for reason in reasons))
        refused = (f"a run would be refused here: {reason}" for reason in reasons)
        notes.append(tuple(map(redactor.text, (*silence, *refused))))
    if lines:
        raise ConfigurationError(with_lines(lines, suites))
    return tuple(notes)


def gate_problems(
    gates: Gates, baseline: Baseline, flags: Flags, suite: Suite, cases: Sequence[Case], shown: str
) -> list[str | Located]:
    """Say that no gate can fail in these cases; nothing when one can."""
    problem = gates_problem(gates, baseline, flags, suite, cases)
    if problem is None:
        return []
    if problem.mark is None:
        return [suite_problem(suite, shown, None, "", str(problem))]
    return [located(problem, suite.folder, shown)]


def target_of(suite: Suite, flags: Flags, around: Surroundings) -> tuple[AnyTarget, Checkout]:
    """Return what answers for a suite, and where a path in it starts.

    Raises:
        TargetError: it cannot be used.
    """
    written = flags.target
    if written == OWN_MODEL or (written is None and suite.policy.target is None):
        from holodeck_action.targets.own_model.own import own_target

        return own_target(suite), suite.checkout
    if written is not None:
        if is_broken(written):
            raise TargetError("--target is not UTF-8 text; rename what it names")
        try:
            return parse_target(written), Checkout.anywhere(around.cwd)
        except ValueError as error:
            raise TargetError(f"--target: {error}, or {OWN_MODEL} for the suite's own") from error
    assert suite.policy.target is not None
    return suite.policy.target, suite.checkout


async def _try_target(loaded: Loaded, target: WrittenTarget, shown: str) -> tuple[tuple[str, ...], list[str | Located]]:
    """Build the agent and close it again; return what it cannot tell and the cases look at, and gates look at."""
    suite, environ, code, redact = loaded.suite, loaded.environ, loaded.code, loaded.redactor.text
    pool = WorkerPool(suite.folder, environ=environ, cwd=suite.checkout.cwd, size=1, code=code, redact=redact)
    limit = suite.policy.limits.max_response_bytes
    agent = build_agent(
        suite,
        target,
        files=suite.checkout,
        environ=environ,
        max_bytes=limit,
        code=code,
        pool=pool,
        redact=redact,
    )
    await agent.close()
    problems = list(untold_gates(suite.policy.gates, suite, agent, target, shown))
    return tuple(silence_on_tools(agent, suite.cases)), problems


def untold_gates(gates: Gates, suite: Suite, agent: Agent, target: AnyTarget, shown: str) -> Iterator[str | Located]:
    """Yield a problem for every gate on what no reply of the target says: it could never pass."""
    for name, gate, _ in given_gates(gates):
        reason = None if gate.told is None else agent.untold.get(gate.told)
        if reason is not None:
            message = (
                f"gates.{name} cannot be judged: {describe(target)} does not tell what the gate looks at, because "
                f"{reason}; give it with every reply, or remove the gate"
            )
            yield suite_problem(suite, shown, suite.gate_marks.get(f"gates.{name}"), f"gates.{name}", message)


def check_python_target(loaded: Loaded, target: AnyTarget) -> None:
    """Import a Python target in a worker process: what cannot be called at all is no case's fault.

    Raises:
        TargetError: it cannot be called.
    """
    if not isinstance(target, PythonTarget):
        return
    problem = asyncio.run(check_callables(loaded, [target.called], spans=bool(loaded.suite.policy.spans))).get(
        target.called
    )
    if problem is not None:
        raise TargetError(problem)


def _check_own(loaded: Loaded) -> tuple[str, ...]:
    """Check the suite's own model; return why a run would be refused here."""
    from holodeck_action.targets.own_model.own import check_own

    return check_own(loaded.suite, loaded.environ, loaded.code, loaded.redactor, loaded.interpreter)


def judge_problems(
    suite: Suite, cases: Sequence[Case], settings: Settings, environ: Mapping[str, str], shown: str
) -> list[str | Located]:
    """Name every metric that a model must grade where none can, or whose package is not there."""
    metrics = judged_metrics(cases) | library_metrics(cases)
    if not metrics:
        return []
    from holodeck_action.scoring.judges import problems_of
    from holodeck_action.targets.own_model.own import environment_of

    keys = environment_of(environ, replayed=settings.calls.mode == "replay")
    return [located(problem, suite.folder, shown) for problem in problems_of(suite, metrics, keys)]


def _check_judges(suite: Suite, environ: Mapping[str, str], shown: str) -> tuple[list[str | Located], list[str]]:
    """Return what is wrong with the judges of a suite, and else a line for each package or key that is not here."""
    metrics = judged_metrics(suite.cases) | library_metrics(suite.cases)
    if not metrics:
        return [], []
    from holodeck_action.scoring.judges import check_judges

    wrong, lacking = check_judges(suite, metrics, environ)
    return (
        [located(problem, suite.folder, shown) for problem in wrong],
        [str(located(problem, suite.folder, shown)) for problem in lacking],
    )
