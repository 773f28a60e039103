"""docs/fields.md has one row for every field, flag and argument; every test it names exists and covers its rows."""

from __future__ import annotations

import ast
import re
import typing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from pydantic import BaseModel

from holodeck_action.cli import cli
from holodeck_action.suite.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.metrics import AZURE_METRICS
from holodeck_action.suite.policy import Policy
from tests.evaluators.documented import ARGUMENTS
from tests.evaluators.judged import test_arguments, test_preset_settings
from tests.fields import test_cases, test_judged, test_metrics, test_settings, test_validated
from tests.fields.bounds import BOUNDS
from tests.fields.runs import CHANGES

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "fields.md"
HERE = {"honoured", "checked", "checked, noted as unused", "refused"}


@dataclass(frozen=True)
class Row:
    """One row: its heading and field, what is done with the field, and the tests, each as file and name."""

    block: str
    field: str
    here: str
    tests: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return f"{self.block}.{self.field}"


def _rows() -> Iterator[Row]:
    block = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            block = line.lstrip("# ").strip("`")
        elif line.startswith("| `"):
            field, here, tests = (cell.strip() for cell in line.strip("| ").split(" | "))
            yield Row(block, field.strip("`"), here, tuple(re.findall(r"`([\w/]+\.py)::(\w+)`", tests)))


ROWS = tuple(_rows())
WRITTEN_FORMS = [row for row in ROWS if row.block == "Written forms"]


def _models(annotation: Any, found: dict[type[BaseModel], None]) -> dict[type[BaseModel], None]:
    """Every model below an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in found:
            found[annotation] = None
            for field in annotation.model_fields.values():
                _models(field.annotation, found)
    else:
        for part in typing.get_args(annotation):
            _models(part, found)
    return found


def _declaring(model: type[BaseModel], field: str) -> type[BaseModel]:
    """The class that declares a field of a model."""
    return next(base for base in model.__mro__ if issubclass(base, BaseModel) and field in base.__annotations__)


MODELS = tuple(_models(AgentConfig | ProjectConfig | Policy, {}))
FIELDS = {
    f"{_declaring(model, field).__name__}.{field}": _declaring(model, field).model_fields[field].annotation
    for model in MODELS
    for field in model.model_fields
}


def _flag(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return str(parameter.name).upper()
    return max(parameter.opts, key=len)


FLAGS = {
    f"holodeck-action {name}.{_flag(parameter)}"
    for name, command in cli.commands.items()
    for parameter in command.params
}


def test_the_walk_finds_the_models() -> None:
    assert len({model.__name__ for model in MODELS}) == len(MODELS)
    assert {
        "AgentConfig.name",
        "MetricModel.enabled",
        "HttpTarget.url",
        "CommandTarget.command",
        "Limits.concurrency",
    } <= {*FIELDS}


def test_every_field_flag_and_argument_has_one_row() -> None:
    rows = Counter(row.key for row in ROWS if row not in WRITTEN_FORMS)
    assert {*FIELDS, *ARGUMENTS} | FLAGS == {*rows}
    assert [key for key, times in rows.items() if times > 1] == []


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    names = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def test_every_row_names_tests_that_exist() -> None:
    assert [row.key for row in ROWS if row.here not in HERE or not row.tests] == []
    assert [(row.key, name) for row in ROWS for file, name in row.tests if name not in _tests_of(file)] == []


def _of(keys: typing.Iterable[str]) -> set[str]:
    return {key.partition("=")[0] for key in keys}


def _moved(keys: set[str]) -> set[str]:
    """Keys of entries of `expected_tools` by the class that declares the field."""
    return {key if key in FIELDS else key.replace("ExpectedToolEntry", "TrajectoryEntry") for key in keys}


TABLES = {
    test_validated.test_a_bad_value_is_refused_at_its_line: _of(test_validated.FIELDS),
    test_metrics.test_a_setting_changes_the_verdict: _of(test_metrics.PAIRS),
    test_judged.test_a_setting_of_a_judged_metric_changes_the_verdict: _of(test_judged.PAIRS),
    test_cases.test_a_field_changes_the_verdict: _moved(_of(test_cases.PAIRS)),
    test_preset_settings.test_a_setting_of_a_preset_counts: _of(test_preset_settings.TRIES),
    test_arguments.test_an_argument_counts: _of(test_arguments.TRIES),
    test_settings.test_a_setting_changes_the_exit_code: _of(CHANGES),
    test_settings.test_a_bound_ends_what_takes_too_much: _of(BOUNDS),
}
CONTAINERS = {"Policy.cases", "Policy.trials", "Policy.gates", "Policy.budget", "Policy.limits"}


@pytest.mark.parametrize("test", TABLES, ids=lambda test: str(test.__name__))
def test_the_tables_of_the_tests_hold_the_rows_that_name_them(test: Any) -> None:
    named = {row.key for row in ROWS if test.__name__ in [name for _, name in row.tests]} - CONTAINERS
    assert named - {row.key for row in WRITTEN_FORMS} == TABLES[test] - CONTAINERS


def test_every_flag_of_a_gate_or_a_bound_is_tried() -> None:
    tried = {entry.flags[0] for entry in CHANGES.values() if entry.flags}
    tried |= {entry.flag[0] for entry in BOUNDS.values() if entry.flag}
    names = ("test_a_flag_wins_over_the_policy_file", "test_a_bound_by_flag_wins_over_the_policy_file")
    assert {row.field for row in ROWS if row.tests and row.tests[0][1] in names} == tried


TRIED = [*test_metrics.PAIRS, *test_cases.PAIRS]
CHOICES = [key for key in FIELDS if key in _of(TRIED) and typing.get_origin(FIELDS[key]) is Literal]


@pytest.mark.parametrize("key", CHOICES)
def test_every_choice_is_tried(key: str) -> None:
    tried = {found.partition("=")[2] for found in TRIED if found.partition("=")[0] == key}
    model, _, field = key.partition(".")
    default = next(found for found in MODELS if found.__name__ == model).model_fields[field].default
    # What a pair has without the setting: the default, or the metric that the others are compared with.
    assert {*typing.get_args(FIELDS[key])} - tried <= {default, "equality", "recall_at_k", *AZURE_METRICS}
