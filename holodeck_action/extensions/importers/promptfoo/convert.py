"""Converts a promptfoo configuration to suites, one for each provider, with a case for each prompt and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.importers.converted_suite import ConvertedSuite, ImportResult
from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.assertions import TYPES
from holodeck_action.extensions.importers.promptfoo.building import SuiteBuilder
from holodeck_action.extensions.importers.promptfoo.naming import names_any, slug
from holodeck_action.extensions.importers.promptfoo.prompts import Prompt, fill_prompt, prompts_of
from holodeck_action.extensions.importers.promptfoo.providers import Provider, providers_of, with_prompt_settings
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.promptfoo.tests import Test, TestReader
from holodeck_action.extensions.importers.source import Source, UnfitError, place_of
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.suite.configuration_errors import ConfigurationError

_SETTINGS = {
    "redteam": "its cases are generated at run time; write them to a file and name that file under tests",
    "extensions": "hooks are not run",
    "nunjucksFilters": "custom filters are not run",
    "derivedMetrics": "derived numbers; use gates.summary or a composite metric",
    "env": "set these variables in the job",
}
"""Unsupported configuration keys that would change verdicts, each with a remedy."""
_MAIN_KEYS = frozenset(("tests", "prompts", "providers", "targets", "scenarios"))
"""Configuration keys of which a configuration has at least one."""
_READ = _MAIN_KEYS | {"$schema", "description", "defaultTest", "evaluateOptions"}
"""Configuration keys that the import reads."""


def convert(source: Source, folder: Path, *, allow_missing: bool) -> ImportResult:
    """Convert a promptfoo configuration to suites.

    Args:
        source: the configuration file.
        folder: the absolute output folder.
        allow_missing: whether an assertion without a counterpart becomes a comment only; otherwise it also becomes a
            grader that raises.

    Raises:
        ConfigurationError: the file is not a promptfoo configuration, or a provider has no case or too many cases.
    """
    root = source.document().root
    if not isinstance(root, dict) or not _MAIN_KEYS & root.keys():
        wanted = "expected: a mapping with prompts, providers and tests"
        raise ConfigurationError([f"{source.shown}:1:1: is not a promptfoo configuration ({wanted})"])
    templates = Templates()
    reader = TestReader(source, templates, root, TYPES)
    tests = list(reader.tests())
    if not tests:
        raise ConfigurationError([f"{source.shown}:1:1: has no test; give tests or scenarios"])
    rows = [*reader.rows, *_setting_rows(source, root)]
    suites: list[ConvertedSuite] = []
    folders = UniqueNames("{}-{}")
    providers = providers_of(source, root)
    prompts = prompts_of(source, root)
    tests = [_with_known_references(test, providers, prompts) for test in tests]
    for number, provider in enumerate(providers, 1):
        rows.append(_provider_row(provider))
        asking = [prompt for prompt in prompts if prompt.matches(provider.prompts)]
        if not asking:
            raise ConfigurationError([f"{source.shown}: no prompt is for the provider {provider.name}"])
        provider, told = with_prompt_settings(provider, asking)
        rows += told
        groups = _group_by_instructions(asking, tests, provider, templates)
        for index, (instructions, chosen) in enumerate(groups, 1):
            parts = [slug(provider.name) or f"provider-{number}"] if len(providers) > 1 else []
            parts += [f"prompt-{index}"] if len(groups) > 1 else []
            folder_name = folders.add("-".join(parts))
            builder = SuiteBuilder(source, templates, root, provider, folder / folder_name, allow_missing=allow_missing)
            suites.append(builder.build(folder_name, instructions, chosen, tests))
            rows += builder.rows
    return ImportResult(suites, rows)


def _setting_rows(source: Source, configuration: Mapping[str, Any]) -> Iterable[Row]:
    for key in configuration.keys() - _READ:
        if configuration[key]:
            place = place_of(source.name, configuration, key)
            note = _SETTINGS.get(key, "this key has no effect here")
            becomes = "set by hand" if key in _SETTINGS else "nothing"
            outcome = Outcome.MISSING if key in _SETTINGS and key not in ("env", "derivedMetrics") else Outcome.SIMILAR
            yield Row(place.file, place.line, key, becomes, outcome, note, asserts=False)


def _with_known_references(test: Test, providers: Sequence[Provider], prompts: Sequence[Prompt]) -> Test:
    """Return the case; a list of providers or prompts that matches nothing is removed and noted as a problem."""
    found = {
        "providers": names_any(test.data.get("providers"), {name for each in providers for name in each.ids}),
        "prompts": any(prompt.matches(test.data.get("prompts")) for prompt in prompts),
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


def _group_by_instructions(
    prompts: Sequence[Prompt], tests: Sequence[Test], provider: Provider, templates: Templates
) -> Sequence[tuple[str | None, Sequence[Prompt]]]:
    """Group prompts by system message: None if it differs between cases, or if the target takes no system message."""
    if provider.model is None:
        return [(None, prompts)]
    groups: dict[str | None, list[Prompt]] = {}
    for prompt in prompts:
        found: set[str | None] = set()
        for test in tests:
            try:
                found.add(fill_prompt(prompt, test.variables, test.options, templates).instructions)
            except UnfitError:
                continue
        # A message that differs between cases becomes a problem of each case.
        groups.setdefault(found.pop() if len(found) == 1 else None, []).append(prompt)
    return list(groups.items())
