"""DeepEval itself: imported late, once, and kept from looking around.

Its import reads dotenv files and a key store of the current folder, builds its settings from the whole environment (an
empty `AZURE_OPENAI_ENDPOINT` or a foreign `LOG_LEVEL` makes it fail) and takes twice as long where the package
`anthropic` is installed, which none of its metrics needs. Here it sees next to nothing of the environment, and its
settings stay as they were then. What is hidden is hidden from the importing thread alone: the run goes on beside it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

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


class _Environment(MutableMapping[str, str]):
    """The environment: a mapping of its own for one thread, the real one for all others.

    Modules that took it keep it, so that it must serve for good.
    """

    def __init__(self, real: MutableMapping[str, str], shown: dict[str, str]) -> None:
        self._real = real
        self._shown: dict[str, str] | None = shown
        self._thread = threading.get_ident()

    def reveal(self) -> None:
        """Show the real one to every thread."""
        self._shown = None

    @property
    def _seen(self) -> MutableMapping[str, str]:
        if self._shown is not None and threading.get_ident() == self._thread:
            return self._shown
        return self._real

    def __getitem__(self, name: str) -> str:
        return self._seen[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._seen[name] = value

    def __delitem__(self, name: str) -> None:
        del self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def copy(self) -> dict[str, str]:
        """Return it as a mapping of its own."""
        return dict(self._seen)


@contextmanager
def _hidden_environment() -> Iterator[None]:
    real = os.environ
    seen = {name: value for name, value in real.items() if name in _SEEN or name.startswith(("LC_", "PYTHON"))}
    hidden = _Environment(real, seen | _SWITCHES)
    # Its variables stay: only what this thread finds under the name changes.
    os.environ = cast(Any, hidden)  # noqa: B003
    try:
        yield
    finally:
        os.environ = real  # noqa: B003
        hidden.reveal()


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
