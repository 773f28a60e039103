"""The Python that code of a suite runs in: the program's own, or one with the project's packages."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from holodeck_action.run.environments.packages import (
    Base,
    PackagesError,
    Recipe,
    environments_folder,
    find,
    install,
    of_packages,
    of_project,
    of_requirements,
)
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import Located, located
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.loader import graders
from holodeck_action.suite.model.environments import Environment, environment_from
from holodeck_action.suite.model.targets import AnyTarget, ModelTarget, PythonTarget
from holodeck_action.suite.values import Suite
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.plain import cut_before
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess

OLDEST = (3, 9)
"""The oldest Python that workers run under."""
OF_THE_JOB = "HOLODECK_ACTION_PYTHON"
"""Variable that names the Python for suites of which nothing else says any, and for which packages are installed."""
_ANSWER_S = 60.0
_LONGEST_ANSWER = 10_000
"""Bytes."""
_WORDS = 1500
"""Characters of what uv says that are repeated: the last ones."""
_PROBE = "import sys; print(*sys.version_info[:2], sys.version.replace('\\n', ' '), sys.prefix, sep='\\n')"


class ProjectPython(Struct, frozen=True):
    """An interpreter of the project.

    Attributes:
        interpreter: absolute; not resolved, since its place tells which packages it has.
        digest: what tells environments apart, wherever they are.
    """

    interpreter: Path
    digest: str


class Installing(Struct, frozen=True):
    """How packages come to a suite.

    Attributes:
        requirements: lines of `--requirements`; none where the policy file decides.
        home: the user's home folder; None where there is none.
        cwd: where paths of `requirements` start, absolute.
        code: the permission: what is installed runs, and so does an interpreter.
        tell: takes a sentence on what takes time.
        copy_of: where the suite is in a copy of what is under version control: that copy, and what it is a copy of.
    """

    requirements: tuple[str, ...]
    home: Path | None
    cwd: Path
    code: CodeAllowed
    tell: Callable[[str], None] = lambda sentence: None
    copy_of: tuple[Path, Path] | None = None

    def original(self, folder: Path) -> Path:
        """Return the folder of which one is a copy, where interpreters are."""
        if self.copy_of is not None and folder.is_relative_to(self.copy_of[0]):
            return self.copy_of[1] / folder.relative_to(self.copy_of[0])
        return folder

    def environments(self, recipe: Recipe, environ: Mapping[str, str]) -> Path:
        """Return where environments are kept: with a copy, where they are of use for it alone.

        Raises:
            PackagesError: there is no such folder.
        """
        if self.copy_of is not None and recipe.in_place:
            return self.copy_of[0] / ".holodeck" / "environments"
        return environments_folder(environ, self.home)


def needs_python(suite: Suite, target: AnyTarget | None) -> bool:
    """Tell whether Python code of a suite runs for a target: its graders, the target, or functions of its model."""
    if isinstance(target, ModelTarget | None) and any(tool.type == "function" for tool in suite.agent.tools or ()):
        return True
    return isinstance(target, PythonTarget) or bool(graders(suite))


def project_python(suite: Suite, environ: Mapping[str, str], how: Installing) -> ProjectPython | None:
    """Return the Python of a suite's project, with its packages installed; None for the program's own.

    Raises:
        PackagesError: there is no such Python, or the packages cannot be installed.
    """
    return python_of(suite.policy.environment, suite.checkout, environ, how)


def python_of(
    environment: Environment | None, checkout: Checkout, environ: Mapping[str, str], how: Installing
) -> ProjectPython | None:
    """Return the Python that a policy file names; as `project_python`."""
    environment, files = _asked(environment, checkout, environ, how)
    if environment is None:
        return None
    if environment.interpreter is not None:
        return _existing(environment.interpreter, how.original(files.folder), environ, how.code)
    try:
        return _installed(_recipe(environment, files), environ, how)
    except OSError as error:
        raise PackagesError(f"{error.filename}: it cannot be read: {error.strerror}") from None
    except PackagesError as error:
        if not error.words:
            raise
        # uv repeats addresses of package indexes.
        redactor = Redactor({*environment_secrets(environ), *credentials_in(error.words)})
        raise PackagesError(f"{error}: {cut_before(redactor.text(error.words), _WORDS)}") from None


def environment_problem(suite: Suite, shown: str, error: PackagesError, how: Installing) -> str | Located:
    """Return what is wrong with the packages of a suite, at the line that asks for them."""
    environment = suite.policy.environment
    if how.requirements:
        return f"--requirements: {error}"
    if environment is None:
        return f"{OF_THE_JOB}: {error}"
    return located(Problem(suite.environment_mark, f"environment.{environment.way}", str(error)), suite.folder, shown)


def _asked(
    environment: Environment | None, checkout: Checkout, environ: Mapping[str, str], how: Installing
) -> tuple[Environment | None, Checkout]:
    if how.requirements:
        try:
            return environment_from(how.requirements), Checkout.anywhere(how.cwd)
        except ValueError as error:
            raise PackagesError(str(error)) from None
    if environment is None and environ.get(OF_THE_JOB):
        return Environment(interpreter=environ[OF_THE_JOB]), Checkout.anywhere(how.cwd)
    return environment, checkout


def _recipe(environment: Environment, files: Checkout) -> Recipe:
    if environment.requirements is not None:
        return of_requirements(environment.requirements, files)
    if environment.project is not None:
        return of_project(environment.project, files)
    return of_packages(environment.packages or (), files.folder)


def _installed(recipe: Recipe, environ: Mapping[str, str], how: Installing) -> ProjectPython:
    folder = how.environments(recipe, environ)
    base = _base(environ, how)
    python = find(recipe, base, folder)
    if python is None:
        how.tell(f"installing {recipe.shown} in {folder}")
        begun = time.monotonic()
        python = install(recipe, base, folder, environ, how.code)
        how.tell(f"installed {recipe.shown} in {time.monotonic() - begun:.1f} s")
    return ProjectPython(python, recipe.digest(base))


def _base(environ: Mapping[str, str], how: Installing) -> Base:
    """Return the Python for which packages are installed: the job's where it names one, else ours.

    Raises:
        PackagesError: there is no such Python.
    """
    named = environ.get(OF_THE_JOB)
    if not named:
        return Base(sys.executable, f"{sys.version} {sys.base_prefix}")
    try:
        python = _existing(named, how.cwd, environ, how.code)
    except PackagesError as error:
        raise PackagesError(f"{OF_THE_JOB}: {error}") from None
    return Base(str(python.interpreter), python.digest)


def _existing(name: str, folder: Path, environ: Mapping[str, str], code: CodeAllowed) -> ProjectPython:
    """Return an interpreter that is there.

    Raises:
        PackagesError: it is missing, no Python, or too old.
    """
    path = folder / name
    with tempfile.TemporaryFile() as answer:
        probe = (str(path), "-I", "-c", _PROBE)
        try:
            process = KillableProcess(probe, job_environment(environ), code=code, stdout=answer.fileno())
        except OSError as error:
            raise PackagesError(f"{name}: it cannot be started: {error.strerror}") from None
        if process.wait(_ANSWER_S) is None:
            raise PackagesError(f"{name}: it did not answer in {_ANSWER_S:g} s")
        answer.seek(0)
        lines = answer.read(_LONGEST_ANSWER).decode("utf-8", "replace").splitlines()
    match lines:
        case [major, minor, version, prefix] if major.isdecimal() and minor.isdecimal():
            release = (int(major), int(minor))
        case _:
            raise PackagesError(f"{name}: it is no Python (allowed: the path of one, 3.9 or newer)")
    if release < OLDEST:
        raise PackagesError(f"{name}: it is Python {major}.{minor}; code of a suite needs 3.9 or newer")
    return ProjectPython(path, f"{version} {prefix}")
