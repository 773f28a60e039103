"""Write the bytecode that holodeck-action uses, and nothing else: a step of the Dockerfile.

Bytecode is as large as its source, and most modules of a library serve what others use of it. A module without bytecode
works as before; Python compiles it at each import. Bytecode depends on what its process compiled before: one process
compiles all modules in their order, so that the files are the same in every build.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess
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
    """Compile the templates, import all modules of ours, and compile what was imported."""
    for template in sorted(template_folder().glob("*.j2")):
        shipped_template(template.name)
    ours = [module.name for module in pkgutil.walk_packages(holodeck_action.__path__, "holodeck_action.")]
    for name in (*ours, *IMPORTED_LATE):
        with suppress(Exception):  # the slim image lacks libraries of some modules
            importlib.import_module(name)
    packages = Path(sysconfig.get_path("purelib"))
    # With their folders: what a build ran, such as setuptools, differs with what the cache of uv holds.
    for folder in [*packages.rglob("__pycache__")]:
        shutil.rmtree(folder)
    found = {str(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]}
    used = sorted(file for file in found if file.endswith(".py") and Path(file).is_relative_to(packages))
    # The bytecode stays valid whatever happens to the times of files (unchecked-hash).
    command = [sys.executable, "-sP", "-m", "compileall", "-qq", "--invalidation-mode", "unchecked-hash", "-i", "-"]
    subprocess.run(command, input="\n".join(used), text=True, check=True)


if __name__ == "__main__":
    main()
