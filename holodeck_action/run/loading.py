"""Suites found and loaded, as a call names them."""

from __future__ import annotations

import asyncio
import glob
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from holodeck_action.metrics.weak_assertions import weak_assertions
from holodeck_action.run.environments.case_rows import CaseRows
from holodeck_action.run.environments.environments import (
    Installing,
    ProjectPython,
    environment_problem,
    needs_python,
    project_python,
)
from holodeck_action.run.environments.packages import PackagesError
from holodeck_action.run.metrics import installed_metrics
from holodeck_action.run.request import NOTHING_MORE, Allowed
from holodeck_action.seam import registry
from holodeck_action.suite.cases.sources import POLICY_NAMES
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError, Located, located, through
from holodeck_action.suite.errors import Problem, SuiteError
from holodeck_action.suite.loader import graders, load_policy, load_suite
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.targets import AnyTarget
from holodeck_action.suite.values import Suite
from holodeck_action.suite.yaml.variables import environment_for
from holodeck_action.text.foreign import RefusedFileError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import storable_text
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.permission import CodeAllowed, CodeRefusedError
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.record.judge_card import JudgeCard


class Surroundings(Struct, frozen=True):
    """What the outside world says.

    `environ` are the environment variables, `home` the user's home (None: there is none), `env_file` the file of
    `--env-file`, `allowed` what suites may do beyond their checkout. `requirements` are the lines of `--requirements`.
    `permission` judges whether code of the checkout may run here, and raises CodeRefusedError where not: no suite is
    opened without its answer. `tell` takes a sentence on what takes time.
    `copy_of` are a copy of what is under version control, in which the suite is, and what it is a copy of.
    """

    environ: Mapping[str, str]
    home: Path | None
    cwd: Path
    permission: Callable[[], CodeAllowed]
    env_file: GivenPath | None = None
    allowed: Allowed = NOTHING_MORE
    requirements: tuple[str, ...] = ()
    tell: Callable[[str], None] = lambda sentence: None
    copy_of: tuple[Path, Path] | None = None

    def installing(self, code: CodeAllowed) -> Installing:
        """Return how packages come to a suite."""
        return Installing(self.requirements, self.home, self.cwd, code, self.tell, self.copy_of)


class Loaded(Struct, frozen=True):
    """A valid suite; `environ` is the job's environment with what an env file adds, `cards` are its judge cards.

    `code` is the permission to start its code: there is no suite without one.
    `python` is the project's own Python; None where code of the suite runs in ours, or none has been asked for yet.
    """

    suite: Suite
    environ: Mapping[str, str]
    code: CodeAllowed
    cards: Mapping[str, JudgeCard] = field(default_factory=dict)
    python: ProjectPython | None = None

    @property
    def interpreter(self) -> Path | None:
        """The Python of the suite's processes; None for ours."""
        return None if self.python is None else self.python.interpreter

    @property
    def redactor(self) -> Redactor:
        """What masks the secrets that are known before anything is opened."""
        return known_secrets([self])


def known_secrets(suites: Iterable[Loaded], environ: Mapping[str, str] = MappingProxyType({})) -> Redactor:
    """Return what masks the secrets of suites and environments, as far as they are known before anything is opened."""
    found = {secret for item in suites for secret in item.suite.secrets | environment_secrets(item.environ)}
    return Redactor(found | environment_secrets(environ))


def load_suites(
    patterns: Sequence[str],
    around: Surroundings,
    *,
    allow_empty: bool = False,
    found: Callable[[Sequence[Path]], None] = lambda paths: None,
) -> tuple[Loaded, ...]:
    """Find suites, and load them.

    Args:
        patterns: files, folders holding an agent.yaml, or globs.
        around: the outside world.
        allow_empty: whether a suite may have no cases.
        found: told which files there are, before one is loaded.

    Raises:
        ConfigurationError: their code must not run here, what is named does not exist or is out of reach, or the
            problems of all suites.
    """
    code = permitted(around.permission)
    paths = _find_suites(patterns, around.cwd, around.allowed)
    found(paths)
    return _load_all(paths, around, code, allow_empty=allow_empty)


