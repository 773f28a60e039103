"""A model server on loopback: real HTTP, four providers in their real shapes, scripted by the test."""

from tests.llm.models.rules import counted_echo, echo, tools_first
from tests.llm.models.server import FakeModels
from tests.llm.models.serving import KEY, serve_models
from tests.llm.models.trouble import mixed
from tests.llm.models.values import Answer, Fault, Message, Reply, Request, ToolCall

__all__ = [
    "KEY",
    "Answer",
    "FakeModels",
    "Fault",
    "Message",
    "Reply",
    "Request",
    "ToolCall",
    "counted_echo",
    "echo",
    "mixed",
    "serve_models",
    "tools_first",
]
