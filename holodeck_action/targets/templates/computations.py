"""Functions that evaluate a suite's templates and JSONPaths, called only in worker processes with limits.

Each returns JSON: `{value}`, or `{error, code}` if the evaluation failed. `seconds` is the time limit.
"""

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
from holodeck_action.workers.limited_workers import OutOfTimeError, time_limit


def render_request(mapping: str, variables: Mapping[str, Any], seconds: float) -> str:
    """Render the body of a turn's HTTP request from a `request` mapping (JSON); see `RequestTemplate.render`."""
    return _run_computation("target request", seconds, lambda: _compile_request(mapping).render(variables).decode())


def extract_reply(mapping: str, body: str, seconds: float) -> str:
    """Extract a reply from a JSON body with a `response` mapping (JSON); see `ReplyPaths.extract`."""
    return _run_computation("target response", seconds, lambda: _compile_paths(mapping).extract(parse_json(body)))


def extract_streamed_reply(mapping: str, bodies: Sequence[str], seconds: float) -> str:
    """Extract a reply from the JSON of events with a `response` mapping (JSON); see `ReplyPaths.extract_stream`."""
    return _run_computation(
        "target response", seconds, lambda: _compile_paths(mapping).extract_stream([*map(parse_json, bodies)])
    )


def render_prompt(template: str, parameters: Sequence[str], values: Mapping[str, Any], seconds: float) -> str:
    """Render the template of a `prompt` tool; see `PromptTemplate.render`."""

    def render() -> str:
        try:
            return _compile_prompt(template, tuple(parameters)).render(values)
        except ValueError as error:
            raise AgentError(str(error), "bad_arguments") from None

    return _run_computation("the template", seconds, render)


def _run_computation(label: str, seconds: float, compute: Callable[[], Any]) -> str:
    """Call `compute` within a time limit, and return `{value}` or `{error, code}` as JSON; `label` begins the error."""
    try:
        with time_limit(seconds):
            return json.dumps({"value": compute()})
    except AgentError as error:
        return json.dumps({"error": error.message, "code": error.code})
    except OutOfTimeError as error:
        return json.dumps({"error": f"{label}: {error}", "code": None})
    except MemoryError:
        return json.dumps({"error": f"{label} needs more memory than is allowed", "code": None})


@lru_cache(maxsize=4)
def _compile_request(mapping: str) -> RequestTemplate:
    return RequestTemplate(parse_json(mapping))


@lru_cache(maxsize=4)
def _compile_paths(mapping: str) -> ReplyPaths:
    return ReplyPaths(parse_json(mapping))


@lru_cache(maxsize=64)
def _compile_prompt(template: str, parameters: tuple[str, ...]) -> PromptTemplate:
    return PromptTemplate(template, parameters)
