"""The program, its Python, and the extras and programs that are installed."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata

from holodeck_action import __version__
from holodeck_action.extensions.doctor.findings import Finding
from holodeck_action.seam import registry
from holodeck_action.seam.extras import is_packaged
from holodeck_action.text.lazy_patterns import lazy_pattern

_ABOUT, _PACKAGE, _PROGRAMS = "Installation", "holodeck-action", ("git", "uv", "node")
_REQUIREMENT = lazy_pattern(r"([A-Za-z0-9._-]++)[^;]*+;.*extra == ['\"]([A-Za-z0-9._-]+)['\"]")
"""Matches a package that an extra requires (core metadata, Requires-Dist)."""


def missing_packages() -> dict[str, list[str]] | None:
    """Return the packages that are not installed, by extra; None if the extras are unknown."""
    try:
        required = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    missing: dict[str, list[str]] = {}
    for extra, package in sorted(match.groups()[::-1] for line in required if (match := _REQUIREMENT.match(line))):
        missing.setdefault(extra, [])
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            missing[extra].append(package)
    return missing


def examine_installation(
    environ: Mapping[str, str], running: tuple[int, ...] = sys.version_info[:3]
) -> Iterator[Finding]:
    """Yield the findings about the installation; `running` is the version of Python."""
    python, system = f"{platform.python_implementation()} {platform.python_version()}", platform.platform()
    for subject, version in (("version", f"holodeck-action {__version__}"), ("python", python), ("platform", system)):
        yield Finding(_ABOUT, subject, "ok", version)
    missing = missing_packages()
    if missing is None:
        yield Finding(_ABOUT, "extras", "unknown", "the metadata of the package are not installed")
    else:
        installed = [extra for extra, packages in missing.items() if not packages]
        lacking = {extra: packages for extra, packages in missing.items() if packages}
        absent = "".join(f"; without {extra} ({', '.join(packages)})" for extra, packages in lacking.items())
        unpackaged = [extra for extra in missing if not is_packaged(extra, running)]
        details = {"installed": installed, "missing": lacking, "unpackaged": unpackaged}
        if unpackaged:
            absent += f"; for Python {running[0]}.{running[1]} there are no packages of {', '.join(unpackaged)}"
        yield Finding(_ABOUT, "extras", "ok", f"{', '.join(installed) or 'none'}{absent}", details)
    try:
        names = [extension.name for extension in registry.foreign_extensions()]
        yield Finding(_ABOUT, "extensions of other packages", "ok", ", ".join(names) or "none", {"names": names})
    except registry.ExtensionError as error:
        yield Finding(_ABOUT, "extensions of other packages", "note", f"{error}; update or remove its package")
    found = {name: shutil.which(name, path=environ.get("PATH")) is not None for name in _PROGRAMS}
    texts = (name if there else f"no {name}" for name, there in found.items())
    yield Finding(_ABOUT, "programs", "ok", ", ".join(texts), found)
