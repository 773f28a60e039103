"""What an agent's OpenTelemetry spans tell stands in for what its replies leave out."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record, ToolInvocation, Usage
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.extensions.frameworks.traced_shop import AGENT, PROGRAM
from tests.llm.models import FakeModels
from tests.metrics.judging.test_scope_conversation import answering, judged_by
from tests.workers.installing import bare_python

PYTHON = """
import json

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

CALL = {"id": "call-1", "name": "find_order", "arguments": {"id": "A-17"}}


def asking(inner):
    # Calls of a model, of which `inner` tells what was said.
    def answer(messages, request):
        for number, reason in enumerate(("tool_calls", "stop")):
            # LlamaIndex writes the request in a span of its own, which is no call.
            with traced.work("OpenAI._prepare_chat_with_tools", openinference__span__kind="LLM"):
                pass
            with traced.work("chat", gen_ai__operation__name="chat", gen_ai__response__finish_reasons=[reason],
                             gen_ai__usage__input_tokens=10, gen_ai__usage__output_tokens=5, **inner(number)):
                pass
        return traced.silent(request)
    return answer


def _parts(number):
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call-1", "response": {"place": "Leeds"}}]}
    asked = {"role": "assistant", "parts": [{"type": "tool_call", **CALL}]}
    before = [{"role": "user", "parts": [{"type": "text", "content": "?"}]}]
    return {"gen_ai__output__messages": json.dumps([asked])} if number == 0 else {
        "gen_ai__input__messages": json.dumps([*before, asked, told])}


def _flat(number):
    call = "llm__output_messages__0__message__tool_calls__0__tool_call__"
    told = "llm__input_messages__2__message__"
    return {call + "id": "call-1", call + "function__name": "find_order",
            call + "function__arguments": json.dumps(CALL["arguments"])} if number == 0 else {
        "llm__input_messages__1__message__content": "?",
        told + "tool_call_id": "call-1", told + "content": json.dumps({"place": "Leeds"})}


parts, flat, reasons = asking(_parts), asking(_flat), asking(lambda number: {})
unanswered = asking(lambda number: _parts(0) if number == 0 else {})


def ending(messages, request):
    # DSPy and smolagents end their work with tools of their own.
    for library, name in (("dspy", "find_order.acall"), ("dspy", "finish.__call__"), ("smolagents", "final_answer")):
        tracer = traced.trace.get_tracer("openinference.instrumentation." + library)
        told = {"input.value": json.dumps({"kwargs": CALL["arguments"]}), "output.mime_type": "application/json",
                "output.value": json.dumps({"place": "Leeds"}), "openinference.span.kind": "TOOL"}
        with tracer.start_as_current_span(name, attributes=told):
            pass
    return traced.silent(request)


def forged(messages, request):
    # What a process says of its spans is what its code makes of it.
    from holodeck_action.extensions.frameworks.instrumentation import Recorder

    span = {"trace": "a", "id": "b", "parent": None, "scope": "", "name": "x", "start": 1, "end": 2, "attributes": {},
            "events": [], "message": None, "failed": False}
    spans = [{**span, "start": float("inf")}, {**span, "start": "9" * 5000}, {**span, "attributes": 7}, 7, None]
    Recorder.end = lambda self: {"spans": spans, "dropped": True, "failed": [7, None]}
    return traced.silent(request)


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
    project.write("program.py", PROGRAM)
    return project


def _record(project: Project, target: str, code: int = 0, *, spans: object = True, **policy: object) -> Record:
    project.policy(target=target, spans=spans, **policy)
    finished, record = project.evaluate()
    assert finished.code == code, finished.stderr + finished.stdout
    return record


def _canonical(record: Record) -> bytes:
    # The policy file belongs to the suite, and names the target and whether its spans are read.
    provenance, suite = replace(record.provenance, target=""), replace(record.suite, digest="")
    return canonical_json(replace(record, provenance=provenance, suite=suite, marks={}))


