"""Stand-ins for packages that DeepEval imports for its own model clients, which are never used here.

The real packages take more than half of DeepEval's import time; after a `with stand_ins(…)` block they can be imported.
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
    """A module that returns an exception class for any name; DeepEval only refers to these classes or catches them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (Exception,), {})
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = frozenset(packages)
        self.imported: list[str] = []

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a stand-in; None if the module is not replaced."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] in self._packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        self.imported.append(spec.name)
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stand-in has no code."""


@contextmanager
def stand_ins(*packages: str) -> Iterator[list[str]]:
    """Within the block, replace packages that are not imported yet; yield a list of the stand-ins that get imported."""
    finder = _Finder(name for name in packages if name not in sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield finder.imported
    finally:
        sys.meta_path.remove(finder)
        for name in finder.imported:
            sys.modules.pop(name, None)
