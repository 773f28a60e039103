"""Finds and loads the suites that a command or function call names."""

from __future__ import annotations

import asyncio
import dataclasses
import glob
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field, structs

from holodeck_action.metrics.expected_answers import uncompared_problem, unread_notices
from holodeck_action.metrics.weak_assertions import weak_assertions
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.disk import make_folder
from holodeck_action.run.environments.case_rows import CaseRows
from holodeck_action.run.environments.setup import PackageSetup, ProjectPython, needs_python
from holodeck_action.run.judging_libraries import start_judging_libraries
from holodeck_action.run.metrics import installed_metrics
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.seam import registry
from holodeck_action.suite.cases.sources import POLICY_NAMES
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import (
    ConfigurationError,
    LocatedProblem,
    locate_problem,
    map_texts,
    suite_problem,
    target_problems,
)
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError
from holodeck_action.suite.loader import load_policy, load_suite
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.targets import AnyTarget
from holodeck_action.suite.values import Suite
from holodeck_action.suite.yaml.variables import load_environment
from holodeck_action.text.foreign import Redact, RefusedFileError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import replace_surrogates
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.permission import CodeAllowed, CodeRefusedError
from holodeck_action.workers.pool import WorkerPool
from holodeck_action.workers.watching import Watch

if TYPE_CHECKING:
    from holodeck_action.record.judge_card import JudgeCard
    from holodeck_action.run.environments.extra_needs import NeededExtra
    from holodeck_action.suite.cases.case_files import Conversations


class SuiteContext(Struct, frozen=True):
    """The environment, folders and permissions with which suites are loaded.

    `environ` has the environment variables, `flags` the options of the command, with what suites may do beyond their
    checkout. `permission` takes the folders of suites, and returns the permission to run code of their checkouts, or
    raises CodeRefusedError. Without this permission no suite is opened. `announce` is called with a sentence about each
    slow operation. `copy_of` has the folder of a temporary copy of the repository, and that of the original; None if
    there is no copy. `install` is called with the extras that a suite needs; if they cannot be installed here, it does
    nothing. `conversations` are judged in place of the suites' cases; None to judge the cases. `started` is the time at
    which the command began, before any code of suites, in seconds since 1970.
    """

    environ: Mapping[str, str]
    cwd: Path
    permission: Callable[[tuple[Path, ...]], CodeAllowed]
    flags: Flags = Flags()
    announce: Callable[[str], None] = lambda sentence: None
    copy_of: tuple[Path, Path] | None = None
    install: Callable[[Sequence[NeededExtra]], None] = lambda needs: None
    conversations: Conversations | None = None
    started: float = field(default_factory=time.time)

    @property
    def home(self) -> Path | None:
        """The user's home folder; None if there is none."""
        home = self.environ.get("HOME")
        return Path(home) if home else None

    def with_flags(self, **changes: Any) -> SuiteContext:
        """Return a context with other values of some flags."""
        return structs.replace(self, flags=dataclasses.replace(self.flags, **changes))

    def with_conversations(self) -> SuiteContext:
        """Return a context with the conversations that `--target` names, or the same context if it names none.

        Raises:
            ConfigurationError: the conversations cannot be read.
        """
        name, _, path = (self.flags.written_target or "").partition(":")
        kind = registry.conversations().get(name)
        if kind is None:
            return self
        try:
            found = registry.resolve(kind.open)(path.strip(), self.cwd, self.flags.extra, self.environ)
            return structs.replace(self, conversations=found)
        except TargetError as error:
            redactor = Redactor(environment_secrets(self.environ))
            raise ConfigurationError([redactor.text(f"--target: {error}")]) from None

    def package_setup(self, code: CodeAllowed) -> PackageSetup:
        """Return how to install packages for a suite."""
        return PackageSetup(self.flags.requirements, self.home, self.cwd, code, self.announce, self.copy_of)


