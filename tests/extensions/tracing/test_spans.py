"""Spans without a process around them: what they cost, a terminal, and the end of a run to the tenth of a second."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import time
from typing import Any

import pytest

from holodeck_action.extensions.tracing.otel import OtelTraces
from holodeck_action.extensions.tracing.settings import Observability
from holodeck_action.extensions.tracing.traces import plan_traces
from holodeck_action.llm.spans import NO_SPAN, SpanScope, current, span
from holodeck_action.text.redaction import Redactor
from tests.extensions.tracing.collector import Collector, grpc_collector, http_collector
from tests.workers.support import wait_until

ATTRIBUTES = {f"gen_ai.attribute_{number}": "a value of it" for number in range(14)}


def opened(exporters: dict[str, Any], stderr: io.StringIO | None = None, **traces: Any) -> OtelTraces:
    block = Observability.model_validate({"enabled": True, "traces": traces, "exporters": exporters})
    plan = plan_traces(block, "shop", {}).plan
    assert plan is not None
    redactor = Redactor(["planted-secret"])
    return OtelTraces(
        plan, redactor=redactor, resource_redactor=redactor, stderr=stderr or io.StringIO(), uniform=lambda: 0.5
    )


def to(collector: Collector, protocol: str = "http", **more: Any) -> dict[str, Any]:
    return {"otlp": {"endpoint": collector.url, "protocol": protocol, **more}}


def each(times: int) -> float:
    """Microseconds of this thread's processor for one span."""
    began = time.thread_time()
    for _ in range(times):
        with span("execute_tool find", ATTRIBUTES) as found:
            found.set({"holodeck_action.call.cached": False})
    return (time.thread_time() - began) / times * 1e6


def wait_for_threads() -> None:
    """Wait until nothing is sent any more, and nothing logged into another test."""
    for thread in threading.enumerate():
        if thread.name == "traces" or thread.name.startswith("Otel"):
            thread.join(60)


def written(times: int) -> float:
    """Microseconds of this thread's processor for writing a span's attributes as JSON."""
    began = time.thread_time()
    for _ in range(times):
        json.dumps(ATTRIBUTES)
    return (time.thread_time() - began) / times * 1e6


@pytest.mark.full
def test_what_spans_cost() -> None:
    # In units of what it costs to write the attributes as JSON: about 0.1 and 8.
    assert min(each(1000) / written(1000) for _ in range(5)) < 2
    with http_collector() as collector:
        traces = opened(to(collector), max_queue_size=10_000)
        with SpanScope(traces.root("run shop", {})):
            assert min(each(400) / written(400) for _ in range(5)) < 40
        assert traces.close(60) == ()
        assert len(collector.spans) == 2001


def test_without_a_run_there_is_no_span() -> None:
    with span("case a", {}, sampled=True) as found:
        assert found is NO_SPAN
        assert current() is NO_SPAN


def test_tasks_have_spans_of_their_own() -> None:
    async def case(name: str) -> None:
        with span(f"case {name}", {}):
            await asyncio.sleep(0.001)
            await asyncio.gather(*(turn(name, number) for number in range(3)))

    async def turn(name: str, number: int) -> None:
        with span(f"turn {name} {number}", {}):
            await asyncio.sleep(0.001)

    async def run() -> None:
        await asyncio.gather(*(case(name) for name in "abc"))

    with http_collector() as collector:
        traces = opened(to(collector))
        with SpanScope(traces.root("run", {})):
            asyncio.run(run())
        assert traces.close(60) == ()
        assert collector.tree() == {
            "run": {f"case {name}": {f"turn {name} {number}": {} for number in range(3)} for name in "abc"}
        }
    assert current() is NO_SPAN


@pytest.mark.proves("Traces: schedule_delay_millis")
def test_spans_are_sent_as_often_as_asked() -> None:
    with http_collector() as collector:
        seldom = opened(to(collector), schedule_delay_millis=600_000)
        often = opened(to(collector), schedule_delay_millis=100)
        for name, traces in {"seldom": seldom, "often": often}.items():
            with SpanScope(traces.root(name, {})):
                pass
        # The SDK's own delay is 5 s, for both.
        assert wait_until(lambda: bool(collector.spans))
        assert [span.name for span in collector.spans] == ["often"]
        assert (often.close(60), seldom.close(60)) == ((), ())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_end_comes_in_the_time_it_has(protocol: str) -> None:
    with http_collector() if protocol == "http" else grpc_collector() as collector:
        # Longer than a test may take: nothing comes while the collector is waited for.
        collector.delay = 600
        traces = opened(to(collector, protocol, timeout_ms=300_000))
        with SpanScope(traces.root("run", {})):
            pass
        (told,) = traces.close(0.2)
        assert "the collector did not accept them in time" in told
        collector.closing.set()
        wait_for_threads()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nobody_waits_for_a_collector_that_is_not_there(protocol: str) -> None:
    otlp = {"endpoint": "http://127.0.0.1:9", "protocol": protocol, "timeout_ms": 300_000}
    traces = opened({"otlp": otlp})
    with SpanScope(traces.root("run", {})):
        pass
    # Trying again would take until the timeout, longer than a test may take.
    (told,) = traces.close(600)
    wait_for_threads()
    assert "1 of 1 spans did not reach http://127.0.0.1:9" in told


def test_the_sdk_logs_as_before_when_a_run_is_over(caplog: pytest.LogCaptureFixture) -> None:
    traces = opened({"otlp": {"endpoint": "http://127.0.0.1:9", "protocol": "http"}})
    with SpanScope(traces.root("run", {})):
        pass
    traces.close(60)
    assert caplog.records == []
    logging.getLogger("opentelemetry.sdk").warning("heard")
    assert [record.message for record in caplog.records] == ["heard"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_spans_are_shown_when_the_run_is_over() -> None:
    terminal = Terminal()
    traces = opened({"console": {"pretty_print": False}}, terminal)
    with SpanScope(traces.root("run planted-secret", {"holodeck_action.suite.name": "planted-secret"})):
        with span("case a", {}):
            pass
        assert terminal.getvalue() == ""
    traces.close(60)
    shown = [json.loads(line) for line in terminal.getvalue().splitlines()]
    assert [found["name"] for found in shown] == ["case a", "run ***"]
    assert "planted-secret" not in terminal.getvalue()
