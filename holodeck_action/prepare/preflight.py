"""Everything that is checked before the first case runs: all errors of all suites at once."""

from __future__ import annotations

import asyncio
import glob
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from holodeck_action.metrics.weak_assertions import weak_assertions
from holodeck_action.prepare.metrics import installed_metrics
from holodeck_action.prepare.settings import (
    Flags,
    Settings,
    SettingsError,
    check_reachable,
    choose_cases,
    gates_problem,
    merge,
    unmatched_filters,
)
from holodeck_action.reports.custom import CustomTemplate, TemplateError, read_template
from holodeck_action.results.agent_errors import TargetError
from holodeck_action.results.cards import suite_cards
from holodeck_action.results.result_files import RecordError, read_record
from holodeck_action.runner.conditions import silence_on_tools
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.checkout import Checkout, ReachError
from holodeck_action.suite.configuration_errors import (
    ConfigurationError,
    Located,
    located,
    suite_problem,
    target_problem,
    through,
)
from holodeck_action.suite.errors import Problem, SuiteError
from holodeck_action.suite.loader import graders, load_policy, load_suite
from holodeck_action.suite.policy import Gates
from holodeck_action.suite.targets import OWN_MODEL, AnyTarget, ModelTarget, PythonTarget, WrittenTarget, parse_target
from holodeck_action.suite.values import Case, Suite
from holodeck_action.suite.variables import environment_for
from holodeck_action.targets.factory import build_agent, describe
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import storable_text
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.results.judge_card import JudgeCard
    from holodeck_action.runner.stored import StoredRun


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the workflow, never a suite itself, lets suites do beyond their checkout.

    `paths` are further folders whose files they may read; `plain_http` lets keys go to other machines unencrypted.
    """

    paths: tuple[GivenPath, ...] = ()
    plain_http: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no folder.

        Raises:
            ConfigurationError: with every path that is none.
        """
        if wrong := [path for path in self.paths if not path.path.is_dir()]:
            raise ConfigurationError([f"{path}: there is no such folder, which --allow-path names" for path in wrong])


NOTHING_MORE = Allowed()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the outside world says.

    `environ` are the environment variables, `home` the user's home (None: there is none), `env_file` the file of
    `--env-file`, `allowed` what suites may do beyond their checkout.
    """

    environ: Mapping[str, str]
    home: Path | None
    cwd: Path
    env_file: GivenPath | None = None
    allowed: Allowed = NOTHING_MORE


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid suite; `environ` is the job's environment with what an env file adds, `cards` are its judge cards."""

    suite: Suite
    environ: Mapping[str, str]
    cards: Mapping[str, JudgeCard] = field(default_factory=dict)

    @property
    def redactor(self) -> Redactor:
        """What masks the secrets that are known before anything is opened."""
        return known_secrets([self])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite that is ready to run.

    `environ` is what its agent and its code see. `shown` is its folder as the reader would type it, empty for the
    current one. `target_files` is where a path in the target starts and what it may reach. `stored` holds answers of
    an earlier run, which are graded in the place of new ones. `cards` are the judge cards by metric. `written` is the
    target of the command line, None where it names none.
    """

    suite: Suite
    environ: Mapping[str, str]
    shown: str
    settings: Settings
    cases: tuple[Case, ...]
    target: AnyTarget
    target_files: Checkout
    stored: StoredRun | None = None
    cards: Mapping[str, JudgeCard] = field(default_factory=dict)
    written: str | None = None

    @property
    def place(self) -> str:
        """The suite's file as the reader would type it."""
        return f"{self.shown}/{self.suite.file}" if self.shown else self.suite.file


def known_secrets(suites: Iterable[Loaded | Prepared], environ: Mapping[str, str] = MappingProxyType({})) -> Redactor:
    """Return what masks the secrets of suites and environments, as far as they are known before anything is opened."""
    found = {secret for item in suites for secret in item.suite.secrets | environment_secrets(item.environ)}
    return Redactor(found | environment_secrets(environ))


def find_suites(patterns: Sequence[str], cwd: Path, allowed: Allowed = NOTHING_MORE) -> tuple[Path, ...]:
    """Resolve the suites given on the command line: files, folders holding an agent.yaml, or globs.

    Raises:
        ConfigurationError: something given does not exist, or is a link that leads out of its checkout.
    """
    found: list[Path] = []
    problems: list[str] = []
    for pattern in patterns:
        path = cwd / pattern
        if path.is_dir():
            path = path / "agent.yaml"
        if path.is_file():
            found.append(path)
            continue
        # The folder's own name may hold brackets: it is no part of the pattern.
        matches = sorted(
            cwd / match for match in glob.glob(pattern, root_dir=cwd, recursive=True) if (cwd / match).is_file()
        )
        if not matches:
            problems.append(f"{pattern}: no such suite; give the path of an agent.yaml, its folder, or a glob")
        found.extend(matches)
    problems += [
        f"{path!s}: the name of this file is not UTF-8 text; rename it" for path in found if _broken(path.name)
    ]
    for path in found:
        try:
            Checkout.of(path.parent, cwd, allowed.paths).place(path)
        except ReachError as error:
            problems.append(f"{shown_folder(path, cwd)}: {error.clause}")
    if problems:
        raise ConfigurationError(problems)
    return tuple(dict.fromkeys(path.resolve() for path in found))


