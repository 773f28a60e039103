"""A configuration as pairs of an assertion and a recorded answer, for promptfoo and as a suite of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.importers.accounting import Outcome, Row
from holodeck_action.extensions.importers.grader_file import MODULE
from holodeck_action.extensions.importers.promptfoo.assertions import TYPES
from holodeck_action.extensions.importers.promptfoo.building import SuiteBuilder
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt
from holodeck_action.extensions.importers.promptfoo.providers import providers_of
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, TestReader
from holodeck_action.extensions.importers.proof import Pair, Proof
from holodeck_action.extensions.importers.source import Source, place_of, plain
from holodeck_action.extensions.importers.written import files_of
from holodeck_action.suite.configuration_errors import ConfigurationError

MOST_PAIRS = 5_000
"""Pairs of an assertion and an answer that are compared at once."""


def proof_of(source: Source, folder: Path, answers: Sequence[str]) -> Proof:
    """Pair each assertion with the recorded answer of its case, and with each of some more answers.

    Args:
        source: the configuration.
        folder: the absolute folder that our suite is for.
        answers: answers for every assertion.

    Raises:
        ConfigurationError: it is no configuration, or there is nothing to compare.
    """
    root = source.document().root
    if not isinstance(root, dict):
        raise ConfigurationError([f"{source.shown}:1:1: is no configuration of promptfoo"])
    templates = Templates()
    found = list(_pairs(list(TestReader(source, templates, root, TYPES).tests()), answers))
    if not found:
        way_out = "give cases a providerOutput, or answers with --answers"
        raise ConfigurationError([f"{source.shown}: no assertion has a recorded answer: {way_out}"])
    if len(found) > MOST_PAIRS:
        raise ConfigurationError([f"{source.shown}: has {len(found):,} pairs to compare, more than {MOST_PAIRS:,}"])
    [provider] = providers_of(source, {"providers": ["echo"]})
    prompt = Prompt(place_of(source.name, root), "", "proof")

    def built(tests: Sequence[Test]) -> tuple[Mapping[str, str], Sequence[Row]]:
        builder = SuiteBuilder(source, templates, {}, provider, folder, allow_missing=False)
        return files_of(builder.suite("", None, [prompt], tests)), builder.rows

    _, rows = built([test for _, test in found])
    left = {
        f"{row.file}:{row.line}:{row.column}": f"{row.file}:{row.line} {row.source}" for row in rows if not _checks(row)
    }
    kept = [(pair, test) for pair, test in found if pair.place not in left]
    if not kept:
        raise ConfigurationError([f"{source.shown}: nothing can be compared: every assertion needs a model"])
    files, _ = built([test for _, test in kept])
    theirs = {"prompts": ["proof"], "providers": ["echo"], "tests": [_test(source, test) for _, test in kept]}
    return Proof([pair for pair, _ in kept], files, json.dumps(theirs), list(left.values()))


def _checks(row: Row) -> bool:
    """Tell whether a row is of a check that needs no model."""
    if row.outcome in (Outcome.MISSING, Outcome.GRADER):
        return row.outcome is Outcome.GRADER
    return not row.asserts or row.becomes == "equality" or row.becomes.startswith(f"{MODULE}:")


def _pairs(tests: Sequence[Test], answers: Sequence[str]) -> Sequence[tuple[Pair, Test]]:
    made: dict[tuple[str, str, str], tuple[Pair, Test]] = {}
    for test in tests:
        own = test.data.get("providerOutput")
        for written in () if test.problem or test.unfit else test.assertions:
            # promptfoo takes an empty answer for none, and asks the provider.
            for answer in filter(None, (*((own,) if isinstance(own, str) else ()), *answers)):
                key = (written.place.exact, json.dumps(test.variables, sort_keys=True), answer)
                name = f"pair {len(made) + 1}"
                kind = str(written.data.get("type"))
                pair = Pair(name, written.place.exact, kind, answer)
                data = {"description": name, "providerOutput": answer}
                made.setdefault(key, (pair, replace(test, data=data, assertions=(written,))))
    return list(made.values())


def _test(source: Source, test: Test) -> dict[str, Any]:
    [written] = test.assertions
    return {
        **test.data,
        "vars": plain(test.variables),
        "options": {**plain(test.options), "disableVarExpansion": True},
        "assert": [_found(source, plain(written.data))],
    }


def _found(source: Source, value: Any) -> Any:
    """Name files from the root: the configuration is read from another folder."""
    if isinstance(value, dict):
        return {key: _found(source, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_found(source, item) for item in value]
    if isinstance(value, str) and value.startswith("file://"):
        return f"file://{source.path.parent / value.removeprefix('file://')}"
    return value