class LoadedSuite(Struct, frozen=True):
    """A valid suite; `environ` is the job's environment with the env file's variables, `cards` has the judge cards.

    `context` is the context with which the suite was loaded, and `display_folder` the path of its folder relative to
    the current folder; empty for the current folder. `code` is the permission to start the suite's code. `python` is
    the project's own Python; None if the program's own Python runs the code, or if it is not determined yet. `used` has
    the absolute paths of files that grading code used while the suite was loaded, and `case_functions` the references
    to functions that yield cases.
    """

    suite: Suite
    context: SuiteContext
    display_folder: str
    environ: Mapping[str, str]
    code: CodeAllowed
    cards: Mapping[str, JudgeCard] = field(default_factory=dict)
    python: ProjectPython | None = None
    used: tuple[str, ...] = ()
    case_functions: tuple[str, ...] = ()

    @property
    def flags(self) -> Flags:
        """The options of the command."""
        return self.context.flags

    @property
    def place(self) -> str:
        """Path of the suite's file relative to the current folder."""
        return f"{self.display_folder}/{self.suite.file}" if self.display_folder else self.suite.file

    @property
    def interpreter(self) -> Path | None:
        """Path of the Python that runs the suite's code; None if the program's own Python runs it."""
        return None if self.python is None else self.python.interpreter

    @property
    def redactor(self) -> Redactor:
        """Redactor for the secrets of the suite and its environment, without those of its agent and judges."""
        return redactor_of_loaded([self])

    def with_flags(self, **changes: Any) -> Self:
        """Return the suite with other values of some flags."""
        return structs.replace(self, context=self.context.with_flags(**changes))

    def located(self, problem: Problem) -> str | LocatedProblem:
        """Return a problem of the suite's files with its position."""
        return locate_problem(problem, self.suite.folder, self.display_folder)

    def problem(self, message: str, mark: SourceMark | None = None, field: str = "") -> str | LocatedProblem:
        """Return a problem of the suite as a whole, with its position, or as a sentence if `mark` is None."""
        return suite_problem(self.suite, self.display_folder, mark, field, message)

    def target_problems(self, error: TargetError) -> list[str | LocatedProblem]:
        """Return the problems of the suite's target with their positions."""
        return target_problems(
            self.suite, self.display_folder, str(error), error.problems, target_text=self.flags.written_target
        )

    def worker_pool(
        self,
        size: int,
        redact: Redact,
        *,
        on_import: Callable[[Sequence[str]], None] = lambda files: None,
        spans: bool = False,
        watch: Watch | None = None,
    ) -> WorkerPool:
        """Return processes for the suite's code (see `WorkerPool`); none is started before the first call."""
        return WorkerPool(
            self.suite.folder,
            environ=self.environ,
            cwd=self.suite.checkout.cwd,
            size=size,
            code=self.code,
            redact=redact,
            on_import=on_import,
            interpreter=self.interpreter,
            spans=spans,
            import_s=self.suite.policy.limits.import_timeout_s,
            watch=watch,
        )


def redactor_of_loaded(suites: Iterable[LoadedSuite], environ: Mapping[str, str] = MappingProxyType({})) -> Redactor:
    """Return a redactor for the secrets of suites and environments, without the secrets that only agents and judges
    have."""
    found = {secret for item in suites for secret in item.suite.secrets | environment_secrets(item.environ)}
    return Redactor(found | environment_secrets(environ))


def load_suites(
    patterns: Sequence[str],
    context: SuiteContext,
    *,
    on_found: Callable[[Sequence[Path]], None] = lambda paths: None,
    grades: bool = False,
) -> tuple[LoadedSuite, ...]:
    """Find suites and load them.

    Args:
        patterns: files, folders with an agent.yaml, or globs.
        context: environment, folders and permissions of suites.
        on_found: called with the files of all suites, before the first is loaded.
        grades: whether a run of the suites follows, whose judging libraries then start as soon as the suites' files are
            valid.

    Raises:
        ConfigurationError: code of suites must not run here, a suite does not exist or may not be read, or suites are
            invalid; the error lists the problems of all suites.
    """
    try:
        paths = _find_suites(patterns, context.cwd, context.flags.allow_paths)
    except ConfigurationError:
        require_permission(context.permission, (context.cwd,))
        raise
    code = require_permission(context.permission, tuple(path.parent for path in paths))
    on_found(paths)
    return _load_all(paths, context, code, grades=grades)


def require_permission(permission: Callable[[tuple[Path, ...]], CodeAllowed], folders: tuple[Path, ...]) -> CodeAllowed:
    """Return the permission to start code of the suites in these folders.

    Raises:
        ConfigurationError: the code must not run.
    """
    try:
        return permission(folders)
    except CodeRefusedError as refused:
        raise ConfigurationError([str(refused)]) from None


def load_suite_at(path: Path, checkout: Checkout, context: SuiteContext, *, grades: bool = False) -> LoadedSuite:
    """Load one suite, which may have no cases, from its file.

    Args:
        path: absolute path of the suite's file.
        checkout: the suite's folder, and the files that may be read.
        context: environment, folders and permissions of suites.
        grades: see `load_suites`.

    Raises:
        ConfigurationError: the suite is invalid.
    """
    # A copy of an earlier commit is made of the checkout.
    folder = path.parent if context.copy_of is None else context.copy_of[1]
    code = require_permission(context.permission, (folder,))
    (loaded,) = _load_all([path], context.with_flags(allow_empty=True), code, checkout=checkout, grades=grades)
    return loaded


