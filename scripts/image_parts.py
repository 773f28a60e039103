"""Print the largest parts of the image in megabytes, as the table of docs/image.md has them.

    engine=$(scripts/build_image.sh) && "$engine" run --rm --network none --entrypoint /opt/holodeck-action/bin/python \
        holodeck-action -Ic "$(cat scripts/image_parts.py)"

Runs in a container with the standard library alone. A package is what is left of its list of files, with their
bytecode. The base, with what Debian installs for git, is everything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import cache_from_source
from pathlib import Path

SHOWN = 20
PLACES = {
    "Node.js": "/usr/local/bin/node",
    "git": "/usr/lib/git-core",
    "npm": "/usr/local/lib/node_modules",
    "uv": "/usr/local/bin/uv",
}


def files_below(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, or the path itself if it is a file."""
    if folder.is_file():
        yield folder
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def megabytes(files: set[Path]) -> float:
    """Return the size of files, without those that are missing or links."""
    return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink()) / 1e6


def package_files(names: list[Path]) -> set[Path]:
    """Return the files of a package with their bytecode."""
    code = [Path(cache_from_source(str(name))) for name in names if name.suffix == ".py"]
    return {Path(os.path.normpath(name)) for name in (*names, *code)}


def main() -> None:
    """Print the table."""
    parts = {name: megabytes(set(files_below(Path(place)))) for name, place in PLACES.items()}
    for package in distributions():
        listed = [Path(str(package.locate_file(file))) for file in package.files or ()]
        parts[package.name] = megabytes(package_files(listed))
    code = {file for file in files_below(Path("/usr/local/lib")) if file.suffix == ".pyc"}
    parts["bytecode of the standard library"] = megabytes(code)
    top = [Path("/", name) for name in os.listdir("/") if name not in ("proc", "sys", "dev", "tmp", "github")]
    everything = {file for folder in top if not folder.is_symlink() for file in files_below(folder)}
    parts["base"] = megabytes(everything) - sum(parts.values())
    for name, size in sorted(parts.items(), key=lambda part: -part[1])[:SHOWN]:
        print(f"| {name} | {size:.0f} |")


if __name__ == "__main__":
    main()
