"""Builds the input of `import --prove`: pairs of an assertion and an answer, both for promptfoo and as a suite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.importers.converted_suite import files_of
from holodeck_action.extensions.importers.grader_file import MODULE
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.assertions import COMPUTED, TYPES
from holodeck_action.extensions.importers.promptfoo.building import SuiteBuilder
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt
from holodeck_action.extensions.importers.promptfoo.providers import providers_of
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, TestReader
from holodeck_action.extensions.importers.proof import Pair, Proof
from holodeck_action.extensions.importers.source import Source, place_of, plain
from holodeck_action.suite.configuration_errors import ConfigurationError

MOST_PAIRS = 5_000
"""Most pairs of an assertion and an answer in one comparison."""


def build_proof(source: Source, folder: Path, answers: Sequence[str]) -> Proof:
    """Pair each assertion with the recorded answer of its case and with each further answer.

    Args:
        source: the configuration.
        folder: absolute path of the folder for the suite.
        answers: further answers, with each of which every assertion is paired.

    Raises:
        ConfigurationError: the file is not a configuration, or there is nothing to compare.
    """
    root = source.document().root
    if not isinstance(root, dict):
        raise ConfigurationError([f"{source.shown}:1:1: is not a promptfoo configuration"])
    templates = Templates()
    found = list(_pairs_with_tests(list(TestReader(source, templates, root, TYPES).tests()), answers))
    if not found:
        way_out = "give cases a providerOutput, or answers with --answers"
        raise ConfigurationError([f"{source.shown}: no assertion has a recorded answer: {way_out}"])
    if len(found) > MOST_PAIRS:
        raise ConfigurationError([f"{source.shown}: has {len(found):,} pairs to compare, more than {MOST_PAIRS:,}"])
    [provider] = providers_of(source, {"providers": ["echo"]})
    prompt = Prompt(place_of(source.name, root), "", "proof")

    def build_files(tests: Sequence[Test]) -> tuple[Mapping[str, str], Sequence[Row]]:
        builder = SuiteBuilder(source, templates, {}, provider, folder, allow_missing=False)
        return files_of(builder.build("", None, [prompt], tests)), builder.rows

    _, rows = build_files([test for _, test in found])
    not_compared = {
        f"{row.file}:{row.line}:{row.column}": f"{row.file}:{row.line} {row.source}"
        for row in rows
        if not _needs_no_model(row)
    }
    kept = [(pair, test) for pair, test in found if pair.place not in not_compared]
    if not kept:
        raise ConfigurationError([f"{source.shown}: nothing can be compared: every assertion needs a model"])
    files, _ = build_files([test for _, test in kept])
    theirs = {"prompts": ["proof"], "providers": ["echo"], "tests": [_test_entry(source, test) for _, test in kept]}
    return Proof([pair for pair, _ in kept], files, json.dumps(theirs), list(not_compared.values()))


def _needs_no_model(row: Row) -> bool:
    """Return whether a row of the import report can be compared without calling a model."""
    if row.outcome in (Outcome.MISSING, Outcome.GRADER):
        return row.outcome is Outcome.GRADER
    return not row.asserts or row.becomes in COMPUTED or row.becomes.startswith(f"{MODULE}:")


def _pairs_with_tests(tests: Sequence[Test], answers: Sequence[str]) -> Sequence[tuple[Pair, Test]]:
    made: dict[tuple[str, str, str], tuple[Pair, Test]] = {}
    for test in tests:
        own = test.data.get("providerOutput")
        for written in () if test.problem or test.unsupported_setting else test.assertions:
            # promptfoo treats an empty answer as missing and asks the provider.
            for answer in filter(None, (*((own,) if isinstance(own, str) else ()), *answers)):
                key = (written.place.exact, json.dumps(test.variables, sort_keys=True), answer)
                name = f"pair {len(made) + 1}"
                kind = str(written.data.get("type"))
                pair = Pair(name, written.place.exact, kind, answer)
                data = {"description": name, "providerOutput": answer}
                made.setdefault(key, (pair, replace(test, data=data, assertions=(written,))))
    return list(made.values())


def _test_entry(source: Source, test: Test) -> dict[str, Any]:
    [written] = test.assertions
    return {
        **test.data,
        "vars": plain(test.variables),
        "options": {**plain(test.options), "disableVarExpansion": True},
        "assert": [_with_absolute_files(source, plain(written.data))],
    }


def _with_absolute_files(source: Source, value: Any) -> Any:
    """Return data with absolute paths in `file://` values, since promptfoo runs in another folder."""
    if isinstance(value, dict):
        return {key: _with_absolute_files(source, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_absolute_files(source, item) for item in value]
    if isinstance(value, str) and value.startswith("file://"):
        return f"file://{source.path.parent / value.removeprefix('file://')}"
    return value
