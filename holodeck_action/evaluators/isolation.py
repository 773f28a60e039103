"""What imports of large libraries may see: they read settings, keys and addresses wherever they find them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, cast

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
