"""What ends a call early, in sentences: never a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holodeck_action import __version__

EXIT_CONFIGURATION = 2
EXIT_INTERNAL = 3
EXIT_INTERRUPTED = 4


def explained(error: BaseException, environ: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Return the exit code for an error and what to say about it: one problem a line, without the job's secrets."""
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    code, lines = _sentences(error)
    redactor = Redactor(environment_secrets(environ))
    return code, tuple(map(redactor.text, lines))


def _sentences(error: BaseException) -> tuple[int, tuple[str, ...]]:
    from holodeck_action.results.folder import FolderError
    from holodeck_action.suite.configuration_errors import ConfigurationError

    if isinstance(error, ConfigurationError):
        return EXIT_CONFIGURATION, error.lines
    if isinstance(error, FolderError):
        return EXIT_CONFIGURATION, (str(error),)
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, ("interrupted",)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    sentence = f"holodeck-action {__version__} has a defect{place}: {type(error).__name__}: {error}; please report it"
    return EXIT_INTERNAL, (sentence,)
