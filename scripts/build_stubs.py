"""Writes stubs for editors and type checkers: HoloDeck's import names (PEP 561, partial) and the public metrics."""

from __future__ import annotations

import shutil
from pathlib import Path

from holodeck_action.compat import served_names
from holodeck_action.metrics import public

METRICS = Path(__file__).parents[1] / "holodeck_action" / "metrics" / "__init__.pyi"
FOLDER = Path(__file__).parents[1] / "holodeck-stubs"
_ROOT = "holodeck"
_PARTIAL = "partial\n"
"""Content of `py.typed`: an installed HoloDeck provides the types of its other modules."""


def stubs() -> dict[str, str]:
    """Return the texts of the stub files by path below the folder."""
    modules = {module: names for module, names in served_names().items() if module.partition(".")[0] == _ROOT}
    found = {"py.typed": _PARTIAL}
    for module, names in modules.items():
        is_package = any(other.startswith(f"{module}.") for other in modules)
        parts = module.split(".")[1:]
        path = "/".join([*parts, "__init__"] if is_package else parts)
        found[f"{path}.pyi"] = "".join(f"{_line(name, source)}\n" for name, source in sorted(names.items()))
    return found


def metrics_stub() -> str:
    """Return the stub of `holodeck_action.metrics`."""
    lines = [_line(name, source).split("\n") for name, source in sorted(public().items())]
    imports, names = ("\n".join(sorted(line[at] for line in lines)) for at in (0, 1))
    others = "def public() -> dict[str, str]: ..."
    return f"# ruff: noqa: I001\n{imports}\n\n{names}\n\n{others}\n"


def _line(name: str, source: str) -> str:
    module, _, own = source.partition(":")
    if name == own:
        return f"from {module} import {own} as {name}"
    # Only an assignment exports another name (typing specification, "Import conventions").
    return f"from {module} import {own}\n{name} = {own}"


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for file, text in stubs().items():
        (FOLDER / file).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / file).write_text(text, encoding="utf-8")
    METRICS.write_text(metrics_stub(), encoding="utf-8")
