"""A GitHub on loopback: stateful, and strict about what GitHub's own description and documentation say."""

from tests.github.fake.faults import Fault
from tests.github.fake.permissions import Token
from tests.github.fake.repository import Repository
from tests.github.fake.server import Call, FakeGitHub

__all__ = ["Call", "FakeGitHub", "Fault", "Repository", "Token"]
