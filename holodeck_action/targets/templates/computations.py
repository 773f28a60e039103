"""What a suite's texts compute: requests, replies and prompts (imported in a process with limits only)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jinja2.sandbox  # noqa: F401
import jsonpath  # noqa: F401
import regex  # noqa: F401

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.templates.jsonpaths import ReplyPaths
from holodeck_action.targets.templates.templates import PromptTemplate, RequestTemplate
from holodeck_action.text.json_values import parse_json
from holodeck_action.workers.limited import OutOfTimeError, time_limit


def request(mapping: str, variables: Mapping[str, Any], seconds: float) -> str:
    """Return the body that a `request` mapping (as JSON) gives for a turn; see `RequestTemplate.render`."""
    return _outcome("target request", seconds, lambda: _request(mapping).render(variables).decode())


def reply(mapping: str, body: str, seconds: float) -> str:
    """Return what a `response` mapping (as JSON) finds in a body of JSON; see `ReplyPaths.extract`."""
    return _outcome("target response", seconds, lambda: _reply(mapping).extract(parse_json(body)))


def stream(mapping: str, bodies: Sequence[str], seconds: float) -> str:
    """Return what a `response` mapping (as JSON) finds in events, each JSON; see `ReplyPaths.extract_stream`."""
    return _outcome("target response", seconds, lambda: _reply(mapping).extract_stream([*map(parse_json, bodies)]))


def prompt(template: str, parameters: Sequence[str], values: Mapping[str, Any], seconds: float) -> str:
    """Return the text of a prompt's template for some values; see `PromptTemplate.render`."""

    def render() -> str:
        try:
            return _prompt(template, tuple(parameters)).render(values)
        except ValueError as error:
            raise AgentError(str(error), "bad_arguments") from None

    return _outcome("the template", seconds, render)


def _outcome(what: str, seconds: float, compute: Callable[[], Any]) -> str:
    """Return `{value}` or `{error, code}` as JSON."""
    try:
        with time_limit(seconds):
            return json.dumps({"value": compute()})
    except AgentError as error:
        return json.dumps({"error": error.message, "code": error.code})
    except OutOfTimeError as error:
        return json.dumps({"error": f"{what}: {error}", "code": None})
    except MemoryError:
        return json.dumps({"error": f"{what} needs more memory than it may have", "code": None})


@lru_cache(maxsize=4)
def _request(mapping: str) -> RequestTemplate:
    return RequestTemplate(parse_json(mapping))


@lru_cache(maxsize=4)
def _reply(mapping: str) -> ReplyPaths:
    return ReplyPaths(parse_json(mapping))


@lru_cache(maxsize=64)
def _prompt(template: str, parameters: tuple[str, ...]) -> PromptTemplate:
    return PromptTemplate(template, parameters)