@pytest.mark.full
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
        assert _canonical(record) == _canonical(said)
    unread = _record(asked, "python:shop:genai", 3, spans=False)
    assert all(turn.tool_invocations is None and turn.usage is None for turn in unread.turns)


@pytest.mark.full
def test_a_command_sends_its_spans_to_an_address_of_its_own(asked: Project) -> None:
    said = _record(asked, "python:shop:said", spans=False)
    for way in ("genai", "openinference"):
        record = _record(asked, f"command:{sys.executable} -c 'import program; program.commanded(\"{way}\")'")
        assert _canonical(record) == _canonical(said)


@pytest.fixture
def service(asked: Project, port: int) -> Iterator[str]:
    sent_to = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", "import program; program.served()"],
        cwd=asked.folder,
        env=asked.environ(**sent_to),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.mark.full
@pytest.mark.proves("Spans: port")
@pytest.mark.parametrize("known_by", ["trace", "conversation"])
def test_spans_of_a_service_go_to_the_turn_that_they_belong_to(
    asked: Project, service: str, port: int, known_by: str
) -> None:
    # Both conversations are under way at once.
    gates = {"max_total_tokens": 80}
    said = _record(asked, f"{service}/said/{known_by}", spans=False, gates=gates)
    for way in ("genai", "openinference"):
        record = _record(asked, f"{service}/{way}/{known_by}", spans={"port": port}, gates=gates)
        assert _canonical(record) == _canonical(said)


@pytest.mark.full
def test_without_spans_of_tools_the_messages_of_models_tell_the_calls(asked: Project) -> None:
    call = ToolInvocation("find_order", {"id": "A-17"}, {"place": "Leeds"}, bytes=18)
    for way in ("parts", "flat", "ending"):
        record = _record(asked, f"python:shop:{way}", 1)
        made = [[replace(each, duration_ms=None) for each in turn.tool_invocations or ()] for turn in record.turns]
        assert made == [[call], [call]]
    # A wish is no call: whether the program heeded it, nobody tells.
    for way in ("reasons", "unanswered"):
        record = _record(asked, f"python:shop:{way}", 3)
        assert all(turn.tool_invocations is None for turn in record.turns)
        assert all(turn.usage and turn.usage.prompt_tokens == 20 for turn in record.turns)


@pytest.mark.models(answer=answering)
def test_the_judge_of_a_conversation_sees_the_calls_that_spans_tell(asked: Project, models: FakeModels) -> None:
    turns = [{"input": case["input"]} for case in CASES]
    sound = {"type": "trajectory_accuracy", "threshold": 0.5}
    asked.suite([{"name": "talk", "turns": turns}], evaluations=judged_by(models, sound))
    record = _record(asked, "python:shop:genai")
    (request,) = models.requests
    shown = json.loads(request.text[request.text.index("[\n {") :].partition("\n~")[0])
    calls = [[call["tool"] for call in message.get("tool_calls", ())] for message in shown]
    made = [[call.name for call in turn.tool_invocations or ()] for turn in record.turns]
    assert calls == [[], made[0], [], made[1]]
    assert all(made)


INSTRUMENTORS = """
import traced

class Good:
    is_instrumented_by_opentelemetry = False

    def instrument(self, *, tracer_provider):
        import shop
        before, tracer = shop.silent, tracer_provider.get_tracer("shop-instrumentation")
        def silent(messages, request):
            with tracer.start_as_current_span("x", attributes={"gen_ai.operation.name": "execute_tool"}):
                return before(messages, request)
        shop.silent = silent

class Bad(Good):
    def instrument(self, *, tracer_provider):
        raise RuntimeError("no such framework")
"""


