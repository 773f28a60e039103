"""DeepEval itself: imported late, once, and kept from looking around.

Its import reads dotenv files and a key store of the current folder, builds its settings from the whole environment (an
empty `AZURE_OPENAI_ENDPOINT` or a foreign `LOG_LEVEL` makes it fail) and takes twice as long where the package
`anthropic` is installed, which none of its metrics needs. Here it sees next to nothing of the environment, and its
settings stay as they were then.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import ModuleType
from typing import Any

from holodeck_action.evaluators.errors import EvaluationError

_SEEN = ("HOME", "LANG", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ")
"""Variables that the import may see; all others can only change what the metrics do."""

_SWITCHES = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
    # Deadlines and retries are the evaluator's and the wire's.
    "DEEPEVAL_DISABLE_TIMEOUTS": "1",
    "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1",
}
_LOCK = threading.Lock()


@cache
def metrics() -> ModuleType:
    """Return `deepeval.metrics`; the first call takes a second or two.

    Raises:
        EvaluationError: the packages of the `judges` extra are not installed (code `not_installed`).
    """
    return _imported("deepeval.metrics")


def module(name: str) -> ModuleType:
    """Return a module of DeepEval.

    Raises:
        EvaluationError: see `metrics`.
    """
    metrics()
    return importlib.import_module(name)


def preload() -> None:
    """Import in the background, while the agent's first answers are on their way."""
    threading.Thread(target=_quietly, name="import of deepeval", daemon=True).start()


def _quietly() -> None:
    # Who needs it meets the same error.
    with suppress(Exception):
        metrics()


def _imported(name: str) -> ModuleType:
    with _LOCK, _hidden_environment(), _without_anthropic():
        try:
            found = importlib.import_module(name)
        except ImportError as error:
            raise EvaluationError(
                f"metrics judged by a model need a package that is not installed ({error.name or error}); "
                "install it with: pip install 'holodeck-action[agents,judges]'",
                code="not_installed",
            ) from error
        settings: Any = importlib.import_module("deepeval.config.settings")
        settings.get_settings()
        seen = settings._settings_env_fingerprint
        # It would build its settings anew from the real environment, and hash that at every look.
        settings._calc_env_fingerprint = lambda: seen
        return found


@contextmanager
def _hidden_environment() -> Iterator[None]:
    before = dict(os.environ)
    for variable in before:
        if variable not in _SEEN and not variable.startswith(("LC_", "PYTHON")):
            del os.environ[variable]
    os.environ.update(_SWITCHES)
    try:
        yield
    finally:
        for variable in [variable for variable in os.environ if variable not in before]:
            del os.environ[variable]
        os.environ.update(before)


@contextmanager
def _without_anthropic() -> Iterator[None]:
    """Let DeepEval believe that `anthropic` is not installed, unless somebody uses it already."""
    if "anthropic" in sys.modules:
        yield
        return
    sys.modules["anthropic"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["anthropic"]
