"""Whether the agent of a trace failed: the outermost span decides, whatever text there is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.project import Project
from tests.extensions.traces.spans import exchange, span
from tests.extensions.traces.test_exported_traces import EXPORT, SPANS
from tests.extensions.traces.test_trace_files import read
from tests.extensions.traces.test_trace_target import CHECK, night, outcomes, recorded, suite, trace

BROKEN = {"code": 2, "message": "the customer got status 500"}


def failing(spans: list[dict[str, Any]], *numbers: int, status: Mapping[str, Any] = BROKEN) -> list[dict[str, Any]]:
    """Let the spans of these numbers fail."""
    return [{**each, "status": status} if int(each["spanId"], 16) in numbers else each for each in spans]


def test_the_status_of_the_outermost_span_decides(project: Project) -> None:
    talk = exchange(trace(1), "Where is A-17?", "In Leeds.", tool="find_order")
    # A server's span around that of the agent, in the words of no convention.
    server = [span(trace(2), 9, 0, "POST /chat", 0, {"http.response.status_code": 500})]
    inside = [
        {**each, "parentSpanId": each["parentSpanId"] or server[0]["spanId"]}
        for each in exchange(trace(2), "Q", "In Leeds.")
    ]
    streamed = exchange(trace(3), "Where is B-3?", "In Leeds and", at=9)[1:]
    night(
        project,
        failing(talk, 1),
        failing([*server, *inside], 9),
        failing([{**each, "parentSpanId": ""} for each in streamed], 4, status={"code": 2, "message": "it broke"}),
        # Calls of a model and a tool that were repeated.
        failing(exchange(trace(4), "Where is C-4?", "In Leeds.", tool="find_order", at=20), 2, 3),
        # Nothing is known of the reason.
        failing(exchange(trace(5), "Where is D-5?", "In Leeds.", at=30), 1, status={"code": 2}),
    )
    suite(project, CHECK)

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 3, done.stderr
    found = {case.id: case.trials[0].turns[0].error for case in recorded(project).cases}
    messages = {int(name, 16): None if error is None else error.message for name, error in found.items()}
    said_by = "the agent reports an error: "
    assert messages == {
        1: f"{said_by}the customer got status 500",
        2: f"{said_by}the customer got status 500",
        3: f"{said_by}it broke",
        4: None,
        5: f"{said_by}the trace reports an error",
    }

    picked = project.run("cases", "from-traces", "night.jsonl", "-o", "cases.yaml")
    assert picked.code == 0, picked.stderr
    assert "2 for an error" in picked.stdout
    text = (project.folder / "cases.yaml").read_text(encoding="utf-8")
    assert len(yaml.safe_load(text)["test_cases"]) == 5


def test_the_status_in_exports_of_langfuse_and_phoenix(project: Project) -> None:
    export = json.loads(EXPORT.read_bytes())
    for each in export["observations"]:
        if not each.get("parentObservationId"):
            each |= {"level": "ERROR", "statusMessage": "it broke"}
    project.write("langfuse.json", json.dumps(export))
    project.write("phoenix.json", json.dumps([{**SPANS[0], "status_code": "ERROR"}, *SPANS[1:]]))
    suite(project, CHECK)
    for name, message in (("langfuse.json", "it broke"), ("phoenix.json", "the trace reports an error")):
        done = project.run("run", "agent.yaml", "-o", "out", "--target", f"traces:{name}")
        assert done.code == 3, done.stdout
        assert outcomes(project) == ["error"]
        assert message in done.stdout


@pytest.mark.full
def test_a_trace_with_very_many_spans_is_judged(project: Project) -> None:
    talk = exchange(trace(1), "Where is A-17?", "In Leeds.")
    many = [span(trace(1), 100 + at, 1, "SELECT", 0, {}) for at in range(10_003)]
    night(project, [*talk, *many])
    suite(project, CHECK)
    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")
    assert done.code == 0, done.stderr
    [turn] = recorded(project).cases[0].trials[0].turns
    assert (turn.input, turn.response, turn.tool_invocations) == ("Where is A-17?", "In Leeds.", None)


def test_the_output_of_a_trace_of_langfuse_wins_over_its_root(tmp_path: Path) -> None:
    shutil.copy(EXPORT, tmp_path)
    export = json.loads(EXPORT.read_bytes())
    export |= {"input": "Where is my parcel?", "output": "It is in Leeds."}
    root = {
        "id": "0123456789abcdef",
        "traceId": export["id"],
        "type": "GENERATION",
        "name": "chat",
        "startTime": "2026-09-21T15:06:40.000Z",
        "endTime": "2026-09-21T15:06:41.000Z",
        "input": [{"role": "user", "content": "Rewrite: where is my parcel?"}],
        "output": {"role": "assistant", "content": '{"answer": "It is in Leeds."}'},
        "level": "DEFAULT",
    }
    for own, expected in ((True, "It is in Leeds."), (False, '{"answer": "It is in Leeds."}')):
        given = {**export, "observations": [root]} if own else {**export, "observations": [root], "output": None}
        (tmp_path / "one.json").write_text(json.dumps(given))
        ((whole,), _) = read(tmp_path, "one.json")
        assert (whole.turns[0].input, whole.turns[0].output) == ("Where is my parcel?", expected)


def test_the_input_of_an_agent_wins_over_an_inner_step(tmp_path: Path) -> None:
    """As the instrumentation of smolagents writes it."""
    step = "ActionStep(step_number=1, timing=Timing(start_time=1), model_output=None)"
    for given, expected in (
        ({"task": "Where is A-17?", "stream": False, "reset": True}, "Where is A-17?"),
        ({"order": "A-17", "wish": "where"}, '{"order": "A-17", "wish": "where"}'),
    ):
        agent = {"openinference.span.kind": "AGENT", "input.value": json.dumps(given), "output.value": "In Leeds."}
        chain = {"openinference.span.kind": "CHAIN", "input.value": json.dumps({"memory_step": step})}
        model = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
        model |= {"llm.output_messages.0.message.content": "Thought: done"}
        spans = [
            span(trace(1), 1, 0, "CodeAgent.run", 0, agent),
            span(trace(1), 2, 1, "Step 1", 0, chain),
            span(trace(1), 3, 2, "OpenAIServerModel.generate", 0, model),
        ]
        project = Project(tmp_path)
        night(project, spans)
        ((whole,), _) = read(tmp_path, "night.jsonl")
        assert (whole.turns[0].input, whole.turns[0].output) == (expected, "In Leeds.")
