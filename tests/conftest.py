"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli.project import Project

# One slow shared machine must not fail a property.
settings.register_profile("default", deadline=None, max_examples=60)
settings.load_profile("default")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project folder."""
    return Project(tmp_path)
