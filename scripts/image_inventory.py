"""Print the packages and programs of an image as JSON, for scripts/bill_of_materials.py.

    docker run --rm --network none --entrypoint /opt/holodeck-action/bin/python IMAGE \
        -Ic "$(cat scripts/image_inventory.py)"

Runs in a container with the standard library alone.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

NPM = Path("/usr/local/lib/node_modules/npm/package.json")


def printed(*command: str) -> str:
    """Return the output of a command."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def licence(package: Distribution) -> str:
    """Return a package's licence expression, or the short text that older metadata have; empty if there is none."""
    stated = package.metadata.json
    text = str(stated.get("license_expression") or stated.get("license") or "")
    return text if "\n" not in text and len(text) < 80 else ""


def python_packages() -> list[dict[str, str]]:
    """Return the packages of the program's environment."""
    found = [
        {"name": package.name, "version": package.version, "licence": licence(package)} for package in distributions()
    ]
    return sorted(found, key=lambda package: package["name"].lower())


def debian_packages() -> list[dict[str, str]]:
    """Return the packages of the distribution."""
    listed = printed("dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${Architecture}\n")
    return [
        dict(zip(("name", "version", "architecture"), line.split("\t"), strict=True)) for line in listed.splitlines()
    ]


def programs() -> list[dict[str, str]]:
    """Return the programs that no package manager of the image knows."""
    found = [{"name": "cpython", "version": platform.python_version()}]
    found += [
        {"name": name, "version": re.findall(r"\d+(?:\.\d+)+", printed(path, "--version"))[0]}
        for name in ("uv", "node")
        if (path := shutil.which(name, path="/usr/local/bin"))
    ]
    if NPM.exists():
        found.append({"name": "npm", "version": json.loads(NPM.read_text(encoding="utf-8"))["version"]})
    return found


def main() -> None:
    """Print the inventory."""
    release = platform.freedesktop_os_release()
    system = {"name": release["ID"], "version": release.get("VERSION_ID", "")}
    inventory = {"system": system, "debian": debian_packages(), "python": python_packages(), "programs": programs()}
    json.dump(inventory, sys.stdout)


if __name__ == "__main__":
    main()
