"""DeepEval itself: imported late and once; in a run it is kept from looking around.

Its import reads dotenv files and a key store of the current folder, builds its settings from the whole environment (an
empty `AZURE_OPENAI_ENDPOINT` or a foreign `LOG_LEVEL` makes it fail) and takes twice as long where the package
`anthropic` is installed, which none of its metrics needs. In a run it sees next to nothing of the environment, and its
settings stay as they were then. What is hidden is hidden from the importing thread alone: the run goes on beside it.
In a program of somebody else it is imported as that program would: DeepEval's own models and metrics work beside ours.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.isolation import Library, hidden_environment

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
    return _LIBRARY.get()


def import_early() -> None:
    """Import it before a deadline runs: that takes seconds, which are no time of an evaluation.

    What goes wrong is told where it is needed.
    """
    with suppress(EvaluationError):
        metrics()


def import_for_run() -> ModuleType:
    """Import it for a run, whose process is the command's own.

    Raises:
        EvaluationError: see `metrics`.
    """
    return _LIBRARY.import_hidden()


def module(name: str) -> ModuleType:
    """Return a module of DeepEval.

    Raises:
        EvaluationError: see `metrics`.
    """
    metrics()
    return importlib.import_module(name)


def _load() -> ModuleType:
    found = importlib.import_module("deepeval.metrics")
    importlib.import_module("deepeval.config.settings").get_settings()
    return found


def _settle() -> None:
    """Keep its settings: it would build them anew from the real environment, and hash that at every look."""
    settings: Any = importlib.import_module("deepeval.config.settings")
    seen = settings._settings_env_fingerprint
    settings._calc_env_fingerprint = lambda: seen


def _failure(error: BaseException) -> EvaluationError:
    if isinstance(error, ImportError):
        return EvaluationError(
            f"the metrics of DeepEval need a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[agents,judges]'",
            code="not_installed",
        )
    return EvaluationError(
        f"DeepEval, which the metric needs, cannot be imported: {type(error).__name__}: {error}; "
        "install it anew with: pip install --force-reinstall 'holodeck-action[agents,judges]'",
        code="not_importable",
    )


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


@contextmanager
def _hidden() -> Iterator[None]:
    with hidden_environment(_SWITCHES), _without_anthropic():
        yield


_LIBRARY = Library("deepeval", _load, _failure, _hidden, _settle)