def permitted(permission: Callable[[], CodeAllowed]) -> CodeAllowed:
    """Return the permission to start code of suites.

    Raises:
        ConfigurationError: there is none.
    """
    try:
        return permission()
    except CodeRefusedError as refused:
        raise ConfigurationError([str(refused)]) from None


def load_at(path: Path, checkout: Checkout, around: Surroundings) -> Loaded:
    """Load a suite whose checkout is known.

    Args:
        path: its file, absolute.
        checkout: its folder, and what may be read.
        around: the outside world.

    Raises:
        ConfigurationError: its problems.
    """
    (loaded,) = _load_all([path], around, permitted(around.permission), allow_empty=True, checkout=checkout)
    return loaded


def load_one(pattern: str, around: Surroundings, why_one: str) -> Loaded:
    """Find one suite, and load it.

    Args:
        pattern: a file, a folder or a glob.
        around: the outside world.
        why_one: says, after how many suites match, why there can be one only.

    Raises:
        ConfigurationError: several match, or as for `load_suites`.
    """

    def found(paths: Sequence[Path]) -> None:
        if len(paths) > 1:
            raise ConfigurationError([f"{pattern}: {len(paths)} suites match; {why_one}"])

    (loaded,) = load_suites((pattern,), around, found=found)
    return loaded


def _find_suites(patterns: Sequence[str], cwd: Path, allowed: Allowed) -> tuple[Path, ...]:
    """Resolve the suites given on the command line: files, folders holding an agent.yaml, or globs.

    A policy file stands for the agent.yaml beside it.

    Raises:
        ConfigurationError: something given does not exist, or is a link that leads out of its checkout.
    """
    found: list[Path] = []
    problems: list[str] = []
    for pattern in patterns:
        path = cwd / pattern
        if path.is_dir():
            path = path / "agent.yaml"
        elif path.name in POLICY_NAMES and path.is_file():
            path = path.with_name("agent.yaml")
            if not path.is_file():
                problems.append(f"{pattern}: there is no agent.yaml beside this policy file; give the path of a suite")
                continue
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
        f"{path!s}: the name of this file is not UTF-8 text; rename it" for path in found if is_broken(path.name)
    ]
    for path in found:
        try:
            Checkout.of(path.parent, cwd, allowed.paths).place(path)
        except RefusedFileError as error:
            problems.append(f"{shown_folder(path, cwd)}: {error.clause}")
    if problems:
        raise ConfigurationError(problems)
    return tuple(dict.fromkeys(path.resolve() for path in found))


def _load_all(
    paths: Sequence[Path],
    around: Surroundings,
    code: CodeAllowed,
    *,
    allow_empty: bool,
    checkout: Checkout | None = None,
) -> tuple[Loaded, ...]:
    """Load suites and check that their code graders can be imported.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    suites: list[Loaded] = []
    lines: list[str | Located] = []
    metrics = installed_metrics()
    for path in paths:
        shown = shown_folder(path.parent, around.cwd)
        place = checkout or Checkout.of(path.parent, around.cwd, around.allowed.paths)
        try:
            found = environment_for(place, around.environ, env_file=around.env_file)
            suite = load_suite(
                path,
                environ=found.variables,
                home=around.home,
                metrics=metrics,
                checkout=place,
                plain_http=around.allowed.plain_http,
                allow_empty=allow_empty,
                rows=CaseRows(place, found.variables, around.installing(code)),
                notices=found.notices,
            )
            cards = _cards(suite)
            loaded = Loaded(suite, found.variables, code, cards)
            references = graders(suite)
            if references:
                loaded = with_python(loaded, around)
            wrong = asyncio.run(check_callables(loaded, references)) if references else {}
        except SuiteError as error:
            lines += _located(error, path.parent, shown, place)
            continue
        except ConfigurationError as error:
            lines += error.problems
            continue
        for reference, message in wrong.items():
            mark = references[reference]
            field_name = "gates.summary.function" if mark == suite.summary_mark else "grader"
            lines.append(located(Problem(mark, field_name, message), suite.folder, shown))
        suite = replace(suite, notices=(*suite.notices, *weak_assertions(suite)))
        suites.append(structs.replace(loaded, suite=suite))
    if lines:
        # What code of the suite says when it is imported may be anything.
        redactor = known_secrets(suites, around.environ)
        raise ConfigurationError([through(line, redactor.text) for line in with_lines(lines, suites)])
    return tuple(suites)


def _cards(suite: Suite) -> Mapping[str, JudgeCard]:
    """Return the judge cards that the policy file names, by metric.

    Raises:
        SuiteError: one cannot be used, or no extension reads them.
    """
    if not suite.card_marks:
        return {}
    extension = registry.cards()
    if extension is None:
        problem = Problem(suite.card_marks[0], "judges.cards", registry.unknown())
        raise SuiteError([problem], suite.secrets, (mark.file for mark in suite.card_marks))
    found: Mapping[str, JudgeCard] = registry.resolve(extension.read)(suite)
    return found


def _located(error: SuiteError, folder: Path, shown: str, checkout: Checkout) -> list[str | Located]:
    """Return the problems of a suite's files with the lines they are about."""
    from holodeck_action.suite.excerpts import Quotable, with_excerpts

    quotable = Quotable(checkout, error.files, error.redactor.text)
    return with_excerpts([located(problem, folder, shown) for problem in error.problems], {folder: quotable})


