"""Makes the import names in HoloDeck's and gllm-evals' documents work if these packages are not installed.

Code graders and evaluators that use these names work unchanged. Worker processes have the names from the start; a
plain script imports `holodeck_action.compat` first. Before a name is used, only the manifests of extensions are
imported.

Sources of the names: HoloDeck's evaluations guide and evaluation API; gllm-evals' page of evaluators.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_ROOTS = ("holodeck", "gllm_evals")
_OWN: Mapping[str, Mapping[str, str]] = {
    "holodeck": {},
    "holodeck.lib": {},
    "holodeck.lib.test_runner": {},
    "holodeck.lib.test_runner.code_grader": {
        "GraderContext": "holodeck_action.workers.grading:GraderContext",
        "GraderResult": "holodeck_action.workers.grading:GraderResult",
    },
}
"""Our objects (`module:name`) for the names that graders import, by module and name; they need no manifest."""


@cache
def served_names() -> Mapping[str, Mapping[str, str]]:
    """Return for each served module, extensions' included, a mapping from its names to our objects (`module:name`)."""
    from holodeck_action.seam import registry

    found = {module: dict(names) for module, names in _OWN.items()}
    for module, names in registry.names():
        if module.partition(".")[0] not in _ROOTS:
            continue
        found.setdefault(module, {}).update(names)
        while module := module.rpartition(".")[0]:
            found.setdefault(module, {})
    return found


def _names_for(module: str) -> Mapping[str, Mapping[str, str]]:
    return _OWN if module in _OWN else served_names()


class _Finder:
    """Finds the documented modules; first on `sys.meta_path`, so that no folder of the same name can hide them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a documented module; None if the module is unknown or its package is installed."""
        root = name.partition(".")[0]
        if root not in _ROOTS:
            return None
        if name not in _names_for(name):
            self._refuse_unknown(name, sys.modules.get(root))
            return None
        folders: list[str] = []
        if name == root:
            other = self._find_installed(root)
            if other is not None and other.origin is not None:
                return None
            if other is not None:
                # A folder of that name on the module path: its own modules stay importable.
                folders = list(other.submodule_search_locations or ())
        elif not isinstance(getattr(sys.modules.get(root), "__loader__", None), _Loader):
            return None
        loader = cast("Loader", _Loader())
        spec = ModuleSpec(name, loader, is_package=any(module.startswith(f"{name}.") for module in _names_for(name)))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations += folders
        return spec

    @staticmethod
    def _refuse_unknown(name: str, package: ModuleType | None) -> None:
        """Refuse an unknown module of a package that is served here, unless a folder may contain the module.

        Raises:
            ModuleNotFoundError: no extension of this installation has the module.
        """
        if isinstance(getattr(package, "__loader__", None), _Loader) and not getattr(package, "__path__", ()):
            from holodeck_action.seam import registry

            raise ModuleNotFoundError(f"No module named {name!r}: it {registry.unknown_phrase()}", name=name)

    def _find_installed(self, top_name: str) -> ModuleSpec | None:
        """Return the spec of a package from the other finders; None if none of them finds the package."""
        for finder in sys.meta_path:
            if finder is not self:
                found = finder.find_spec(top_name, None)
                if found is not None:
                    return found
        return None


class _Loader:
    """Creates modules whose names are imported on first use."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the import system create the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Add the served names to a module."""
        names = _names_for(module.__name__)[module.__name__]
        module.__doc__ = f"{module.__name__}, as far as holodeck-action implements it."
        module.__dict__.update(
            __all__=sorted(names),
            __dir__=lambda: sorted({*module.__dict__, *names}),
            __getattr__=_attribute_reader(module, names),
        )


def _attribute_reader(module: ModuleType, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a served module, which imports the object for a name."""

    def read_attribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        source_module, _, source_name = names[name].partition(":")
        try:
            value = getattr(importlib.import_module(source_module), source_name)
        except (ImportError, SyntaxError) as error:
            # The project's own Python has none of our packages, and may be too old for our modules.
            raise ImportError(
                f"{module.__name__}.{name} needs Python 3.11 or newer with the packages of holodeck-action ({error}); "
                "add holodeck-action to the environment of the suite"
            ) from error
        setattr(module, name, value)
        return value

    return read_attribute


def _install() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


_install()
