"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli.project import Project

# One slow shared machine must not fail a property.
settings.register_profile("default", deadline=None, max_examples=60)
# The same properties with twenty times as many examples: pytest --hypothesis-profile thorough.
settings.register_profile("thorough", deadline=None, max_examples=1200)
settings.load_profile("default")

# Outside of runs DeepEval is imported as it is: it must neither send nor store anything.
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project folder."""
    return Project(tmp_path)
