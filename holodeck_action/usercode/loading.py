"""Finding `module.path:callable` (used inside the worker process)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from holodeck_action.usercode.failures import CallError, Places


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
    try:
        found = getattr(module, attribute)
    except AttributeError:
        raise CallError(
            "missing_attribute", f"the module {module_name} has no {attribute}{_similar(attribute, module)}"
        ) from None
    if not callable(found):
        raise CallError(
            "not_callable", f"{attribute} in the module {module_name} is of type {type(found).__name__}, not callable"
        )
    return found  # type: ignore[no-any-return]  # a callable of any kind


def _import_failed(module_name: str, error: BaseException, places: Places) -> CallError:
    return places.raised(error, f"importing {module_name} raised", "import_failed")


def _similar(attribute: str, module: object) -> str:
    import difflib

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(attribute, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
