"""What an agent's OpenTelemetry spans tell stands in for what its replies leave out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holodeck_action.results.canonical import canonical_json
from holodeck_action.results.record import Record, ToolInvocation, Usage
from tests.agents.traced_shop import AGENT
from tests.cli.project import Project
from tests.usercode.installing import bare_python

PYTHON = """
import traced

def genai(messages, request):
    return traced.genai(request)

def openinference(messages, request):
    return traced.openinference(request)

def said(messages, request):
    return traced.said(request)

def silent(messages, request):
    return traced.silent(request)

async def mixed(messages, request):
    traced.openinference(request)
    return {"response": traced.silent(request), "tool_invocations": [], "cost_usd": 0.5, "model": "own"}

def raising(messages, request):
    traced.genai(request)
    raise RuntimeError("no place")

def hostile(messages, request):
    with traced.work("x" * 100, gen_ai__operation__name="execute_tool", gen_ai__tool__call__arguments="{" * 5000,
                     gen_ai__usage__input_tokens=-3):
        pass
    with traced.work("huge", gen_ai__operation__name="execute_tool", gen_ai__tool__call__result="x" * 9_000_000):
        pass
    return traced.silent(request)
"""
CASES = [
    {"name": order, "input": f"Where is {order}", "ground_truth": f"In {place}", "expected_tools": expected}
    for order, place, expected in (
        ("A-17", "Leeds", [{"name": "find_order", "args": {"id": "A-17"}}]),
        ("B-4", "York", ["find_parcel"]),
    )
]


@pytest.fixture
def asked(project: Project) -> Project:
    project.suite(CASES)
    project.write("traced.py", AGENT)
    project.write("shop.py", PYTHON)
    return project


def _record(project: Project, target: str, code: int = 0, *, spans: object = True, **policy: object) -> Record:
    project.policy(target=target, spans=spans, **policy)
    finished, record = project.evaluate()
    assert finished.code == code, finished.stderr + finished.stdout
    return record


def _canonical(record: Record) -> bytes:
    return canonical_json(replace(record, provenance=replace(record.provenance, target="")))


@pytest.mark.proves("Policy: spans")
def test_spans_tell_what_the_reply_leaves_out(asked: Project) -> None:
    # Both orders and a budget in tokens: what spans tell counts as what a reply says.
    gates = {"max_total_tokens": 80, "max_cost_usd": 0.001}
    said = _record(asked, "python:shop:said", spans=False, gates=gates)
    (first, second) = (case.trials[0].turns[0] for case in said.cases)
    assert first.usage == Usage(30, 10, first.usage.cost_usd if first.usage else None, 4, 2, estimated=True)
    assert first.usage.cost_usd == pytest.approx((26 * 0.15 + 4 * 0.075 + 10 * 0.6) / 1e6)
    assert second.tool_invocations == (
        ToolInvocation("find_order", {"id": "B-4"}, {"place": "York"}, bytes=17),
        ToolInvocation("find_parcel", {"id": "C-9"}, error="KeyError: 'C-9'"),
    )
    for way in ("genai", "openinference"):
        record = _record(asked, f"python:shop:{way}", gates=gates)
        calls = [call for turn in record.turns for call in turn.tool_invocations or ()]
        assert all(call.duration_ms is not None for call in calls)
        assert _canonical(record) == _canonical(said).replace(said.suite.digest.encode(), record.suite.digest.encode())
    unread = _record(asked, "python:shop:genai", 3, spans=False)
    assert all(turn.tool_invocations is None and turn.usage is None for turn in unread.turns)


def test_a_reply_wins_field_by_field(asked: Project) -> None:
    record = _record(asked, "python:shop:mixed", 1)
    for turn in record.turns:
        assert (turn.tool_invocations, turn.model) == ((), "own")
        assert turn.usage == Usage(30, 10, 0.5, 4, 2)
        assert turn.retrieval_context == ("Orders leave at nine.",)


def test_a_turn_that_fails_keeps_what_its_spans_tell(asked: Project) -> None:
    for turn in _record(asked, "python:shop:raising", 3).turns:
        assert turn.error is not None
        assert turn.error.code == "raised"
        assert turn.usage is not None
        assert turn.usage.prompt_tokens == 30
        assert [call.name for call in turn.tool_invocations or ()] == ["find_order", "find_parcel"]


def test_silence_and_hostile_spans_are_noticed_and_break_nothing(asked: Project) -> None:
    asked.policy(target="python:shop:silent", spans=True)
    silent = asked.run("run")
    assert silent.code == 3
    assert "spans: the target sent none of model calls, tools or agents in any turn" in silent.stderr
    asked.policy(target="python:shop:hostile", spans=True)
    hostile, record = asked.evaluate()
    assert "spans: 2 could not be read, or were too many, and do not count" in hostile.stderr
    for turn in record.turns:
        (call,) = turn.tool_invocations or ()
        assert (call.name, call.args) == ("x" * 100, {"input": "{" * 5000})
        assert turn.usage is None
    assert "x" * 101 not in json.dumps(asked.verdict())


def test_what_makes_no_spans_is_refused_before_the_run(asked: Project, tmp_path: Path) -> None:
    bare_python(tmp_path / "env")
    interpreter = str(tmp_path / "env/bin/python")
    for more, environ, says in (
        (
            {"environment": {"interpreter": interpreter}},
            {},
            "the package opentelemetry-sdk is missing in the environment",
        ),
        ({}, {"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED is true, so that no span is made; unset it"),
    ):
        asked.write("shop.py", "def silent(messages):\n    return 'x'\n")
        asked.policy(target="python:shop:silent", spans=True, **more)
        for command in ("run", "validate"):
            found = asked.run(command, **environ)
            assert found.code == 2, found.stderr
            assert says in found.stderr