def load_one_suite(pattern: str, context: SuiteContext, reason: str, *, grades: bool = False) -> LoadedSuite:
    """Find one suite, and load it.

    Args:
        pattern: a file, a folder or a glob.
        context: environment, folders and permissions of suites.
        reason: clause with the reason why only one suite is allowed, for the error message if several match.
        grades: see `load_suites`.

    Raises:
        ConfigurationError: several suites match, or as for `load_suites`.
    """

    def require_one(paths: Sequence[Path]) -> None:
        if len(paths) > 1:
            raise ConfigurationError([f"{pattern}: {len(paths)} suites match; {reason}"])

    (loaded,) = load_suites((pattern,), context, on_found=require_one, grades=grades)
    return loaded


def _find_suites(patterns: Sequence[str], cwd: Path, allowed: Sequence[GivenPath]) -> tuple[Path, ...]:
    """Return the files of the suites that the patterns name: files, folders with an agent.yaml, or globs of both.

    A policy file selects the agent.yaml in its folder.

    Raises:
        ConfigurationError: a pattern matches no file, or a file is a link that leads out of its checkout.
    """
    found: list[Path] = []
    problems: list[str] = []
    for pattern in patterns:
        path = cwd / pattern
        if path.name in POLICY_NAMES and path.is_file():
            path = path.with_name("agent.yaml")
            if not path.is_file():
                problems.append(f"{pattern}: this policy file's folder has no agent.yaml; give the path of a suite")
                continue
        # As `root_dir`: the folder's own name may contain brackets.
        names = [path] if path.exists() else glob.glob(pattern, root_dir=cwd, recursive=True)
        paths = [each / "agent.yaml" if each.is_dir() else each for each in map(cwd.joinpath, names)]
        matches = sorted(filter(Path.is_file, paths))
        if not matches:
            suggests_init = pattern == "agent.yaml" and "init" in registry.commands()
            problem = f"{pattern}: no such suite; give the path of an agent.yaml, its folder, or a glob"
            problems.append(f"{problem}; `holodeck-action init` writes one" if suggests_init else problem)
        found.extend(matches)
    problems += [
        f"{path!s}: the name of this file is not UTF-8 text; rename it" for path in found if is_not_utf8(path.name)
    ]
    for path in found:
        try:
            Checkout.of(path.parent, cwd, allowed).resolve(path)
        except RefusedFileError as error:
            problems.append(f"{display_folder(path, cwd)}: {error.clause}")
    if problems:
        raise ConfigurationError(problems)
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def _load_all(
    paths: Sequence[Path],
    context: SuiteContext,
    code: CodeAllowed,
    *,
    checkout: Checkout | None = None,
    grades: bool = False,
) -> tuple[LoadedSuite, ...]:
    """Load suites and check that their code graders can be imported.

    Raises:
        ConfigurationError: suites are invalid; the error lists the problems of all of them.
    """
    suites: list[LoadedSuite] = []
    lines: list[str | LocatedProblem] = []
    metrics = installed_metrics()
    for path in paths:
        shown = display_folder(path.parent, context.cwd)
        place = checkout or Checkout.of(path.parent, context.cwd, context.flags.allow_paths)
        try:
            found = load_environment(place, context.environ, env_file=context.flags.env_file)
            rows = CaseRows(place, found.variables, context.package_setup(code), context.install)
            suite = load_suite(
                path,
                environ=found.variables,
                home=context.home,
                metrics=metrics,
                checkout=place,
                plain_http=context.flags.allow_plain_http,
                allow_empty=context.flags.allow_empty,
                rows=rows,
                notices=found.notices,
                conversations=context.conversations,
            )
            cards = _read_cards(suite)
            if grades and not context.flags.dry_run:
                start_judging_libraries(suite, context.flags)
            used, functions = rows.used, tuple(rows.functions)
            loaded = LoadedSuite(suite, context, shown, found.variables, code, cards, case_functions=functions)
            if suite.graders:
                loaded = with_python(loaded)
            watch = Watch(place.root_paths, used.extend)
            wrong = asyncio.run(check_callables(loaded, suite.graders, watch=watch)) if suite.graders else {}
        except SuiteError as error:
            lines += _locate_problems(error, path.parent, shown, place)
            continue
        except ConfigurationError as error:
            lines += error.problems
            continue
        for reference, message in wrong.items():
            mark = suite.graders[reference]
            field_name = "gates.summary.function" if mark == suite.summary_mark else "grader"
            lines.append(loaded.located(Problem(mark, field_name, message)))
        # The answers of another commit's suite are graded by the suite that is tested.
        uncompared = None if context.copy_of is not None else uncompared_problem(suite)
        if uncompared is not None:
            lines.append(loaded.located(uncompared))
        else:
            suite = structs.replace(suite, notices=(*suite.notices, *unread_notices(suite), *weak_assertions(suite)))
        suites.append(structs.replace(loaded, suite=suite, used=tuple(dict.fromkeys(used))))
    if lines:
        raise ConfigurationError(with_lines(lines, suites, context.environ))
    return tuple(suites)


