"""What fields and variables ask for together."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.extensions.tracing.settings import Observability, secrets
from holodeck_action.extensions.tracing.traces import OtlpDestination, TracePlan, plan_traces
from holodeck_action.text.secrets import environment_secrets


def planned(exporters: dict[str, Any] | None = None, environ: dict[str, str] | None = None, **traces: Any) -> TracePlan:
    block = Observability.model_validate({"enabled": True, "traces": traces, "exporters": exporters})
    asked = plan_traces(block, "shop", environ or {})
    assert asked.plan is not None
    assert asked.notices == ()
    return asked.plan


def sent(environ: dict[str, str] | None = None, **otlp: Any) -> OtlpDestination:
    plan = planned({"otlp": otlp}, environ)
    assert plan.otlp is not None
    assert plan.console is None
    return plan.otlp


ENV = "OTEL_EXPORTER_OTLP_"


@pytest.mark.proves("OTLPExporter: insecure")
@pytest.mark.parametrize(
    ("otlp", "environ", "protocol", "endpoint"),
    [
        ({}, {}, "grpc", None),
        ({"protocol": "http"}, {}, "http", None),
        ({"endpoint": "https://c.example/otlp/"}, {}, "grpc", "https://c.example/otlp/"),
        ({"endpoint": "https://c.example/otlp/", "protocol": "http"}, {}, "http", "https://c.example/otlp/v1/traces"),
        ({"endpoint": "collector:4317"}, {}, "grpc", "https://collector:4317"),
        ({"endpoint": "collector:4317", "insecure": True}, {}, "grpc", "http://collector:4317"),
        ({"endpoint": "localhost:4317"}, {}, "grpc", "http://localhost:4317"),
        ({"endpoint": "127.0.0.1:4318", "protocol": "http"}, {}, "http", "http://127.0.0.1:4318/v1/traces"),
        ({"endpoint": "http://c.example", "insecure": False}, {}, "grpc", "https://c.example"),
        ({"endpoint": "https://c.example", "insecure": True}, {}, "grpc", "https://c.example"),
        ({"endpoint": "c:1"}, {f"{ENV}INSECURE": "true"}, "grpc", "http://c:1"),
        ({}, {f"{ENV}PROTOCOL": "http/protobuf"}, "http", None),
        ({}, {f"{ENV}ENDPOINT": "http://c.example:4318"}, "http", None),
        ({}, {f"{ENV}ENDPOINT": "http://c.example:4317"}, "grpc", None),
        ({}, {f"{ENV}TRACES_ENDPOINT": "http://c.example/x"}, "http", None),
        ({"endpoint": "http://a:1"}, {f"{ENV}TRACES_ENDPOINT": "http://c.example/x"}, "grpc", "http://a:1"),
        ({}, {f"{ENV}ENDPOINT": "http://b", f"{ENV}TRACES_ENDPOINT": "http://c/x"}, "http", None),
    ],
)
def test_where_spans_are_sent(
    otlp: dict[str, Any], environ: dict[str, str], protocol: str, endpoint: str | None
) -> None:
    found = sent(environ, **otlp)
    assert (found.protocol, found.endpoint) == (protocol, endpoint)


def test_values_of_headers_are_secrets() -> None:
    block = Observability.model_validate({"exporters": {"otlp": {"headers": {"Authorization": "Bearer abcdefgh"}}}})
    assert secrets(block) == {"Bearer abcdefgh", "abcdefgh"}
    environ = {f"{ENV}HEADERS": "k=one%20two", "OTHER_HEADERS": "k=no"}
    assert environment_secrets(environ) == {"one%20two", "one two"}


def test_nothing_secret_is_shown() -> None:
    found = sent(endpoint="https://me:word@c.example:4318/p?key=1", protocol="http", headers={"a": "hidden"})
    assert found.endpoint == "https://me:word@c.example:4318/p/v1/traces?key=1"
    assert found.address == "https://c.example:4318/p/v1/traces"
    assert sent(endpoint="http://[c", protocol="http").address == "the collector"


def test_which_exporters_are_used() -> None:
    def used(exporters: dict[str, Any] | None, environ: dict[str, str] | None = None) -> tuple[bool, bool]:
        asked = plan_traces(Observability.model_validate({"enabled": True, "exporters": exporters}), "s", environ or {})
        return (False, False) if asked.plan is None else (asked.plan.console is not None, asked.plan.otlp is not None)

    elsewhere = {f"{ENV}ENDPOINT": "http://c"}
    assert used(None) == used({}) == (True, False)
    assert used(None, elsewhere) == (False, True)
    assert used({"console": {}, "otlp": {}}) == (True, True)
    assert used({"console": {}}, elsewhere) == (True, True)
    assert used({"console": {"enabled": False}}) == (False, False)
    assert used({"otlp": {"enabled": False}}, elsewhere) == (False, False)
    assert used({"azure_monitor": {"enabled": True}}) == (False, False)


@pytest.mark.parametrize(
    ("traces", "queue", "batch"),
    [
        ({}, None, None),
        ({"capture_content": True}, 2048, 32),
        ({"capture_evaluation_content": True}, 2048, 32),
        ({"max_queue_size": 100}, 100, 100),
        ({"max_export_batch_size": 5000}, 5000, 5000),
        ({"max_queue_size": 9, "max_export_batch_size": 3, "capture_content": True}, 9, 3),
    ],
)
def test_sizes(traces: dict[str, Any], queue: int | None, batch: int | None) -> None:
    assert planned(**traces).sizes == (queue, batch)
