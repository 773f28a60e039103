"""Determines the Python that runs a suite's code: the program's own, or one with the project's packages."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.run.environments.packages import (
    BasePython,
    PackagesError,
    Recipe,
    environments_folder,
    install_environment,
    packages_recipe,
    project_recipe,
    requirements_recipe,
    use_interpreter,
)
from holodeck_action.run.environments.setup import PackageSetup, ProjectPython
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import LocatedProblem, locate_problem
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.model.environments import Environment, environment_from
from holodeck_action.suite.values import Suite
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.plain import cut_start
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess

OLDEST = (3, 9)
"""The oldest Python that workers run under."""
JOB_PYTHON = "HOLODECK_ACTION_PYTHON"
"""Variable with the job's Python: it runs suites that configure none, and packages are installed for it."""
_PROBE_TIMEOUT_S = 60.0
_MAX_PROBE_BYTES = 10_000
"""Maximum bytes that an interpreter may print about itself."""
_MAX_OUTPUT_CHARACTERS = 1500
"""Maximum characters of uv's output in messages; only the end is kept."""
_PROBE = "import sys; print(*sys.version_info[:2], sys.version.replace('\\n', ' '), sys.prefix, sep='\\n')"


def project_python(suite: Suite, environ: Mapping[str, str], setup: PackageSetup) -> ProjectPython | None:
    """Return the project's Python with its packages installed; None if the program's own Python runs the code.

    Raises:
        PackagesError: the requested Python does not exist, or the packages cannot be installed.
    """
    return environment_python(suite.policy.environment, suite.checkout, environ, setup)


def environment_python(
    environment: Environment | None, checkout: Checkout, environ: Mapping[str, str], setup: PackageSetup
) -> ProjectPython | None:
    """Return the Python for an `environment` of a policy file; see `project_python`."""
    environment, files = _requested_environment(environment, checkout, environ, setup)
    if environment is None:
        return None
    if environment.interpreter is not None:
        return _probe_python(environment.interpreter, setup.original_folder(files.folder), environ, setup.code)
    try:
        return _find_or_install(_recipe(environment, files), environ, setup)
    except OSError as error:
        raise PackagesError(f"{error.filename} cannot be read: {error.strerror}") from None
    except PackagesError as error:
        if not error.output:
            raise
        # uv repeats addresses of package indexes.
        redactor = Redactor({*environment_secrets(environ), *credentials_in(error.output)})
        raise PackagesError(f"{error}: {cut_start(redactor.text(error.output), _MAX_OUTPUT_CHARACTERS)}") from None


def environment_problem(
    suite: Suite, display_path: str, error: PackagesError, setup: PackageSetup
) -> str | LocatedProblem:
    """Return the problem of a suite's packages, at the line that names them."""
    environment = suite.policy.environment
    if setup.requirements:
        return f"--requirements: {error}"
    if environment is None:
        return f"{JOB_PYTHON}: {error}"
    return locate_problem(
        Problem(suite.environment_mark, f"environment.{environment.given_key}", str(error)), suite.folder, display_path
    )


def _requested_environment(
    environment: Environment | None, checkout: Checkout, environ: Mapping[str, str], setup: PackageSetup
) -> tuple[Environment | None, Checkout]:
    if setup.requirements:
        try:
            return environment_from(setup.requirements), Checkout.unbounded(setup.cwd)
        except ValueError as error:
            raise PackagesError(str(error)) from None
    if environment is None and environ.get(JOB_PYTHON):
        return Environment(interpreter=environ[JOB_PYTHON]), Checkout.unbounded(setup.cwd)
    return environment, checkout


def _recipe(environment: Environment, checkout: Checkout) -> Recipe:
    if environment.requirements is not None:
        return requirements_recipe(environment.requirements, checkout)
    if environment.project is not None:
        return project_recipe(environment.project, checkout)
    return packages_recipe(environment.packages or (), checkout.folder)


def _find_or_install(recipe: Recipe, environ: Mapping[str, str], setup: PackageSetup) -> ProjectPython:
    folder = _folder_for(recipe, environ, setup)
    base = _base_python(environ, setup)
    python = use_interpreter(recipe, base, folder)
    if python is None:
        setup.announce(f"installing {recipe.shown} in {folder}")
        begun = time.monotonic()
        python = install_environment(recipe, base, folder, environ, setup.code)
        setup.announce(f"installed {recipe.shown} in {time.monotonic() - begun:.1f} s")
    return ProjectPython(python, recipe.digest(base))


def _folder_for(recipe: Recipe, environ: Mapping[str, str], setup: PackageSetup) -> Path:
    """Return the folder for installed environments. For packages that are used in place, the folder is in the temporary
    copy.

    Raises:
        PackagesError: no such folder can be determined.
    """
    if setup.copy_of is not None and recipe.in_place:
        return setup.copy_of[0] / ".holodeck" / "environments"
    return environments_folder(environ, setup.home)


def _base_python(environ: Mapping[str, str], setup: PackageSetup) -> BasePython:
    """Return the Python for which packages are installed: that of the job's environment, or else the program's own.

    Raises:
        PackagesError: the requested Python does not exist.
    """
    named = environ.get(JOB_PYTHON)
    if not named:
        return BasePython(sys.executable, f"{sys.version} {sys.base_prefix}")
    try:
        python = _probe_python(named, setup.cwd, environ, setup.code)
    except PackagesError as error:
        raise PackagesError(f"{JOB_PYTHON}: {error}") from None
    return BasePython(str(python.interpreter), python.digest)


def _probe_python(name: str, folder: Path, environ: Mapping[str, str], code: CodeAllowed) -> ProjectPython:
    """Check an existing interpreter by running it, and return it.

    Raises:
        PackagesError: the file is missing, is not a Python interpreter, or is too old.
    """
    path = folder / name
    with tempfile.TemporaryFile() as answer:
        probe = (str(path), "-I", "-c", _PROBE)
        try:
            process = KillableProcess(probe, job_environment(environ), code=code, stdout=answer.fileno())
        except OSError as error:
            raise PackagesError(f"{name} cannot be started: {error.strerror}") from None
        if process.wait(_PROBE_TIMEOUT_S) is None:
            raise PackagesError(f"{name} did not answer in {_PROBE_TIMEOUT_S:g} s")
        answer.seek(0)
        lines = answer.read(_MAX_PROBE_BYTES).decode("utf-8", "replace").splitlines()
    match lines:
        case [major, minor, version, prefix] if major.isdecimal() and minor.isdecimal():
            release = (int(major), int(minor))
        case _:
            raise PackagesError(f"{name} is not a Python interpreter (allowed: a path to Python 3.9 or newer)")
    if release < OLDEST:
        raise PackagesError(f"{name} is Python {major}.{minor}; code of a suite needs 3.9 or newer")
    return ProjectPython(path, f"{version} {prefix}")
