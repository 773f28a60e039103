"""A promptfoo configuration as suites of ours: one for each provider, with a case for each prompt and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.importers.accounting import Outcome, Row
from holodeck_action.extensions.importers.names import Names
from holodeck_action.extensions.importers.promptfoo.assertions import TYPES
from holodeck_action.extensions.importers.promptfoo.building import SuiteBuilder
from holodeck_action.extensions.importers.promptfoo.naming import is_for, slug
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt, asked, prompts_of
from holodeck_action.extensions.importers.promptfoo.providers import Provider, providers_of, with_settings
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, TestReader
from holodeck_action.extensions.importers.source import Source, UnfitError, place_of
from holodeck_action.extensions.importers.written import (
    Imported,
    WrittenSuite,
)
from holodeck_action.suite.configuration_errors import ConfigurationError

_SETTINGS = {
    "redteam": "its cases are generated while it runs; write them to a file and name that under tests",
    "extensions": "hooks are not run",
    "nunjucksFilters": "filters of your own are not run",
    "derivedMetrics": "numbers made of others; use gates.summary or a composite metric",
    "env": "set these variables in the job",
}
"""Keys of a configuration that would change verdicts, and what to do."""


def convert(source: Source, out: Path, *, allow_missing: bool) -> Imported:
    """Read a configuration.

    Args:
        source: the file.
        out: the absolute folder that its suites are for.
        allow_missing: whether assertions without an equal are only comments, and not graders that refuse.

    Raises:
        ConfigurationError: it is no configuration, or has no case.
    """
    root = source.document().root
    if not isinstance(root, dict) or not {"tests", "prompts", "providers", "targets", "scenarios"} & root.keys():
        wanted = "expected: a mapping with prompts, providers and tests"
        raise ConfigurationError([f"{source.shown}:1:1: is no configuration of promptfoo ({wanted})"])
    templates = Templates()
    reader = TestReader(source, templates, root, TYPES)
    tests = list(reader.tests())
    if not tests:
        raise ConfigurationError([f"{source.shown}:1:1: has no test; give tests or scenarios"])
    rows = [*reader.rows, *_settings(source, root)]
    suites: list[WrittenSuite] = []
    folders = Names("{}-{}")
    providers = providers_of(source, root)
    prompts = prompts_of(source, root)
    tests = [_findable(test, providers, prompts) for test in tests]
    for number, provider in enumerate(providers, 1):
        rows.append(_provider_row(provider))
        asking = [prompt for prompt in prompts if prompt.is_meant(provider.prompts)]
        if not asking:
            raise ConfigurationError([f"{source.shown}: no prompt is for the provider {provider.name}"])
        provider, told = with_settings(provider, asking)
        rows += told
        groups = _by_instructions(asking, tests, provider, templates)
        for index, (instructions, chosen) in enumerate(groups, 1):
            parts = [slug(provider.name) or f"provider-{number}"] if len(providers) > 1 else []
            parts += [f"prompt-{index}"] if len(groups) > 1 else []
            folder = folders.add("-".join(parts))
            builder = SuiteBuilder(source, templates, root, provider, out / folder, allow_missing=allow_missing)
            suites.append(builder.suite(folder, instructions, chosen, tests))
            rows += builder.rows
    return Imported(suites, rows)


def _settings(source: Source, root: Mapping[str, Any]) -> Iterable[Row]:
    for key, note in _SETTINGS.items():
        if root.get(key):
            place = place_of(source.name, root, key)
            outcome = Outcome.SIMILAR if key in ("env", "derivedMetrics") else Outcome.MISSING
            yield Row(place.file, place.line, key, "set by hand", outcome, note, asserts=False)


def _findable(test: Test, providers: Sequence[Provider], prompts: Sequence[Prompt]) -> Test:
    """Return a case whose lists of providers and prompts name one of each; one that names none has a problem."""
    found = {
        "providers": is_for(test.data.get("providers"), {name for each in providers for name in each.ids}),
        "prompts": any(prompt.is_meant(test.data.get("prompts")) for prompt in prompts),
    }
    for key, known in found.items():
        if not known:
            data = {name: value for name, value in test.data.items() if name != key}
            problem = f"{key}: none of these is known; write the ids or labels of the configuration"
            test = replace(test, data=data, problem=test.problem or problem)
    return test


def _provider_row(provider: Provider) -> Row:
    becomes = "model" if provider.model is not None else "target"
    outcome = Outcome.MISSING if provider.problem else Outcome.METRIC
    note = provider.problem or "; ".join(provider.notes)
    source = f"provider {provider.name}"
    return Row(
        provider.place.file, provider.place.line, source, becomes, outcome, note, 0, False, provider.place.column
    )


def _by_instructions(
    prompts: Sequence[Prompt], tests: Sequence[Test], provider: Provider, templates: Templates
) -> Sequence[tuple[str | None, Sequence[Prompt]]]:
    """Group prompts by their system message: a suite has one."""
    if provider.model is None:
        return [(None, prompts)]
    groups: dict[str | None, list[Prompt]] = {}
    for prompt in prompts:
        found: set[str | None] = set()
        for test in tests:
            try:
                found.add(asked(prompt, test.variables, test.options, templates).instructions)
            except UnfitError:
                continue
        # One that differs between cases is told case by case.
        groups.setdefault(found.pop() if len(found) == 1 else None, []).append(prompt)
    return list(groups.items())
