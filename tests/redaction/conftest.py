"""Fixtures of the tests of what goes out."""

from __future__ import annotations

from tests.github.conftest import hub

__all__ = ["hub"]
