"""Reads a written suite back with the loader of suites, and compares each of its texts with what was converted."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holodeck_action.extensions.importers.written import (
    POLICY,
    SUITE,
    TRANSCRIPT,
    WrittenSuite,
    document_of,
    policy_of,
    rows_of,
    variable,
)
from holodeck_action.metrics.registry import built_in
from holodeck_action.record.disk import write_atomically
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.values import Suite
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import parse_json

_SHOWN = 5
"""Differences that are named."""
_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def problems_of(suite: WrittenSuite, whole: Mapping[str, str]) -> list[str]:
    """Return why a suite must not be written: what the loader would refuse or read differently; empty if nothing.

    Args:
        suite: what was converted.
        whole: its files, as `files_of` gives them.
    """
    start = f"{suite.folder}/" if suite.folder else ""
    files = {name.removeprefix(start): text for name, text in whole.items()}
    try:
        changed = [f"{start}{place}" for place in _changed(suite, files)]
    except SuiteError as error:
        return [
            f"{start}{line}; nothing was written, because the suite would not load" for line in error.problems[:_SHOWN]
        ]
    told = [
        f"{place}: would be read as another value than the one that was imported; nothing was written: change it in "
        f"{suite.source}"
        for place in changed[:_SHOWN]
    ]
    more = len(changed) - _SHOWN
    return [*told, f"{more} more values would be read differently"] if more > 0 else told


def _changed(suite: WrittenSuite, files: Mapping[str, str]) -> Iterator[str]:
    """Yield each place where what is loaded differs.

    Raises:
        SuiteError: the loader refuses the suite.
    """
    # A variable has the value by which it is marked.
    environ = {name: variable(name) for text in (files[SUITE], files[POLICY]) for name in _NAME.findall(text)}
    for name, meant in ((SUITE, document_of(suite)), (POLICY, policy_of(suite))):
        document = read_yaml(Foreign(files[name].encode()), file=name, environ=environ)
        if document.problems:
            raise SuiteError(document.problems)
        yield from _differing(name, meant, document.root)
    rows = [parse_json(line) for line in files.get(TRANSCRIPT, "").split("\n") if line]
    yield from _differing(TRANSCRIPT, [row for case in suite.cases for row in rows_of(case)], rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            write_atomically(Path(folder, name), [text.encode()])
        try:
            loaded = load_suite(Path(folder, SUITE), environ=environ, home=None, metrics=built_in(), plain_http=True)
        except SuiteError:
            if environ:
                # The values of variables decide whether it loads, and they are not known here.
                return
            raise
    yield from _asked_differently(suite, loaded)


def _asked_differently(suite: WrittenSuite, loaded: Suite) -> Iterator[str]:
    if len(loaded.cases) != len(suite.cases):
        yield f"{SUITE}: test_cases"
        return
    for case, found in zip(suite.cases, loaded.cases, strict=True):
        meant = [
            (turn.fields.get("input"), turn.fields.get("ground_truth"), turn.fields.get("retrieval_context"))
            for turn in case.turns
        ]
        read = [
            (turn.input, turn.ground_truth, None if turn.retrieval_context is None else list(turn.retrieval_context))
            for turn in found.turns
        ]
        if (case.name, meant) != (found.name, read):
            yield f"{SUITE}: the case {case.name!r}"


def _differing(place: str, meant: Any, read: Any) -> Iterator[str]:
    """Yield the places at which two values differ; a number that the loader keeps as written is the same."""
    if isinstance(meant, Mapping) and isinstance(read, dict):
        if list(meant) != list(read):
            yield f"{place}: the keys"
            return
        for key, item in meant.items():
            yield from _differing(f"{place}: {key}" if ": " not in place else f"{place}.{key}", item, read[key])
    elif isinstance(meant, list | tuple) and isinstance(read, list):
        if len(meant) != len(read):
            yield f"{place}: the number of entries"
            return
        for index, item in enumerate(meant):
            yield from _differing(f"{place}[{index}]", item, read[index])
    elif isinstance(meant, str) or not isinstance(read, str):
        if meant != read or isinstance(meant, bool) is not isinstance(read, bool):
            yield place
    elif str(meant).lower() != read.lower():
        yield place
