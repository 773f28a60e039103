"""Fixtures of the tests that talk to a GitHub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.github.fake import FakeGitHub


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    """A GitHub; a test that breaks its rules on purpose takes the violations (`hub.take_violations()`)."""
    with FakeGitHub() as hub:
        yield hub
        assert hub.violations == []
