"""What uv.lock says the image has."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT = "holodeck-action"

Package = dict[str, Any]


def locked_packages() -> dict[str, Package]:
    """All packages of uv.lock by name."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    return {package["name"]: package for package in lock["package"]}


def with_dependencies(wanted: Iterable[dict[str, Any]]) -> set[str]:
    """Names of the wanted packages and of all they need, on any platform."""
    packages = locked_packages()
    seen: set[tuple[str, str]] = set()
    ahead = [(need["name"], extra) for need in wanted for extra in ("", *need.get("extra", ()))]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        package = packages[name]
        needs = package.get("optional-dependencies", {}).get(extra, ()) if extra else package.get("dependencies", ())
        ahead += [(need["name"], more) for need in needs for more in ("", *need.get("extra", ()))]
    return {name for name, _ in seen}


def everything_installed() -> set[str]:
    """Names of the packages that the project needs with all its extras."""
    project = locked_packages()[PROJECT]
    extras = [need for needs in project["optional-dependencies"].values() for need in needs]
    return with_dependencies([*project["dependencies"], *extras])


def hashes(package: Package) -> set[str]:
    """Hashes of all files of a locked package."""
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
    return {file["hash"] for file in files}
