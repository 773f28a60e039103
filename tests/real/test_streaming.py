"""The real model as an agent over HTTP that streams its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.real.runs import ANY_ANSWER, CAPITALS, PATIENT
from tests.real.server import CITIES, KEY, NAME, SCHEMA, Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def stream(project: Project, server: Server, max_tokens: int) -> tuple[Finished, Record]:
    """Evaluate one question to the service, which answers in events; a grammar makes the answer a short one."""
    request: dict[str, Any] = {
        "model": NAME,
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": "{{ history + [{'role': 'user', 'content': turn.input}] }}",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }
    response = {
        "text": "$.choices[0].message.content",
        "delta": "$.choices[*].delta.content",
        "finish_reason": "$.choices[0].finish_reason",
        "usage": "$.usage",
        "model": "$.model",
    }
    project.suite(CAPITALS[:1], [ANY_ANSWER])
    project.policy(
        target={
            "type": "http",
            "url": f"{server.url}/openai/v1/chat/completions",
            "headers": {"authorization": "Bearer ${KEY_OF_THE_SERVICE}"},
            "request": request,
            "response": response,
        },
        limits=PATIENT,
    )
    return project.evaluate(KEY_OF_THE_SERVICE=KEY)


def test_a_whole_stream_is_an_answer_with_the_time_of_its_first_piece(project: Project, server: Server) -> None:
    before = server.tokens()
    finished, record = stream(project, server, 40)
    assert finished.code == 0, finished.stdout
    (turn,) = record.turns
    assert json.loads(turn.response or "")["city"] in CITIES
    assert turn.timing is not None
    assert turn.timing.first_token_ms is not None
    assert turn.timing.duration_ms is not None
    assert turn.timing.first_token_ms <= turn.timing.duration_ms
    assert turn.usage is not None
    counted = [after - earlier for earlier, after in zip(before, server.tokens(), strict=True)]
    assert [turn.usage.prompt_tokens, turn.usage.completion_tokens] == counted


def test_a_stream_that_stops_at_a_limit_is_an_error_and_is_not_graded(project: Project, server: Server) -> None:
    finished, record = stream(project, server, 2)
    (turn,) = record.turns
    assert (finished.code, [each.score for each in turn.evaluations]) == (3, [None])
    assert turn.error is not None
    assert turn.error.code == "cut_off"