@pytest.mark.full
def test_instrumentations_that_are_installed_are_started(asked: Project) -> None:
    asked.write("instrumentors.py", INSTRUMENTORS)
    entries = "[opentelemetry_instrumentor]\ngood = instrumentors:Good\nbad = instrumentors:Bad\n"
    asked.write("shop_instrumentation-1.0.dist-info/entry_points.txt", entries)
    asked.write("shop_instrumentation-1.0.dist-info/METADATA", "Name: shop-instrumentation\nVersion: 1.0\n")
    asked.write(
        "calling.py", "import shop\ndef answer(messages, request):\n    return shop.silent(messages, request)\n"
    )
    asked.policy(target="python:calling:answer", spans=True)
    finished, record = asked.evaluate()
    assert "spans: the instrumentation bad (RuntimeError: no such framework) could not be started" in finished.stderr
    assert all([call.name for call in turn.tool_invocations or ()] == ["x"] for turn in record.turns)
    finished, record = asked.evaluate(OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="good, bad")
    assert "could not be started" not in finished.stderr
    assert all(turn.tool_invocations is None for turn in record.turns)


@pytest.mark.full
def test_a_reply_wins_field_by_field(asked: Project) -> None:
    record = _record(asked, "python:shop:mixed", 1)
    for turn in record.turns:
        assert (turn.tool_invocations, turn.model) == ((), "own")
        assert turn.usage == Usage(30, 10, 0.5, 4, 2)
        assert turn.retrieval_context == ("Orders leave at nine.",)


@pytest.mark.full
def test_a_turn_that_fails_keeps_what_its_spans_tell(asked: Project) -> None:
    for turn in _record(asked, "python:shop:raising", 3).turns:
        assert turn.error is not None
        assert turn.error.code == "raised"
        assert turn.usage is not None
        assert turn.usage.prompt_tokens == 30
        assert [call.name for call in turn.tool_invocations or ()] == ["find_order", "find_parcel"]


@pytest.mark.full
def test_silence_and_hostile_spans_are_noticed_and_break_nothing(asked: Project) -> None:
    asked.policy(target="python:shop:silent", spans=True)
    silent = asked.run("run")
    assert silent.code == 3
    assert "spans: the target sent no spans of model calls, tools or agents in any turn" in silent.stderr
    asked.policy(target="python:shop:hostile", spans=True)
    hostile, record = asked.evaluate()
    assert (
        "spans: 2 of the spans could not be read or were too many, so tool calls, chunks and tokens of their turns are"
        in (hostile.stderr)
    )
    for turn in record.turns:
        # What could not be read may have been another call.
        assert (turn.tool_invocations, turn.retrieved_chunks, turn.usage) == (None, None, None)
    assert "x" * 101 not in json.dumps(asked.verdict())


@pytest.mark.full
def test_spans_that_a_process_forges_break_nothing(asked: Project) -> None:
    asked.policy(target="python:shop:forged", spans=True)
    finished, record = asked.evaluate()
    assert "spans: 12 of the spans could not be read or were too many, " in finished.stderr
    assert "spans: the instrumentation 7 could not be started" in finished.stderr
    assert [turn.error for turn in record.turns] == [None, None]


