"""Keep the bytecode that holodeck-action uses and remove the rest: a step of the Dockerfile.

Bytecode is as large as its source, and most modules of a library serve what others use of it. A module without bytecode
works as before; Python compiles it at each import.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import holodeck_action
from holodeck_action.reports.templating import shipped_template, template_folder

IMPORTED_LATE = (
    "mcp.client.session",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "ollama",
    "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "rich.markdown",
)
"""Modules of libraries that functions of ours import, and no module as a whole."""


def main() -> None:
    """Compile the templates, import all modules of ours, and remove the bytecode of modules that are not imported."""
    for template in template_folder().glob("*.j2"):
        shipped_template(template.name)
    ours = [module.name for module in pkgutil.walk_packages(holodeck_action.__path__, "holodeck_action.")]
    for name in (*ours, *IMPORTED_LATE):
        with suppress(Exception):  # the slim image lacks libraries of some modules
            importlib.import_module(name)
    used = {getattr(module, "__cached__", None) for module in [*sys.modules.values()]}
    for file in Path(sysconfig.get_path("purelib")).rglob("*.pyc"):
        if str(file) not in used:
            file.unlink()


if __name__ == "__main__":
    main()
