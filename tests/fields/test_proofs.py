"""Every field, flag and argument has a test that fails when it is ignored, and says so with the marker `proves`.

A test names what it proves as `proves("Block: field field", …)`, or as `proves("Block.field", …)` where its own table
has such keys (`Block.field=value` for one of several values).
"""

from __future__ import annotations

import importlib
import re
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import click
import pytest
from pydantic import BaseModel

from holodeck_action.commands.command_line import cli
from holodeck_action.seam import registry
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.policy import Policy
from scripts.build_field_reference import commands_below, models_below, parameters_of
from tests.fields import test_cases, test_metrics
from tests.metrics.documented import ARGUMENTS
from tests.tables import walk

TESTS = Path(__file__).parents[1]
FORMS = {
    "${VAR}, ${VAR:-default}, $${",
    ".env beside agent.yaml",
    "HOLODECK_LLM_TIMEOUT",
    "HOLODECK_FILE_TIMEOUT",
    "HOLODECK_DOWNLOAD_TIMEOUT",
    "HOLODECK_CACHE_ENABLED",
    "HOLODECK_CACHE_DIR",
    "cases as a list, or as a mapping with test_cases",
    "expected_tools as names, as mappings, as a mapping with an order",
    "a metric of a case without type",
    "config.yml and config.yaml",
    "holodeck-action.yml and holodeck-action.yaml",
    "batch, batch_status_check_interval and batch_max_iterations of a metric",
    "names that gllm-evals has for options of a metric",
    "evaluations.summary",
}
"""What may be written in place of a value, or beside the files."""


def _declaring(model: type[BaseModel], field: str) -> type[BaseModel]:
    """The class that declares a field of a model."""
    return next(base for base in model.__mro__ if issubclass(base, BaseModel) and field in base.__annotations__)


FOUND = [*models_below(AgentConfig | ProjectConfig | Policy)]
MODELS = {model.__name__: model for model in FOUND}
FIELDS = {
    f"{_declaring(model, field).__name__}.{field}": _declaring(model, field).model_fields[field].annotation
    for model in MODELS.values()
    for field in model.model_fields
}


def _flag(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return str(parameter.name).upper()
    return max(parameter.opts, key=len)


FLAGS = {f"{name}.{_flag(parameter)}" for name, command in commands_below(cli) for parameter in parameters_of(command)}


def _named(proved: str) -> Iterator[str]:
    """What one argument of the marker names, each by the class that declares it."""
    block, colon, names = proved.partition(": ")
    if proved in FORMS:
        yield proved
    elif colon:
        yield from (_declared(block, name) for name in names.split())
    else:
        yield _declared(*proved.partition("=")[0].split(".", 1))


def _declared(block: str, name: str) -> str:
    model = MODELS.get(block)
    return f"{_declaring(model, name).__name__ if model and name in model.model_fields else block}.{name}"


def all_proofs() -> Mapping[str, set[str]]:
    """The tests that prove each field, flag, argument and form."""
    found = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        if "pytest.mark.proves(" not in file.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))
        for name, test in vars(module).items():
            if name.startswith("test_") and getattr(test, "__module__", None) == module.__name__:
                for mark in getattr(test, "pytestmark", ()):
                    for proved in mark.args if mark.name == "proves" else ():
                        for key in _named(proved):
                            found[key].add(name)
    return found


@pytest.fixture(scope="module")
def proofs() -> Mapping[str, set[str]]:
    return all_proofs()


def test_the_walk_finds_the_models() -> None:
    assert len(MODELS) == len(FOUND)
    assert {
        "AgentConfig.name",
        "Metric.enabled",
        "HttpTarget.url",
        "CommandTarget.command",
        "Limits.concurrency",
    } <= {*FIELDS}


def test_every_field_flag_argument_and_form_is_proven_and_nothing_else(proofs: Mapping[str, set[str]]) -> None:
    assert {*FIELDS, *ARGUMENTS} | FLAGS | FORMS == {*proofs}


def test_a_field_that_is_only_checked_says_so(proofs: Mapping[str, set[str]]) -> None:
    page = (TESTS.parent / "docs" / "fields.md").read_text(encoding="utf-8")
    blocks = {title: text for title, _, text in (part.partition("\n") for part in page.split("\n### "))}
    said = {
        f"{title}.{name}": f"{text.partition('| field')[0]} {row}".lower()
        for title, text in blocks.items()
        for name, row in re.findall(r"^\| `(\w+)` \| (.*)$", text, re.MULTILINE)
    }
    checked = {key for key in FIELDS if proofs[key] == {"test_a_bad_value_is_refused_at_its_line"}}
    honest = {key for key in checked if key.endswith(".type") or re.search("not used|no effect", said[key])}
    assert checked - honest == set()


def _of(keys: Iterable[str]) -> set[str]:
    return {key.partition("=")[0] for key in keys}


TRIED = [*test_metrics.PAIRS, *test_cases.PAIRS]
CHOICES = [key for key in FIELDS if key in _of(TRIED) and typing.get_origin(FIELDS[key]) is Literal]


@walk("key", CHOICES)
def test_every_choice_is_tried(key: str) -> None:
    tried = {found.partition("=")[2] for found in TRIED if found.partition("=")[0] == key}
    model, _, field = key.partition(".")
    default = MODELS[model].model_fields[field].default
    # What a pair has without the setting: the default, or the metric that the others are compared with.
    assert {*typing.get_args(FIELDS[key])} - tried <= {
        default,
        "equality",
        "recall_at_k",
        *(name for _, name in registry.metrics()),
    }