def load_all(paths: Sequence[Path], around: Surroundings, *, allow_empty: bool = False) -> tuple[Loaded, ...]:
    """Load suites and check that their code graders can be imported.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    suites: list[Loaded] = []
    lines: list[str | Located] = []
    metrics = installed_metrics()
    for path in paths:
        shown = shown_folder(path.parent, around.cwd)
        try:
            checkout = Checkout.of(path.parent, around.cwd, around.allowed.paths)
            found = environment_for(checkout, around.environ, env_file=around.env_file)
            suite = load_suite(
                path,
                environ=found.variables,
                home=around.home,
                metrics=metrics,
                checkout=checkout,
                plain_http=around.allowed.plain_http,
                allow_empty=allow_empty,
                notices=found.notices,
            )
            cards = suite_cards(suite)
            references = graders(suite)
            wrong = asyncio.run(_check_callables(suite, references, found.variables)) if references else {}
        except SuiteError as error:
            lines += [located(problem, path.parent, shown) for problem in error.problems]
            continue
        for reference, message in wrong.items():
            mark = references[reference]
            field_name = "gates.summary.function" if mark == suite.summary_mark else "grader"
            lines.append(located(Problem(mark, field_name, message), suite.folder, shown))
        suite = replace(suite, notices=(*suite.notices, *weak_assertions(suite)))
        suites.append(Loaded(suite, found.variables, cards))
    if lines:
        # What code of the suite says when it is imported may be anything.
        redactor = known_secrets(suites, around.environ)
        raise ConfigurationError([through(line, redactor.text) for line in lines])
    return tuple(suites)


def prepare(suites: Sequence[Loaded], flags: Flags, around: Surroundings) -> tuple[Prepared, ...]:
    """Settle settings, cases and target of every suite.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    prepared: list[Prepared] = []
    lines: list[str | Located] = [*unmatched_filters([loaded.suite for loaded in suites], flags)]
    for loaded in suites if not lines else ():
        suite = loaded.suite
        shown = shown_folder(suite.folder, around.cwd)
        try:
            cases = choose_cases(suite, flags)
            settings = merge(suite, flags, loaded.environ)
            check_reachable(settings, suite, cases)
            target, files = _target(suite, flags, around)
            _check_python_target(suite, target, loaded.environ)
            _check_spending_gates(settings.gates, target)
        except SettingsError as error:
            mark = suite.gate_marks.get(error.setting or "")
            lines.append(suite_problem(suite, shown, mark, error.setting or "", str(error)))
            continue
        except TargetError as error:
            lines.append(target_problem(suite, shown, str(error), written=flags.target))
            continue
        lines += gate_problems(settings.gates, flags, suite, cases, shown)
        lines += judge_problems(suite, cases, settings, loaded.environ, shown)
        prepared.append(
            Prepared(
                suite, loaded.environ, shown, settings, cases, target, files, cards=loaded.cards, written=flags.target
            )
        )
    if lines:
        redactor = known_secrets(suites, around.environ)
        raise ConfigurationError([through(line, redactor.text) for line in lines])
    return tuple(prepared)


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
            if target is None:
                reasons = _check_own(suite, loaded.environ)
            else:
                silence = asyncio.run(_try_target(suite, target, loaded.environ))
                _check_python_target(suite, target, loaded.environ)
        except TargetError as error:
            lines.append(through(target_problem(suite, shown, str(error), written=None), redactor.text))
        lines += gate_problems(suite.policy.gates, Flags(), suite, suite.cases, shown)
        wrong, lacking = _check_judges(suite, loaded.environ, shown)
        lines += (through(each, redactor.text) for each in wrong)
        # A judge that is the suite's own model misses what that does.
        reasons += tuple(each for each in lacking if not any(reason in each for reason in reasons))
        refused = (f"a run would be refused here: {reason}" for reason in reasons)
        notes.append(tuple(map(redactor.text, (*silence, *refused))))
    if lines:
        raise ConfigurationError(lines)
    return tuple(notes)


def _broken(text: str) -> bool:
    """Tell whether a text came from bytes that are no UTF-8: no results file could hold it."""
    return storable_text(text) != text


def suite_place(suite: Suite, cwd: Path) -> str:
    """Return a suite's file as a reader in `cwd` would type it."""
    shown = shown_folder(suite.folder, cwd)
    return f"{shown}/{suite.file}" if shown else suite.file


def gate_problems(gates: Gates, flags: Flags, suite: Suite, cases: Sequence[Case], shown: str) -> list[str | Located]:
    """Say that no gate can fail in these cases; nothing when one can."""
    problem = gates_problem(gates, flags, suite, cases)
    if problem is None:
        return []
    if problem.mark is None:
        return [suite_problem(suite, shown, None, "", str(problem))]
    return [located(problem, suite.folder, shown)]


