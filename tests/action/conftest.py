"""Fixtures of the step's tests."""

from __future__ import annotations

import pytest

from tests.action.step import Step
from tests.commands.project import Project


@pytest.fixture
def step(project: Project) -> Step:
    """A step in an empty workspace."""
    return Step(project)
