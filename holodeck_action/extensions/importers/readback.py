"""Loads the files of a converted suite and checks that the loaded suite equals the converted one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holodeck_action.extensions.importers.converted_suite import (
    POLICY,
    SUITE,
    TRANSCRIPT,
    ConvertedSuite,
    policy_document,
    suite_document,
    transcript_rows,
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
from holodeck_action.text.lazy_patterns import lazy_pattern

_LISTED = 5
"""Maximum number of differences to list."""
_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def readback_problems(suite: ConvertedSuite, output_files: Mapping[str, str]) -> list[str]:
    """Return messages about places that the loader would reject or read as another value; empty if there are none.

    A suite with such places must not be written.

    Args:
        suite: the converted suite.
        output_files: files of the suite, as returned by `files_of`.
    """
    start = f"{suite.folder}/" if suite.folder else ""
    files = {name.removeprefix(start): text for name, text in output_files.items()}
    try:
        changed = [f"{start}{place}" for place in _changed_places(suite, files)]
    except SuiteError as error:
        return [
            f"{start}{line}; nothing was written, because the suite would not load" for line in error.problems[:_LISTED]
        ]
    told = [
        f"{place}: would be read back as another value than the imported one, so nothing was written; change it in "
        f"{suite.source}"
        for place in changed[:_LISTED]
    ]
    more = len(changed) - _LISTED
    return [*told, f"{more} more values would be read differently"] if more > 0 else told


def _changed_places(suite: ConvertedSuite, file_texts: Mapping[str, str]) -> Iterator[str]:
    """Yield each position at which the loaded suite differs from the converted suite.

    Raises:
        SuiteError: the loader rejects the suite.
    """
    # Each variable gets a placeholder with the variable's name as value.
    environ = {
        name: variable(name) for text in (file_texts[SUITE], file_texts[POLICY]) for name in _VARIABLE.findall(text)
    }
    for name, meant in ((SUITE, suite_document(suite)), (POLICY, policy_document(suite))):
        document = read_yaml(Foreign(file_texts[name].encode()), file=name, environ=environ)
        if document.problems:
            raise SuiteError(document.problems)
        yield from _differing_places(name, meant, document.root)
    rows = [parse_json(line) for line in file_texts.get(TRANSCRIPT, "").split("\n") if line]
    yield from _differing_places(TRANSCRIPT, [row for case in suite.cases for row in transcript_rows(case)], rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in file_texts.items():
            write_atomically(Path(folder, name), [text.encode()])
        try:
            loaded = load_suite(Path(folder, SUITE), environ=environ, home=None, metrics=built_in(), plain_http=True)
        except SuiteError:
            if environ:
                # Whether the suite loads depends on the values of variables, which are unknown here.
                return
            raise
    yield from _input_differences(suite, loaded)


def _input_differences(suite: ConvertedSuite, loaded: Suite) -> Iterator[str]:
    if len(loaded.cases) != len(suite.cases):
        yield f"{SUITE}: test_cases"
        return
    for case, found in zip(suite.cases, loaded.cases, strict=True):
        meant = [
            (
                # The input and the expected answer of a simulated user are those of `simulate`.
                turn.fields.get("input", ""),
                turn.fields.get("simulate", turn.fields).get("expected_outcome", turn.fields.get("ground_truth")),
                turn.fields.get("retrieval_context"),
            )
            for turn in case.turns
        ]
        read = [
            (turn.input, turn.ground_truth, None if turn.retrieval_context is None else list(turn.retrieval_context))
            for turn in found.turns
        ]
        if (case.name, meant) != (found.name, read):
            yield f"{SUITE}: the case {case.name!r}"


def _differing_places(place: str, expected: Any, actual: Any) -> Iterator[str]:
    """Yield the positions at which two values differ; a string that spells a number equals the number."""
    if isinstance(expected, Mapping) and isinstance(actual, dict):
        if list(expected) != list(actual):
            yield f"{place}: the keys"
            return
        for key, item in expected.items():
            yield from _differing_places(
                f"{place}: {key}" if ": " not in place else f"{place}.{key}", item, actual[key]
            )
    elif isinstance(expected, list | tuple) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{place}: the number of entries"
            return
        for index, item in enumerate(expected):
            yield from _differing_places(f"{place}[{index}]", item, actual[index])
    elif isinstance(expected, str) or not isinstance(actual, str):
        if expected != actual or isinstance(expected, bool) is not isinstance(actual, bool):
            yield place
    elif str(expected).lower() != actual.lower():
        yield place
