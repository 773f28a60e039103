"""The extras that suites need, as far as words of their files tell; an extra is a group of optional packages.

`runner/start.py` uses it before anything is installed, so that it imports the standard library alone, on Python 3.9.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import iglob
from itertools import islice
from typing import NamedTuple

from holodeck_action.seam import registry
from holodeck_action.text.foreign import read_file
from holodeck_action.text.lazy_patterns import lazy_pattern

_MAX_REASONS = 3
"""Maximum number of reasons for an extra in a sentence."""
_MAX_FILES = 500
"""Maximum number of files that are searched."""
_SUITE_FILES = (".yaml", ".yml")
_NAMED = lazy_pattern(r"""\b(?:type|metric)["']?\s*:\s*["']?(\w+)""")
_SUFFIX = lazy_pattern(r"\.\w+\b")


class NeededExtra(NamedTuple):
    """An extra that a suite needs, and the reason, such as `metric geval`."""

    extra: str
    reason: str


def describe_needs(needed_extras: Iterable[NeededExtra]) -> str:
    """Return a clause with extras and reasons: `needs the extras: agents (tool shop), judges (metrics geval, rag)`."""
    by_extra: dict[str, dict[str, None]] = {}
    for need in needed_extras:
        by_extra.setdefault(need.extra, {})[need.reason] = None
    texts = []
    for extra, reasons in sorted(by_extra.items()):
        shown = [*reasons][:_MAX_REASONS]
        more = f" and {len(reasons) - len(shown)} more" if len(reasons) > len(shown) else ""
        texts.append(f"{extra} ({', '.join(shown)}{more})")
    return f"needs the extra{'s' if len(texts) > 1 else ''}: {', '.join(texts)}"


def expected_extras(workspace: str, suites: Sequence[str]) -> tuple[NeededExtra, ...]:
    """Return the extras for metrics, tools and tables that YAML files next to the suites name, without parsing them.

    It is a guess: `needed_extras` knows what a run needs when the suites are loaded.

    Args:
        workspace: absolute path of the folder where `suites` start.
        suites: files, folders and globs.
    """
    words: set[str] = set()
    suffixes: set[str] = set()
    for path in islice(_suite_files(workspace, suites), _MAX_FILES):
        # The program reports what cannot be read.
        with suppress(OSError):
            text = read_file(path).lossy_text()
            words.update(_NAMED.findall(text))
            suffixes.update(_SUFFIX.findall(text))
    return tuple(dict.fromkeys(_needs(words, suffixes)))


def _suite_files(workspace: str, suites: Sequence[str]) -> Iterator[str]:
    """Yield the YAML files in the folders of the suites, each once."""
    patterns = (os.path.join(workspace, suite) for suite in suites if "\0" not in suite)
    named = (path for pattern in patterns for path in islice(iglob(pattern, recursive=True), _MAX_FILES))
    for folder in dict.fromkeys(path if os.path.isdir(path) else os.path.dirname(path) for path in named):
        with suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(_SUITE_FILES):
                    yield os.path.join(folder, name)


def _needs(words: set[str], suffixes: set[str]) -> Iterator[NeededExtra]:
    extensions = {extension.name: extension for extension in registry.own_extensions()}
    for extension in extensions.values():
        # An extension's metrics use its own libraries, or those of the extensions that it imports.
        sources = (extension, *(extensions[name] for name in extension.needs if name in extensions))
        for metric in extension.metrics:
            if (metric.name or metric.type) in words:
                for library in (library for source in sources for library in source.libraries):
                    yield NeededExtra(library.extra, f"metric {metric.name or metric.type}")
        for tool in extension.tools:
            if tool.extra and tool.type in words:
                yield NeededExtra(tool.extra, f"tool {tool.type}")
        for table in extension.tables:
            if table.extra and table.suffix in suffixes:
                yield NeededExtra(table.extra, f"files {table.suffix}")
