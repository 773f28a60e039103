"""Notices about a valid suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from holodeck_action.seam import registry
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.agent import READ_BY, AgentConfig, ProjectConfig
from holodeck_action.suite.model.base import FormatModel
from holodeck_action.suite.model.judging import Judges
from holodeck_action.suite.model.providers import runner_block
from holodeck_action.suite.panels import replaced_model_notices
from holodeck_action.suite.values import Case, MetricSpec

_MOST_LISTED = 5
_USED_SETTINGS = frozenset(
    (
        *("max_turns", "allowed_tools", "disallowed_tools", "permissions", "effort", "max_budget_usd"),
        *("fallback_model", "extended_thinking"),
    )
)
_TYPE_OF_SETTING = {"pages": "pdf", "sheet": "excel", "range": "excel"}


def suite_notices(
    agent: AgentConfig, project: ProjectConfig, judges: Judges, suite_specs: Sequence[MetricSpec], cases: Sequence[Case]
) -> list[str]:
    """Return notices about unused settings, deprecated metrics and duplicate names, one sentence each."""
    specs = _distinct_specs(suite_specs, cases)
    return [
        *_unused_settings(agent, project),
        *_unread_sections(agent),
        *_unused_block(agent),
        *_unknown_databases(agent, project),
        *dict.fromkeys(notice for spec in specs for notice in spec.config.notices(str(spec.mark))),
        *replaced_model_notices(judges, specs),
        *_duplicate_names(cases),
        *_lenient_trials(cases),
        *_ineffective_file_settings(cases),
    ]


def _set_keys(prefix: str, block: BaseModel | None, supported_keys: Iterable[str] = ()) -> Iterator[str]:
    if block is not None:
        for name in type(block).model_fields:
            if name in block.model_fields_set and name not in supported_keys and getattr(block, name) is not None:
                yield f"{prefix}.{name}"


def _unused_settings(agent: AgentConfig, project: ProjectConfig) -> list[str]:
    block = runner_block(agent.model.provider)
    found = [
        *_set_keys(block, agent.claude if block == "claude" else agent.openai, _USED_SETTINGS),
        *(["deployment"] if agent.deployment or project.deployment else []),
        *(name for key in type(agent).model_fields for name in _keys_without_effect(key, getattr(agent, key))),
    ]
    return [f"not used by this runner: {', '.join(found)}"] if found else []


def _unread_sections(agent: AgentConfig) -> Iterator[str]:
    for key, extension in READ_BY.items():
        if getattr(agent, key) is not None and key not in registry.sections():
            yield f"`{key}` has no effect: this installation lacks the extension {extension}, which reads it"


def _keys_without_effect(place: str, value: Any) -> Iterator[str]:
    """Yield the paths of keys without effect in a section and its subsections."""
    if isinstance(value, FormatModel):
        yield from _set_keys(place, value, type(value).model_fields.keys() - {*value.UNUSED})
        for name in type(value).model_fields:
            yield from _keys_without_effect(f"{place}.{name}", getattr(value, name))


def _unused_block(agent: AgentConfig) -> Iterator[str]:
    provider, block = agent.model.provider, runner_block(agent.model.provider)
    other = "openai" if block == "claude" else "claude"
    if getattr(agent, other) is not None:
        yield f"`{other}` is not used: the model's provider is {provider}, so `{block}` applies instead"


def _unknown_databases(agent: AgentConfig, project: ProjectConfig) -> Iterator[str]:
    known = project.vectorstores or {}
    for index, tool in enumerate(agent.tools or ()):
        if tool.type == "vectorstore" and isinstance(tool.database, str) and known and tool.database not in known:
            missing = f"the project config has no database {quoted(tool.database)}"
            yield f"tools[{index}]: {missing}; the tool's index is kept in memory"


def _distinct_specs(suite_specs: Sequence[MetricSpec], cases: Sequence[Case]) -> list[MetricSpec]:
    """Return the specs of the suite and its cases, one for each distinct configuration."""
    found = {id(spec.config): spec for spec in suite_specs}
    seen: set[int] = set()
    for case in cases:
        for turn in case.turns:
            if id(turn.metrics) not in seen:
                seen.add(id(turn.metrics))
                for spec in turn.metrics:
                    found.setdefault(id(spec.config), spec)
    return list(found.values())


def _lenient_trials(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a notice about cases that can pass although at least half of their trials fail."""
    lenient = [f"{case.id} ({case.passes_needed} of {case.repeat})" for case in cases if case.lenient]
    if lenient:
        shown = ", ".join(lenient[:_MOST_LISTED]) + (", …" if len(lenient) > _MOST_LISTED else "")
        yield f"half of the trials or fewer are enough for repeated cases: {shown}; raise min_pass to require more"


def _ineffective_file_settings(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a notice for each setting of a file that has no effect on files of its type or source."""
    for case in cases:
        for turn in case.turns:
            for file in turn.files:
                shown = file.path if file.path is not None else "a URL"
                for name, type_ in _TYPE_OF_SETTING.items():
                    if getattr(file, name) is not None and file.type != type_:
                        yield f"{turn.mark}: files: {name} has no effect on {shown}, which is of type {file.type}"
                if file.cache is not None and file.url is None:
                    yield f"{turn.mark}: files: cache has no effect on {shown}, which is not downloaded"


def _duplicate_names(cases: Sequence[Case]) -> Iterator[str]:
    by_name: dict[str, list[str]] = {}
    for case in cases:
        if case.name is not None:
            by_name.setdefault(case.name, []).append(case.id)
    for name, ids in by_name.items():
        if len(ids) > 1:
            shown = ", ".join(ids[:_MOST_LISTED]) + (", …" if len(ids) > _MOST_LISTED else "")
            yield f"{len(ids)} cases are named {quoted(name)}: their ids are {shown}"