def failed_cases(path: GivenPath) -> frozenset[str]:
    """Return the ids of the cases that did not pass in an earlier run.

    Raises:
        ConfigurationError: the file is not a results file.
    """
    from holodeck_action.results.decision import decide

    try:
        verdict = decide(read_record(path))
    except RecordError as error:
        raise ConfigurationError([str(error)]) from error
    return frozenset(case.id for case in verdict.cases if case.judged not in ("passed", "informational"))


def gates_of(policy: GivenPath, around: Surroundings) -> Gates:
    """Return the gates of a policy file.

    Raises:
        ConfigurationError: the problems of the file.
    """
    try:
        return load_policy(policy.path, str(policy), environ=around.environ, metrics=installed_metrics()).gates
    except SuiteError as error:
        folder = policy.path.resolve().parent
        shown = shown_folder(folder, around.cwd)
        raise ConfigurationError([located(problem, folder, shown) for problem in error.problems]) from error


def template_of(path: GivenPath | None) -> CustomTemplate | None:
    """Read a report template; None for none.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return None if path is None else read_template(path)
    except TemplateError as error:
        raise ConfigurationError([str(error)]) from error


def writable_folder(folder: GivenPath) -> None:
    """Make sure that results can be written before money is spent on them.

    Raises:
        ConfigurationError: the folder cannot be made or written to.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.path):
            pass
    except OSError as error:
        raise ConfigurationError(
            [f"{folder}: results cannot be written here: {error.strerror}; give a writable folder with --output-dir"]
        ) from error


def shown_folder(folder: Path, cwd: Path) -> str:
    """Return a folder as a reader in `cwd` would type it; empty for `cwd` itself."""
    shown = os.path.relpath(folder, cwd)
    return "" if shown == "." else Path(shown).as_posix()


def _target(suite: Suite, flags: Flags, around: Surroundings) -> tuple[AnyTarget, Checkout]:
    written = flags.target
    if written == OWN_MODEL or (written is None and suite.policy.target is None):
        from holodeck_action.targets.own import own_target

        return own_target(suite), suite.checkout
    if written is not None:
        if _broken(written):
            raise TargetError("--target is not UTF-8 text; rename what it names")
        try:
            return parse_target(written), Checkout.anywhere(around.cwd)
        except ValueError as error:
            raise TargetError(f"--target: {error}, or {OWN_MODEL} for the suite's own") from error
    assert suite.policy.target is not None
    return suite.policy.target, suite.checkout


async def _try_target(suite: Suite, target: WrittenTarget, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Build the agent and close it again; return what it cannot tell and the cases look at."""
    pool = WorkerPool(suite.folder, environ=environ, cwd=suite.checkout.cwd, size=1)
    limit = suite.policy.limits.max_response_bytes
    try:
        agent = build_agent(suite, target, files=suite.checkout, environ=environ, max_bytes=limit, pool=pool)
    except TargetError as error:
        raise TargetError(str(error)) from error
    await agent.close()
    return tuple(silence_on_tools(agent, suite.cases))


def _check_spending_gates(gates: Gates, target: AnyTarget) -> None:
    """Refuse gates on what only the suite's own model tells: they could never pass."""
    if isinstance(target, ModelTarget):
        return
    for name in ("max_cost_usd", "max_total_tokens"):
        if getattr(gates, name) is not None:
            raise SettingsError(
                f"gates.{name} cannot be judged: {describe(target)} does not tell what its answers took; remove the "
                f"gate, or ask the suite's own model (--target {OWN_MODEL})",
                f"gates.{name}",
            )


def _check_python_target(suite: Suite, target: AnyTarget, environ: Mapping[str, str]) -> None:
    """Import a Python target in a worker process: what cannot be called at all is no case's fault."""
    if not isinstance(target, PythonTarget):
        return
    problem = asyncio.run(_check_callables(suite, [target.reference], environ)).get(target.reference)
    if problem is not None:
        raise TargetError(problem)


def _check_own(suite: Suite, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Check the suite's own model; return why a run would be refused here."""
    from holodeck_action.targets.own import check_own

    return check_own(suite, environ)


def judge_problems(
    suite: Suite, cases: Sequence[Case], settings: Settings, environ: Mapping[str, str], shown: str
) -> list[str | Located]:
    """Name every metric that a model must grade and that nobody can, or whose package is not there."""
    metrics = judged_metrics(cases) | library_metrics(cases)
    if not metrics:
        return []
    from holodeck_action.scoring.judges import problems_of
    from holodeck_action.targets.own import environment_of

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


async def _check_callables(suite: Suite, references: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Import callables in a worker process; return what is wrong with those that cannot be called."""
    problems: dict[str, str] = {}
    async with WorkerPool(suite.folder, environ=environ, cwd=suite.checkout.cwd, size=1) as pool:
        for reference in references:
            try:
                await pool.check(reference)
            except UserCodeError as error:
                problems[reference] = error.message
    return problems
