"""Installs the extras that suites need, and then requests a restart; only for steps that run on the runner itself.

`runner/start.py` starts the program without extras. It sets the variable `INSTALLER` to its own path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from holodeck_action.run.environments.extra_needs import NeededExtra, describe_needs
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.plain import cut_start, one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import NO_CODE

INSTALLER = "HOLODECK_ACTION_INSTALLER"
"""Environment variable with two lines: the path of a Python, and the path of the installer. The installer is a script
that takes the names of extras, and prints the path of a Python with these extras."""
INSTALLED = "HOLODECK_ACTION_EXTRAS"
"""Environment variable with the installed extras of the program's Python, separated by commas."""
_TIMEOUT_S = 1800.0
_MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of the installer's output."""
_MAX_ERROR_CHARACTERS = 1000


class RestartError(Exception):
    """The program must start again, under `python` and with `variables` added to its environment."""

    def __init__(self, python: str, variables: Mapping[str, str]) -> None:
        super().__init__(python)
        self.python = python
        self.variables = variables


class RunnerExtras:
    """Installs extras for a program on the runner itself; elsewhere it installs nothing."""

    def __init__(self, environ: Mapping[str, str], log: TextIO) -> None:
        self._environ = environ
        self._log = log
        self._command = environ.get(INSTALLER, "").splitlines()
        self._installed = {*environ.get(INSTALLED, "").split(",")} - {""}
        self.variables: dict[str, str] = {}
        """Further variables for the program when it starts again."""

    @property
    def installs(self) -> bool:
        """Whether extras can be installed."""
        return bool(self._command)

    def install(self, needed_extras: Sequence[NeededExtra]) -> None:
        """Install missing extras; return if none is missing or nothing can be installed here.

        Raises:
            RestartError: extras were installed; the program must start again.
            ConfigurationError: extras cannot be installed.
        """
        missing = [need for need in needed_extras if need.extra not in self._installed]
        if not missing or not self._command:
            return
        redactor = Redactor(environment_secrets(self._environ))
        self._log.write(f"note: {one_line(redactor.text(describe_needs(missing)), 1000)}\n")
        self._log.flush()
        extras = sorted({*self._installed, *(need.extra for need in missing)})
        try:
            ended = run_program(
                (self._command[0], "-I", *self._command[1:], *extras),
                job_environment(self._environ),
                code=NO_CODE,
                timeout_s=_TIMEOUT_S,
                max_bytes=_MAX_OUTPUT_BYTES,
            )
            code, said = ended.code, ended.output.text().strip()
        except ProgramError as error:
            code, said = 1, f"the installer {error}"
        if code:
            hidden = Redactor({*environment_secrets(self._environ), *credentials_in(said)})
            words = cut_start(hidden.text(" ".join(said.split())), _MAX_ERROR_CHARACTERS)
            raise ConfigurationError([f"the extras {', '.join(extras)} cannot be installed: {words}"])
        raise RestartError(said.splitlines()[-1], {INSTALLED: ",".join(extras), **self.variables})
