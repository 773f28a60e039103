"""The default tier is no sample: whatever the product declares has a test in it."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from holodeck_action.commands.command_line import cli
from holodeck_action.reports.formats import FORMATS
from holodeck_action.seam.registry import own_extensions
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import Gates, Policy
from holodeck_action.suite.model.providers import ProviderName
from scripts.build_field_reference import commands_below, models_below

TESTS = Path(__file__).parents[1]
DOORS = {"cli": "commands", "action": "action", "api": "api"}
"""The folder of tests of each door."""
APART = {"browser", "image", "release"}
"""Folders without a test in either tier."""


@pytest.fixture
def tier(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """All tests of the default tier."""
    items = [item for item in request.session.items if item.get_closest_marker("full") is None]
    folders = {folder.name for folder in TESTS.iterdir() if [*folder.rglob("test_*.py")]}
    if folders - APART - {item.path.relative_to(TESTS).parts[0] for item in items}:
        pytest.skip("only part of the tests was collected")
    return items


def _proven(items: list[pytest.Item]) -> Iterator[str]:
    """Yield the block of each field, argument or command that a test proves, and each field with its block."""
    for item in items:
        for mark in item.iter_markers("proves"):
            for proved in mark.args:
                block, colon, names = proved.partition(": ")
                fields = [f"{block}.{name}" for name in names.split()] if colon else [proved.partition("=")[0]]
                yield from fields
                yield from (field.partition(".")[0] for field in fields)


def _words(items: list[pytest.Item]) -> set[str]:
    """The words of the parameters of tests."""
    ids = [item.callspec.id for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    return {word for found in ids for word in re.split(r"[^a-z0-9_]+", found)}


def test_everything_that_is_declared_has_a_test_in_the_default_tier(tier: list[pytest.Item]) -> None:
    folders = {"/".join(item.path.relative_to(TESTS).parts[:depth]) for item in tier for depth in (1, 2)}
    proven = {*_proven(tier)}
    words = _words(tier)
    classes = [model for model in models_below(AgentConfig | Policy) if issubclass(model, Metric)]
    metrics = {model.__name__ for model in classes if not any(model in other.__bases__ for other in classes)}
    without = {
        "commands": {name for name, _ in commands_below(cli)} - proven,
        "doors": {door for door, folder in DOORS.items() if folder not in folders},
        "extensions": {made.name for made in own_extensions() if f"extensions/{made.name}" not in folders},
        "providers": {*typing.get_args(ProviderName)} - words,
        "gates": {gate for gate in Gates.model_fields if f"Gates.{gate}" not in proven},
        "metrics": metrics - proven,
        "formats": {*FORMATS, "html"} - words,
    }
    assert not any(without.values()), {kind: sorted(names) for kind, names in without.items() if names}
