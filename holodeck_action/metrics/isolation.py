"""Large libraries, imported once: hidden from the environment, or as any program would import them.

They read settings, keys and addresses wherever they find them. A run decides these by its suite, and its process is
the command's own. A program that uses an evaluator may use DeepEval itself, too: there it is imported as the program
would import it, and keeps what the program has set.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, cast

from holodeck_action.metrics.errors import EvaluationError

_SEEN = ("HOME", "LANG", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ")
"""Variables that the import may see; all others can only change what the metrics do."""

_LOCK = threading.Lock()


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
def hidden_environment(switches: Mapping[str, str]) -> Iterator[None]:
    """Import with next to nothing of the environment; one import at a time.

    What is hidden is hidden from this thread alone: the run goes on beside it.

    Args:
        switches: variables that only the import sees.
    """
    with _LOCK:
        real = os.environ
        seen = {name: value for name, value in real.items() if name in _SEEN or name.startswith(("LC_", "PYTHON"))}
        hidden = _Environment(real, seen | dict(switches))
        # Its variables stay: only what this thread finds under the name changes.
        os.environ = cast(Any, hidden)  # noqa: B003
        try:
            yield
        finally:
            os.environ = real  # noqa: B003
            hidden.reveal()


class Library:
    """A library that is imported once; what went wrong then goes wrong for good."""

    def __init__(
        self,
        name: str,
        load: Callable[[], ModuleType],
        failure: Callable[[BaseException], EvaluationError],
        hiding: Callable[[], AbstractContextManager[None]],
        settle: Callable[[], None],
    ) -> None:
        """Prepare; nothing is imported.

        Args:
            name: of its module.
            load: imports it.
            failure: says what went wrong.
            hiding: keeps it from looking around.
            settle: keeps it as it was imported when it was hidden.
        """
        self._name = name
        self._load = load
        self._failure = failure
        self._hiding = hiding
        self._settle = settle
        self._lock = threading.Lock()
        self._found: ModuleType | EvaluationError | None = None
        self.hidden = False
        """Whether it was imported hidden from the environment."""

    def get(self) -> ModuleType:
        """Return it as it is there; where it is not, import it as any program would.

        Raises:
            EvaluationError: it cannot be imported.
        """
        return self._import(hidden=False)

    def import_hidden(self) -> ModuleType:
        """Import it hidden from the environment; one that is there stays as it is.

        Raises:
            EvaluationError: it cannot be imported.
        """
        return self._import(hidden=True)

    def _import(self, *, hidden: bool) -> ModuleType:
        with self._lock:
            if self._found is None:
                self._found = self._imported(hidden=hidden)
        if isinstance(self._found, EvaluationError):
            # Each raise its own: tracebacks pile up on an error that is raised again.
            raise EvaluationError(self._found.message, code=self._found.code) from self._found.__cause__
        return self._found

    def _imported(self, *, hidden: bool) -> ModuleType | EvaluationError:
        # Where somebody uses it already, it has settings of his own.
        self.hidden = hidden and self._name not in sys.modules
        with self._hiding() if self.hidden else nullcontext():
            try:
                found = self._load()
                if self.hidden:
                    self._settle()
            # A package that ends the program would end it with its own exit code.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                failed = self._failure(error)
                failed.__cause__ = error
                return failed
        return found