def _read_cards(suite: Suite) -> Mapping[str, JudgeCard]:
    """Return the judge cards that the policy file names, by name of the metric.

    Raises:
        SuiteError: a card cannot be used, or no extension reads judge cards.
    """
    if not suite.card_marks:
        return {}
    extension = registry.cards()
    if extension is None:
        problem = Problem(suite.card_marks[0], "judges.cards", registry.unknown_phrase())
        raise SuiteError([problem], suite.secrets, (mark.file for mark in suite.card_marks))
    found: Mapping[str, JudgeCard] = registry.resolve(extension.read)(suite)
    return found


def _locate_problems(
    error: SuiteError, folder: Path, display_path: str, checkout: Checkout
) -> list[str | LocatedProblem]:
    """Return the problems of a suite's files, each with an excerpt of the line that it concerns."""
    from holodeck_action.suite.excerpts import QuotableFiles, add_excerpts

    quotable = QuotableFiles(checkout, error.files, error.redactor.text)
    return add_excerpts(
        [locate_problem(problem, folder, display_path) for problem in error.problems], {folder: quotable}
    )


def with_lines(
    problems: Iterable[str | LocatedProblem],
    suites: Sequence[LoadedSuite],
    environ: Mapping[str, str] = MappingProxyType({}),
) -> list[str | LocatedProblem]:
    """Return problems of loaded suites without the secrets of suites and of `environ`, each with an excerpt of the line
    that it concerns."""
    from holodeck_action.suite.excerpts import QuotableFiles, add_excerpts

    known = {item.suite.folder: QuotableFiles(item.suite.checkout, None, item.redactor.text) for item in suites}
    # Errors of the suite's code may contain secrets.
    redactor = redactor_of_loaded(suites, environ)
    return [map_texts(each, redactor.text) for each in add_excerpts(problems, known)]


def load_policy_file(policy: GivenPath, context: SuiteContext) -> Policy:
    """Load a policy file without its suite.

    Raises:
        ConfigurationError: the file is invalid.
    """
    try:
        return load_policy(policy.path, str(policy), environ=context.environ, metrics=installed_metrics())
    except SuiteError as error:
        folder = policy.real.parent
        shown = display_folder(folder, context.cwd)
        raise ConfigurationError(_locate_problems(error, folder, shown, Checkout.unbounded(folder))) from error


def is_not_utf8(text: str) -> bool:
    """Return whether a string was decoded from bytes that are not UTF-8; a results file cannot contain such a
    string."""
    return replace_surrogates(text) != text


def display_folder(folder: Path, cwd: Path) -> str:
    """Return a folder's path relative to `cwd`; an empty string if it is `cwd` itself."""
    shown = os.path.relpath(folder, cwd)
    return "" if shown == "." else Path(shown).as_posix()


def ensure_writable(folder: GivenPath) -> None:
    """Create a folder, and check that results can be written to it.

    Raises:
        ConfigurationError: the folder cannot be created or written to.
    """
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder.path):
            pass
    except OSError as error:
        raise ConfigurationError(
            [f"{folder}: results cannot be written here: {error.strerror}; give a writable folder with --output-dir"]
        ) from error


def with_python(loaded: LoadedSuite, target: AnyTarget | None = None) -> LoadedSuite:
    """Return a suite with its project's Python, with packages installed; unchanged if the run needs no Python.

    Raises:
        ConfigurationError: the requested Python does not exist, or the packages cannot be installed.
    """
    if loaded.python is not None or not needs_python(loaded.suite, target):
        return loaded
    # Many suites have no code.
    from holodeck_action.run.environments.environments import environment_problem, project_python
    from holodeck_action.run.environments.packages import PackagesError

    setup = loaded.context.package_setup(loaded.code)
    try:
        return structs.replace(loaded, python=project_python(loaded.suite, loaded.environ, setup))
    except PackagesError as error:
        problem = environment_problem(loaded.suite, loaded.display_folder, error, setup)
        raise ConfigurationError([problem]) from error


async def check_callables(
    loaded: LoadedSuite, references: Iterable[str], *, spans: bool = False, watch: Watch | None = None
) -> dict[str, str]:
    """Import callables in a worker process; return the error messages of the references that cannot be called.

    If `spans` is true, also check that the process can collect spans. `watch` notes the files that are used.

    Raises:
        UserCodeError: an import took longer than its limit.
    """
    problems: dict[str, str] = {}
    async with loaded.worker_pool(1, loaded.redactor.text, spans=spans, watch=watch) as pool:
        for reference in references:
            try:
                await pool.check(reference)
            except UserCodeError as error:
                # The same suite may be imported in time on another day.
                if error.code == "import_timeout":
                    raise
                problems[reference] = error.message
    return problems
