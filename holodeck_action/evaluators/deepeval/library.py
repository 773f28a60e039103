"""DeepEval itself: imported late, once, and kept from looking around.

Its import reads dotenv files and a key store of the current folder, builds its settings from the whole environment (an
empty `AZURE_OPENAI_ENDPOINT` or a foreign `LOG_LEVEL` makes it fail) and takes twice as long where the package
`anthropic` is installed, which none of its metrics needs. Here it sees next to nothing of the environment, and its
settings stay as they were then. What is hidden is hidden from the importing thread alone: the run goes on beside it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from holodeck_action.evaluators.errors import EvaluationError
from holodeck_action.evaluators.isolation import hidden_environment

_SWITCHES = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
    # Deadlines and retries are the evaluator's and the wire's.
    "DEEPEVAL_DISABLE_TIMEOUTS": "1",
    "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1",
}


def metrics() -> ModuleType:
    """Return `deepeval.metrics`; the first call takes a second or two, and what went wrong then goes wrong for good.

    Raises:
        EvaluationError: the packages of the `judges` extra are not installed (code `not_installed`), or cannot be
            imported (`not_importable`).
    """
    found = _imported()
    if isinstance(found, EvaluationError):
        # Each raise its own: tracebacks pile up on an error that is raised again.
        raise EvaluationError(found.message, code=found.code) from found.__cause__
    return found


def module(name: str) -> ModuleType:
    """Return a module of DeepEval.

    Raises:
        EvaluationError: see `metrics`.
    """
    metrics()
    return importlib.import_module(name)


@cache
def _imported() -> ModuleType | EvaluationError:
    with hidden_environment(_SWITCHES), _without_anthropic():
        try:
            found = importlib.import_module("deepeval.metrics")
            settings: Any = importlib.import_module("deepeval.config.settings")
            settings.get_settings()
        # A package that ends the program would end it with its own exit code.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return _failed(error)
        seen = settings._settings_env_fingerprint
        # It would build its settings anew from the real environment, and hash that at every look.
        settings._calc_env_fingerprint = lambda: seen
        return found


def _failed(error: BaseException) -> EvaluationError:
    if isinstance(error, ImportError):
        failed = EvaluationError(
            f"the metrics of DeepEval need a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[agents,judges]'",
            code="not_installed",
        )
    else:
        failed = EvaluationError(
            f"DeepEval, which the metric needs, cannot be imported: {type(error).__name__}: {error}; "
            "install it anew with: pip install --force-reinstall 'holodeck-action[agents,judges]'",
            code="not_importable",
        )
    failed.__cause__ = error
    return failed


class _WithoutAnthropic:
    """A finder for which `anthropic` is not installed, in one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse `anthropic`; all else is for other finders."""
        if name == "anthropic" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@contextmanager
def _without_anthropic() -> Iterator[None]:
    """Let DeepEval believe that `anthropic` is not installed, unless somebody uses it already."""
    finder = _WithoutAnthropic()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
