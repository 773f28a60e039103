"""Fixtures of the tests of frameworks."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def port() -> int:
    """A port of this machine that is free."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        number: int = found.getsockname()[1]
    return number
