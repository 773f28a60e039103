"""A model server on loopback: real HTTP, four providers in their real shapes, scripted by the test."""

from tests.llm.models.rules import echo, tools_first
from tests.llm.models.server import FakeModels
from tests.llm.models.trouble import mixed
from tests.llm.models.values import Answer, Fault, Message, Reply, Request, ToolCall

__all__ = ["Answer", "FakeModels", "Fault", "Message", "Reply", "Request", "ToolCall", "echo", "mixed", "tools_first"]
