"""Fixtures of the tests about files of cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.targets.attachments.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server without pages."""
    site = Site()
    yield site
    site.close()