@pytest.mark.full
def test_what_makes_no_spans_is_refused_before_the_run(asked: Project, tmp_path: Path) -> None:
    bare_python(tmp_path / "env")
    interpreter = str(tmp_path / "env/bin/python")
    for more, environ, says in (
        (
            {"environment": {"interpreter": interpreter}},
            {},
            "the Python package 'opentelemetry-sdk' is missing in the environment",
        ),
        ({}, {"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED is true, so no spans are created; unset it"),
    ):
        asked.write("shop.py", "def silent(messages):\n    return 'x'\n")
        asked.policy(target="python:shop:silent", spans=True, **more)
        for command in ("run", "validate"):
            found = asked.run(command, **environ)
            assert found.code == 2, found.stderr
            assert says in found.stderr


RAW = """
import gzip, http.client, json, os, sys, time
from urllib.parse import urlsplit

endpoint = urlsplit(os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])


def posted(path, body, kind, method="POST", **headers):
    connection = http.client.HTTPConnection(endpoint.netloc)
    connection.request(method, path, body, {"content-type": kind, **headers})
    return connection.getresponse().status


for line in sys.stdin:
    now, request = time.time_ns(), json.loads(line)
    span = {
        "traceId": request["traceparent"].split("-")[1],
        "spanId": "00F067AA0BA902B7",
        "name": "execute_tool find_order",
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 2000000),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.call.arguments", "value": {"kvlistValue": {"values": [
                {"key": "id", "value": {"stringValue": "A-17"}},
                {"key": "places", "value": {"arrayValue": {"values": [{"intValue": "7"}, {"boolValue": True}]}}},
            ]}}},
        ],
        "status": {"code": 2, "message": "no such order"},
    }
    spans = [span]
    if request["input"] != "whole":
        spans += [{**span, "spanId": "00f067aa0ba902b8", "startTimeUnixNano": "soon"}, {**span, "spanId": ""}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "raw"}, "spans": spans}]}]}).encode()
    zipped = {"content-encoding": "gzip"}
    bomb = gzip.compress(b" " * 20_000_000)
    statuses = [
        # Without a length: in chunks.
        posted(endpoint.path, iter([gzip.compress(body)]), "application/json; charset=utf-8", **zipped),
    ]
    if request["input"] != "whole":
      statuses += [
        posted(endpoint.path, b"[" * 100_000, "application/json"),
        posted(endpoint.path, b"\\xff\\xff", "application/x-protobuf"),
        posted(endpoint.path, bomb, "application/json", **zipped),
        posted(endpoint.path, body, "text/plain"),
        posted("/guessed/v1/traces", body, "application/json"),
        posted(endpoint.path, None, "text/plain", "GET"),
      ]
    print(json.dumps(" ".join(map(str, statuses))), flush=True)
"""


@pytest.mark.full
def test_a_request_that_is_no_export_is_refused_and_breaks_nothing(asked: Project) -> None:
    asked.write("raw.py", RAW)
    asked.suite(
        [
            {"name": "a", "input": "whole", "ground_truth": "200"},
            {"name": "b", "input": "broken", "ground_truth": "200 400 400 400 415 404 405"},
        ]
    )
    asked.policy(target=f"command:{sys.executable} raw.py", spans=True)
    finished, record = asked.evaluate()
    assert finished.code == 0, finished.stdout
    # Two spans and three requests.
    assert "spans: 5 of the spans could not be read or were too many, " in finished.stderr
    whole, broken = record.turns
    (call,) = whole.tool_invocations or ()
    expected = ToolInvocation("find_order", {"id": "A-17", "places": [7, True]}, duration_ms=2.0, error="no such order")
    assert call == expected
    # What could not be read may have been another call.
    assert broken.tool_invocations is None


def test_waiting_for_spans_counts_in_no_latency_and_is_given_up(asked: Project) -> None:
    turns = [{"input": f"Where is {order}", "ground_truth": f"In {place}"} for order, place in (("A-17", "Leeds"),) * 6]
    asked.suite([{"name": "a", "turns": turns}])
    target = f"command:{sys.executable} -c 'import program; program.commanded(\"silent\")'"

    def attempt(seconds: float) -> tuple[Finished, Record]:
        limits = {"turn_timeout_s": seconds, "case_timeout_s": seconds}
        asked.policy(target=target, spans=True, warm_up="to A-17", limits=limits)
        return asked.evaluate()

    # The first wait is for six seconds, longer than the shortest deadline.
    finished, record = ever_longer(attempt, lambda ran: ran[0].code == 0, (4, 16, 60))
    assert finished.code == 0, finished.stdout
    assert "in any turn" in finished.stderr
    timings = [turn.timing for turn in record.turns if turn.timing]
    starts = [datetime.fromisoformat(timing.started_at) for timing in timings]
    first, *later = [after - before for before, after in itertools.pairwise(starts)]
    assert min(later) < first / 2
    assert all(
        timing.duration_ms is not None and timing.duration_ms < first / timedelta(milliseconds=2) for timing in timings
    )


def test_a_port_in_use_is_said_with_the_way_out(asked: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        record = _record(asked, "http://127.0.0.1:9/x", 3, spans={"port": port})
    for case in record.cases:
        error = case.trials[0].error
        assert error is not None
        assert error.code == "cannot_start"
        assert f"spans cannot be received at 127.0.0.1:{port}: " in error.message
        assert "choose another port" in error.message
