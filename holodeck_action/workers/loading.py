"""Finding `module.path:callable`, or a callable of a file (used inside the worker process)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from holodeck_action.workers.failures import CallError, Places


def load(reference: str, places: Places) -> Callable[..., Any]:
    """Import a module and return its callable.

    Raises:
        CallError: there is no such module (code `missing_module`), importing it fails (`import_failed`), it lacks the
            attribute (`missing_attribute`), or that cannot be called (`not_callable`).
    """
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CallError(
                "missing_module",
                f"there is no module {error.name} in the suite's folder, the current directory or what is installed",
            ) from None
        raise _import_failed(module_name, error, places) from None
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_failed(module_name, error, places) from None
    return _callable_of(module, attribute, f"the module {module_name}")


def load_from_file(file: str, function: str, folder: str, places: Places) -> Callable[..., Any]:
    """Run a file as a module, once per process, and return its callable.

    A file that the module path finds under its own name is imported under it, so that other modules which import it
    share its state.

    Args:
        file: path relative to the suite's folder.
        function: name of the callable.
        folder: the suite's folder, absolute.
        places: how files are shown.

    Raises:
        CallError: as `load`.
    """
    path = os.path.normpath(os.path.join(folder, file))
    if not os.path.isfile(path):
        raise CallError("missing_module", "the file does not exist (allowed: a path relative to agent.yaml)")
    try:
        module = _module_of_file(path, folder)
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_failed(file, error, places) from None
    return _callable_of(module, function, file)


def _module_of_file(path: str, folder: str) -> ModuleType:
    from importlib.machinery import SourceFileLoader
    from importlib.util import find_spec, module_from_spec, spec_from_loader

    parts = os.path.relpath(path, folder).removesuffix(".py").split(os.sep)
    if path.endswith(".py") and all(part.isidentifier() for part in parts):
        name = ".".join(parts)
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):  # a parent that is no package, a module without a spec
            spec = None
        if spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(path):
            return importlib.import_module(name)
    name = f"holodeck_action_file:{path}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_loader(name, SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses and pickles look their module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _callable_of(module: ModuleType, attribute: str, shown: str) -> Callable[..., Any]:
    try:
        found = getattr(module, attribute)
    except AttributeError:
        raise CallError("missing_attribute", f"{shown} has no {attribute}{_similar(attribute, module)}") from None
    if not callable(found):
        raise CallError("not_callable", f"{attribute} in {shown} is of type {type(found).__name__}, not callable")
    return found  # type: ignore[no-any-return]  # a callable of any kind


def _import_failed(name: str, error: BaseException, places: Places) -> CallError:
    return places.raised(error, f"importing {name} raised", "import_failed")


def _similar(attribute: str, module: object) -> str:
    import difflib

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(attribute, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
