"""Stand-ins for packages that DeepEval imports for clients of its own, which are never used here.

They take more than half of its import. Real ones are imported as ever once the block is left.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """A module with a class of every name that is asked for: classes of errors are caught, others only named."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (Exception,), {})
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = frozenset(packages)
        self.made: list[str] = []

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the place of a stand-in; None for every other module."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] in self._packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        self.made.append(spec.name)
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has no code."""


@contextmanager
def stand_ins(*packages: str) -> Iterator[list[str]]:
    """Let stand-ins be imported in the block for packages that have not been imported yet; yield those that were."""
    finder = _Finder(name for name in packages if name not in sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield finder.made
    finally:
        sys.meta_path.remove(finder)
        for name in finder.made:
            sys.modules.pop(name, None)