def with_lines(problems: Iterable[str | Located], suites: Iterable[Loaded]) -> list[str | Located]:
    """Return problems of suites that are valid as far as they go, with the lines they are about."""
    from holodeck_action.suite.excerpts import Quotable, with_excerpts

    known = {item.suite.folder: Quotable(item.suite.checkout, None, item.redactor.text) for item in suites}
    return with_excerpts(problems, known)


def policy_of(policy: GivenPath, around: Surroundings) -> Policy:
    """Return a policy file on its own.

    Raises:
        ConfigurationError: the problems of the file.
    """
    try:
        return load_policy(policy.path, str(policy), environ=around.environ, metrics=installed_metrics())
    except SuiteError as error:
        folder = policy.path.resolve().parent
        shown = shown_folder(folder, around.cwd)
        raise ConfigurationError(_located(error, folder, shown, Checkout.anywhere(folder))) from error


def is_broken(text: str) -> bool:
    """Tell whether a text came from bytes that are no UTF-8: no results file could hold it."""
    return storable_text(text) != text


def suite_place(suite: Suite, cwd: Path) -> str:
    """Return a suite's file as a reader in `cwd` would type it."""
    shown = shown_folder(suite.folder, cwd)
    return f"{shown}/{suite.file}" if shown else suite.file


def shown_folder(folder: Path, cwd: Path) -> str:
    """Return a folder as a reader in `cwd` would type it; empty for `cwd` itself."""
    shown = os.path.relpath(folder, cwd)
    return "" if shown == "." else Path(shown).as_posix()


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


def with_python(loaded: Loaded, around: Surroundings, target: AnyTarget | None = None) -> Loaded:
    """Return a suite with the Python of its project, with its packages installed, where code of it is to run.

    Raises:
        ConfigurationError: there is no such Python, or the packages cannot be installed.
    """
    if loaded.python is not None or not needs_python(loaded.suite, target):
        return loaded
    how = around.installing(loaded.code)
    try:
        return structs.replace(loaded, python=project_python(loaded.suite, loaded.environ, how))
    except PackagesError as error:
        shown = shown_folder(loaded.suite.folder, around.cwd)
        raise ConfigurationError([environment_problem(loaded.suite, shown, error, how)]) from error


async def check_callables(loaded: Loaded, references: Iterable[str], *, spans: bool = False) -> dict[str, str]:
    """Import callables in a worker process; return what is wrong with those that cannot be called.

    With `spans` it is to collect theirs.
    """
    suite = loaded.suite
    problems: dict[str, str] = {}
    async with WorkerPool(
        suite.folder,
        environ=loaded.environ,
        cwd=suite.checkout.cwd,
        size=1,
        code=loaded.code,
        redact=loaded.redactor.text,
        interpreter=loaded.interpreter,
        spans=spans,
    ) as pool:
        for reference in references:
            try:
                await pool.check(reference)
            except UserCodeError as error:
                problems[reference] = error.message
    return problems
