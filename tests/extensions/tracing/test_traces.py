"""Traces of runs: real processes against a model server and collectors on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from tests.action.runner import read_log
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.extensions.tracing.collector import Collector, grpc_collector, http_collector
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.targets.test_own import SHOP, asking, assert_hidden, calling, function

HEADER = "hny-planted-0815-key"
CLIENT, INTERNAL = 3, 1


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


def block(collector: Collector, traces: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An `observability` block that sends to a collector over HTTP; `otlp` adds to its exporter."""
    otlp = {"endpoint": collector.url, "protocol": "http", **more.pop("otlp", {})}
    return {"enabled": True, "traces": traces or {}, "exporters": {"otlp": otlp}, **more}


def transcript(project: Project, cases: int = 1, **observability: Any) -> None:
    """A suite answered from a transcript, with an `observability` block."""
    project.numbered(cases)
    given = json.loads((project.folder / "agent.yaml").read_text())
    project.write("agent.yaml", json.dumps({**given, "observability": observability}))


def shop(project: Project, models: FakeModels, observability: Mapping[str, Any]) -> None:
    """A conversation of two turns, the first with a call of a tool; the second fails."""
    turns = [
        {"input": "Where is A-17?", "ground_truth": "In Leeds", "expected_tools": ["find_order"]},
        {"input": "And when does it come?", "ground_truth": "Tomorrow"},
    ]
    project.write("shop.py", SHOP)
    asking(
        project,
        models,
        [{"name": "order", "turns": turns}],
        tools=[function("find_order")],
        observability=observability,
    )
    models.script(
        [
            calling("find_order", order="A-17"),
            Answer("In Leeds", prompt_tokens=11, completion_tokens=3, model="gpt-4o-2024-08-06"),
            "Never",
        ]
    )


# -- the tree


@pytest.mark.proves(
    "AgentConfig: observability", "Observability: exporters", "Exporters: otlp", "OTLPExporter: endpoint"
)
def test_spans_stand_below_each_other(project: Project, models: FakeModels, collector: Collector) -> None:
    shop(project, models, block(collector))
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 1, finished.stdout + finished.stderr
    assert "note:" not in finished.stderr
    run = collector.one("run tested")
    case = collector.one("case order")
    first, second = collector.named("invoke_agent tested")
    assert collector.below(run) == [case]
    assert collector.below(case) == [first, second]
    assert [span.name for span in collector.below(first)] == [
        "chat gpt-4o",
        "execute_tool find_order",
        "chat gpt-4o",
        "evaluate equality",
        "evaluate expected_tools",
    ]
    assert [span.name for span in collector.below(second)] == ["chat gpt-4o", "evaluate equality"]
    assert len(collector.spans) == 1 + 1 + 2 + 5 + 2
    assert len({span.trace for span in collector.spans}) == 1
    assert run.parent == b""
    assert all(span.end >= span.start for span in collector.spans)


def test_spans_say_what_happened_in_the_words_of_the_conventions(
    project: Project, models: FakeModels, collector: Collector
) -> None:
    shop(project, models, block(collector))
    project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    first, second = collector.named("invoke_agent tested")
    _, tool, call, *_ = collector.below(first)
    host, port = collector.url, int(models.url.rpartition(":")[2])
    assert host.startswith("http://127.0.0.1:")
    assert call.kind == CLIENT
    assert call.attributes == {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": pytest.approx(call.attributes["gen_ai.request.temperature"]),
        "gen_ai.request.max_tokens": call.attributes["gen_ai.request.max_tokens"],
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "server.address": "127.0.0.1",
        "server.port": port,
        "http.response.status_code": 200,
        "holodeck_action.call.kind": "agent",
        "holodeck_action.call.cached": False,
        "holodeck_action.call.attempts": 1,
        "holodeck_action.call.cost_usd": call.attributes["holodeck_action.call.cost_usd"],
    }
    assert tool.kind == INTERNAL
    assert tool.attributes == {
        "openinference.span.kind": "TOOL",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_order",
        "gen_ai.tool.type": "function",
    }
    assert first.attributes == {
        "openinference.span.kind": "AGENT",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "tested",
        "holodeck_action.turn.index": 0,
    }
    assert collector.one("case order").attributes == {
        "openinference.span.kind": "CHAIN",
        "holodeck_action.case.id": "order",
        "holodeck_action.case.name": "order",
        "holodeck_action.trial.index": 0,
    }
    _, failed = collector.below(second)
    assert failed.attributes == {
        "openinference.span.kind": "EVALUATOR",
        "gen_ai.evaluation.name": "equality",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail",
        "holodeck_action.evaluation.kind": "standard",
        "holodeck_action.evaluation.passed": False,
        "holodeck_action.evaluation.status": "completed",
    }
    # A low score is no error of the evaluation.
    assert not any(span.failed for span in collector.spans)


def test_parallel_cases_do_not_mix(project: Project, models: FakeModels, collector: Collector) -> None:
    cases = [{"name": f"case {n}", "input": f"say {n}", "ground_truth": f"echo: say {n}"} for n in range(40)]
    models.latency = lambda request: 0.05 if request.text.endswith(("1", "4", "7")) else 0.0
    asking(project, models, cases, observability=block(collector, {"capture_content": True}))
    finished = project.run(
        "run", "-o", "out", "--concurrency", "20", "--repeat", "2", "--min-pass", "2", OPENAI_API_KEY=KEY
    )
    assert finished.code == 0, finished.stdout + finished.stderr
    assert models.peak > 1
    trials = collector.named("case ")
    assert len(trials) == 80
    assert len(collector.spans) == 1 + 80 * 4
    for trial in trials:
        (turn,) = collector.below(trial)
        call, evaluation = collector.below(turn)
        number = trial.attributes["holodeck_action.case.name"].removeprefix("case ")
        said = json.loads(call.attributes["gen_ai.input.messages"])[-1]
        assert said["parts"] == [{"type": "text", "content": f"say {number}"}]
        assert evaluation.attributes["holodeck_action.evaluation.passed"] is True
    assert {trial.attributes["holodeck_action.trial.index"] for trial in trials} == {0, 1}


def test_evaluations_of_a_turn_follow_each_other(project: Project, collector: Collector) -> None:
    project.write("checks.py", "import time\ndef grade(context):\n    time.sleep(0.05)\n    return 1.0\n")
    metrics: list[dict[str, Any]] = [
        {"type": "standard", "metric": "equality"},
        {"type": "standard", "metric": "f1_score", "threshold": 0.5},
        {"type": "code", "grader": "checks:grade", "threshold": 0.5},
    ]
    project.suite([{"name": "a", "input": "q", "ground_truth": "x"}], metrics, observability=block(collector))
    project.answers([{"case": "a", "response": "x"}])
    project.policy(target="recorded:answers.jsonl")
    assert project.run("run", "-o", "out").code == 0
    turn = collector.one("invoke_agent tested")
    found = {span.attributes["gen_ai.evaluation.name"]: span for span in collector.below(turn)}
    assert len(found) == 3
    computed = sorted((found["equality"], found["f1_score"]), key=lambda span: span.start)
    assert all(before.end <= after.start for before, after in pairwise(computed))
    grader = next(span for name, span in found.items() if name not in ("equality", "f1_score"))
    assert grader.end - grader.start >= 50_000_000
    assert grader.attributes["holodeck_action.evaluation.kind"] == "code"


# -- what goes wrong


def test_errors_have_their_codes(project: Project, models: FakeModels, collector: Collector) -> None:
    project.write("shop.py", SHOP)
    asking(project, models, tools=[function("broken")], observability=block(collector))
    models.fail(Fault(error="context_length", about=lambda request: bool(request.results)))
    models.script([calling("broken", order="secret words of the case")])
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    failed = {span.name: span.attributes["error.type"] for span in collector.spans if span.failed}
    assert failed == {"execute_tool broken": "raised", "chat gpt-4o": "400", "invoke_agent tested": "context_length"}
    assert not any(b"secret words" in body for body in collector.bodies)


def test_a_failed_evaluation_says_why(project: Project, collector: Collector) -> None:
    project.write("checks.py", "def grade(context):\n    raise ValueError('hidden words')\n")
    project.suite(
        [{"name": "a", "input": "q", "ground_truth": "x"}],
        [{"type": "code", "grader": "checks:grade"}, {"type": "standard", "metric": "equality"}],
        observability=block(collector),
    )
    project.answers([{"case": "a", "response": "x"}])
    project.policy(target="recorded:answers.jsonl")
    assert project.run("run", "-o", "out").code == 3
    (failed,) = [span for span in collector.spans if span.failed]
    assert failed.attributes["holodeck_action.evaluation.status"] == "failed"
    assert failed.attributes["error.type"] == "raised"
    assert not any(b"hidden words" in body for body in collector.bodies)


def test_a_stopped_run_has_its_spans(project: Project, models: FakeModels, collector: Collector) -> None:
    asking(project, models, observability=block(collector))
    models.latency = 100

    def attempt(seconds: float) -> Finished:
        collector.spans.clear()
        return project.run("run", "-o", "out", "--run-timeout", f"{seconds}", OPENAI_API_KEY=KEY)

    finished = ever_longer(attempt, lambda ran: bool(collector.named("chat gpt-4o")))
    assert finished.code == 4, finished.stdout + finished.stderr
    assert collector.tree() == {"run tested": {"case echo": {"invoke_agent tested": {"chat gpt-4o": {}}}}}
    assert collector.one("chat gpt-4o").attributes["error.type"] == "cancelled"


def test_calls_that_are_replayed_say_so(project: Project, models: FakeModels, collector: Collector) -> None:
    asking(project, models)
    assert project.run("run", "-o", "out", "--record", "tape", OPENAI_API_KEY=KEY).code == 0
    asking(project, models, observability=block(collector))
    assert project.run("run", "-o", "out", "--replay", "tape").code == 0
    call = collector.one("chat ")
    assert (call.attributes["holodeck_action.call.cached"], call.attributes["holodeck_action.call.attempts"]) == (
        True,
        0,
    )


# -- panels


def test_every_judge_of_a_panel_has_a_span(project: Project, models: FakeModels, collector: Collector) -> None:
    def graded(request: Request) -> Answer | Fault:
        scores = {"gpt-4o": 9, "gpt-4o-mini": 2, "o3-mini": 4}
        if request.model not in scores:
            return Fault("unavailable", headers={"x-should-retry": "false"})
        return Answer(json.dumps({"reason": f"planted words of {request.model}", "score": scores[request.model]}))

    def judge(name: str) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": models.openai_url}

    panel = {
        "models": [judge("gpt-4o"), judge("gpt-4o-mini"), judge("gpt-down")],
        "fallback_models": [judge("gpt-gone"), judge("o3-mini")],
        "aggregation": "median",
    }
    tone = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["look"], "judges": panel}
    models.answer(graded)
    transcript(project, **block(collector))
    project.policy(target="recorded:answers.jsonl", metrics=[tone])
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 1, finished.stdout + finished.stderr
    whole = collector.one("evaluate Tone")
    assert whole.attributes["gen_ai.evaluation.score.value"] == 0.4
    found = {span.name: span for span in collector.below(whole)}
    assert {*found} == {f"judge openai/{name}" for name in ("gpt-4o", "gpt-4o-mini", "gpt-down", "gpt-gone", "o3-mini")}
    for name, score, fallback in (("gpt-4o", 0.9, False), ("gpt-4o-mini", 0.2, False), ("o3-mini", 0.4, True)):
        span = found[f"judge openai/{name}"]
        assert span.attributes == {
            "openinference.span.kind": "EVALUATOR",
            "gen_ai.evaluation.name": "Tone",
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": "pass" if score >= 0.5 else "fail",
            "holodeck_action.evaluation.passed": score >= 0.5,
            "holodeck_action.judge.model": f"openai/{name}",
            "holodeck_action.judge.fallback": fallback,
        }
        assert not span.failed
        assert [call.name for call in collector.below(span)] == [f"chat {name}"]
    for name, fallback in (("gpt-down", False), ("gpt-gone", True)):
        span = found[f"judge openai/{name}"]
        assert (span.failed, span.attributes["holodeck_action.judge.fallback"]) == (True, fallback)
        assert span.attributes["error.type"] == "overloaded"
    # One stands in after the other.
    times = [found[f"judge openai/{name}"] for name in ("gpt-down", "gpt-gone", "o3-mini")]
    assert all(one.end <= other.start for one, other in pairwise(times))
    assert not any(b"planted words" in body for body in collector.bodies)


def test_the_turn_of_an_agent_that_calls_models_itself_says_what_that_took(
    project: Project, collector: Collector
) -> None:
    used = {"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 4, "reasoning_tokens": 2, "cost_usd": 0.5}
    replies = [{"response": "x", "model": "openai/gpt-4o", "usage": used}, {"error": "no", "usage": used}]
    project.suite([{"name": name, "input": "?", "ground_truth": "x"} for name in "ab"], observability=block(collector))
    project.answers([{"case": name, **reply} for name, reply in zip("ab", replies, strict=True)])
    project.policy(target="recorded:answers.jsonl")
    project.run("run", "-o", "out")
    for turn in collector.named("invoke_agent"):
        names = ("input_tokens", "output_tokens", "cache_read.input_tokens", "reasoning.output_tokens")
        assert [turn.attributes[f"gen_ai.usage.{name}"] for name in names] == [20, 5, 4, 2]
        assert turn.attributes["holodeck_action.turn.cost_usd"] == 0.5
        assert turn.attributes.get("gen_ai.response.model") == (None if turn.failed else "openai/gpt-4o")


@pytest.mark.proves("Traces: capture_evaluation_content")
def test_the_words_of_a_judge_are_content(project: Project, models: FakeModels, collector: Collector) -> None:
    models.answer(lambda request: Answer(json.dumps({"reason": f"it is fine, {KEY}", "score": 9})))
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    tone = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["look"]}
    transcript(project, **block(collector, {"capture_evaluation_content": True}))
    project.policy(target="recorded:answers.jsonl", metrics=[tone], judges={"models": [judge, judge]})
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    judges = collector.named("judge openai/gpt-4o")
    assert [span.attributes["gen_ai.evaluation.explanation"] for span in judges] == ["it is fine, ***"] * 2
    assert all("look" in span.attributes["gen_ai.input.messages"] for span in collector.named("chat"))
    assert "gen_ai.evaluation.explanation" in collector.one("evaluate equality").attributes
    turn = collector.one("invoke_agent")
    assert not {"gen_ai.input.messages", "gen_ai.output.messages"} & turn.attributes.keys()


# -- content


def test_inputs_and_outputs_are_left_out_unless_asked_for(
    project: Project, models: FakeModels, collector: Collector
) -> None:
    shop(project, models, block(collector))
    project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    sent = b"".join(collector.bodies)
    for words in (b"A-17", b"Where is", b"Leeds", b"Never", b"Tomorrow", b"customers of a shop"):
        assert words not in sent


@pytest.mark.proves("Traces: capture_content")
def test_inputs_and_outputs_in_the_form_of_the_conventions(
    project: Project, models: FakeModels, collector: Collector
) -> None:
    shop(project, models, block(collector, {"capture_content": True}))
    project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    first, _ = collector.named("invoke_agent tested")
    asked, tool, answered, equality, _ = collector.below(first)

    def text(content: str) -> dict[str, str]:
        return {"type": "text", "content": content}

    def read(span: Any, name: str) -> Any:
        return json.loads(span.attributes[name])

    assert read(first, "gen_ai.input.messages") == [{"role": "user", "parts": [text("Where is A-17?")]}]
    assert read(first, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": [text("In Leeds")], "finish_reason": "stop"}
    ]
    (said,) = read(asked, "gen_ai.output.messages")
    (call,) = said["parts"]
    identity = call.pop("id")
    assert identity
    assert said["finish_reason"] == "tool_call"
    assert call == {"type": "tool_call", "name": "find_order", "arguments": {"order": "A-17"}}
    assert read(tool, "gen_ai.tool.call.arguments") == {"order": "A-17"}
    assert tool.attributes["gen_ai.tool.call.result"] == "A-17 is in Leeds"
    system, user, again, result = read(answered, "gen_ai.input.messages")
    assert (system["role"], system["parts"]) == ("system", [text("You answer customers of a shop.")])
    assert (user["role"], again["role"], result["role"]) == ("user", "assistant", "tool")
    assert result["parts"] == [{"type": "tool_call_response", "id": identity, "response": "A-17 is in Leeds"}]
    assert "In Leeds" in equality.attributes["gen_ai.evaluation.explanation"]


@pytest.mark.proves("Traces: redaction_patterns")
def test_secrets_and_what_patterns_find_are_nowhere(project: Project, models: FakeModels, collector: Collector) -> None:
    case = {"name": "a", "input": f"my key is {KEY} and my card 4111-1111-1111-1111", "ground_truth": "x"}
    traces = {"capture_content": True, "redaction_patterns": [r"\d{4}(-\d{4}){3}", "(?i)leeds"]}
    observability = block(collector, traces, otlp={"headers": {"X-Team": HEADER}})
    asking(project, models, [case], observability=observability)
    models.answer(lambda request: f"{HEADER} of LEEDS")
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 1
    assert collector.requests[0]["x-team"] == HEADER
    sent = b"".join(collector.bodies)
    for words in (KEY.encode(), HEADER.encode(), b"4111", b"LEEDS"):
        assert words not in sent
    turn = collector.one("invoke_agent")
    assert "my key is *** and my card ***" in turn.attributes["gen_ai.input.messages"]
    assert "*** of ***" in turn.attributes["gen_ai.output.messages"]
    assert HEADER not in finished.stdout + finished.stderr
    assert not [path for path in project.out.rglob("*") if path.is_file() and HEADER in path.read_text()]


def test_a_slow_pattern_ends_the_capture_of_content(project: Project, collector: Collector) -> None:
    traces = {"capture_content": True, "redaction_patterns": ["(a|aa)+$"]}
    project.suite([{"name": "a", "input": "a" * 60 + "!", "ground_truth": "x"}], observability=block(collector, traces))
    project.answers([{"case": "a", "response": "x"}])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("run", "-o", "out")
    assert finished.code == 0, finished.stdout + finished.stderr
    turn = collector.one("invoke_agent")
    assert turn.attributes["gen_ai.input.messages"] == "***"
    assert collector.one("evaluate equality").attributes["gen_ai.evaluation.explanation"] == "***"
    assert "redaction_patterns: a pattern took too long on an input or an output" in finished.stderr


# -- settings


@pytest.mark.proves("Observability: enabled traces", "Traces: enabled sample_rate", "OTLPExporter: enabled")
@pytest.mark.parametrize(
    "observability",
    [
        {},
        {"enabled": False, "exporters": {"otlp": {"endpoint": "URL", "protocol": "http"}}},
        {"enabled": True, "traces": {"enabled": False}, "exporters": {"otlp": {"endpoint": "URL", "protocol": "http"}}},
        {"enabled": True, "traces": {"sample_rate": 0}, "exporters": {"otlp": {"endpoint": "URL", "protocol": "http"}}},
        {"enabled": True, "exporters": {"otlp": {"enabled": False, "endpoint": "URL", "protocol": "http"}}},
    ],
    ids=["absent", "disabled", "no traces", "rate 0", "exporter off"],
)
def test_nothing_is_sent_unless_asked_for(
    project: Project, collector: Collector, observability: dict[str, Any]
) -> None:
    transcript(project, **json.loads(json.dumps(observability).replace("URL", collector.url)))
    finished = project.run("run", "-o", "out")
    assert finished.code == 0
    assert collector.requests == []


def test_the_sdk_s_own_switch(project: Project, collector: Collector) -> None:
    transcript(project, **block(collector))
    assert project.run("run", "-o", "out", OTEL_SDK_DISABLED="true").code == 0
    assert collector.requests == []
    assert project.run("run", "-o", "out").code == 0
    assert len(collector.spans) == 4


@pytest.mark.proves("Traces: sample_rate")
def test_a_share_of_the_trials_is_kept_whole(project: Project, collector: Collector) -> None:
    transcript(project, 200, **block(collector, {"sample_rate": 0.5}))
    assert project.run("run", "-o", "out").code == 0
    kept = collector.named("case ")
    # Of 200 tosses between 60 and 140 in all but one of 10^8 runs.
    assert 60 < len(kept) < 140
    assert len(collector.spans) == 1 + 3 * len(kept)
    assert all(len(collector.below(trial)) == 1 for trial in kept)


@pytest.mark.full
@pytest.mark.proves("Observability: service_name resource_attributes")
def test_who_sends(project: Project, collector: Collector) -> None:
    transcript(project, **block(collector))
    project.run_process("run")
    project.run_process("run", OTEL_SERVICE_NAME="from-outside", OTEL_RESOURCE_ATTRIBUTES="team=blue,tier=one")
    attributes = {"deployment.environment": "${STAGE}", "team": "red", "pin": "${THE_TOKEN}", "n": 3}
    transcript(project, **block(collector, service_name="named", resource_attributes=attributes))
    project.run_process(
        "run",
        STAGE="staging",
        THE_TOKEN="tok-12345678",
        OTEL_SERVICE_NAME="from-outside",
        OTEL_RESOURCE_ATTRIBUTES="team=blue,tier=one",
    )
    default, outside, named = [span.resource for span in collector.named("run ")]
    assert default["service.name"] == "holodeck-tested"
    assert (outside["service.name"], outside["team"]) == ("from-outside", "blue")
    assert (named["service.name"], named["team"], named["tier"]) == ("named", "red", "one")
    # The value of a variable is what the attribute is for; a secret stays one.
    assert (named["deployment.environment"], named["n"], named["pin"]) == ("staging", "3", "***")


@pytest.mark.proves("Traces: max_export_batch_size")
def test_a_batch_holds_no_more_than_it_may(project: Project, collector: Collector) -> None:
    transcript(project, 10, **block(collector, {"max_export_batch_size": 7}))
    assert project.run("run", "-o", "out").code == 0
    assert len(collector.spans) == 31
    assert max(collector.sizes) <= 7


@pytest.mark.proves("Traces: max_queue_size")
def test_what_the_queue_does_not_hold_is_counted(project: Project, collector: Collector) -> None:
    collector.delay = 0.15
    transcript(project, 60, **block(collector, {"max_queue_size": 3, "max_export_batch_size": 3}))
    finished = project.run("run", "-o", "out")
    assert finished.code == 0
    assert (
        f"of 181 spans did not reach {collector.url}/v1/traces: more spans waited than max_queue_size allows"
        in finished.stderr
    )


@pytest.mark.proves("OTLPExporter: headers compression")
@pytest.mark.parametrize(("compression", "coding"), [("gzip", "gzip"), ("Deflate", "deflate"), ("none", None)])
def test_compression_and_headers(project: Project, collector: Collector, compression: str, coding: str | None) -> None:
    transcript(project, **block(collector, otlp={"compression": compression, "headers": {"X-Team": HEADER}}))
    assert project.run("run", "-o", "out").code == 0
    assert len(collector.spans) == 4
    assert collector.requests[0].get("content-encoding") == coding
    assert collector.requests[0]["x-team"] == HEADER
    assert collector.requests[0]["content-type"] == "application/x-protobuf"


@pytest.mark.parametrize("path", ["", "/", "/v1/traces", "/otlp"])
def test_the_path_of_traces_is_added_where_it_is_missing(project: Project, collector: Collector, path: str) -> None:
    url = collector.url + path
    transcript(project, **block(collector, otlp={"endpoint": url}))
    assert project.run("run", "-o", "out").code == 0
    assert collector.paths == ["/otlp/v1/traces" if path == "/otlp" else "/v1/traces"]


@pytest.mark.full
def test_the_environment_says_where_to_when_the_file_does_not(project: Project, collector: Collector) -> None:
    transcript(project, enabled=True)
    finished = project.run(
        "run", "-o", "out", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS=f"x-team={HEADER}"
    )
    assert finished.code == 0
    assert collector.paths == ["/v1/traces"]
    assert collector.requests[0]["x-team"] == HEADER
    assert "invoke_agent" not in finished.stderr
    transcript(project, enabled=True, exporters={"otlp": {"protocol": "http"}})
    finished = project.run("run", "-o", "out", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/mine")
    assert finished.code == 0
    assert collector.paths[1:] == ["/mine"]


def test_variables_of_an_env_file_are_not_those_of_the_process(project: Project, collector: Collector) -> None:
    transcript(project, enabled=True)
    project.write("more.env", f"OTEL_EXPORTER_OTLP_ENDPOINT={collector.url}\n")
    finished = project.run("run", "-o", "out", "--env-file", "more.env")
    assert (finished.code, collector.paths) == (0, [])
    assert "OTEL_EXPORTER_OTLP_ENDPOINT: not read from an env file; set it for the whole process" in finished.stderr


@pytest.mark.parametrize("otlp", [{"compression": "zip"}, {"endpoint": "http://[c"}, {"endpoint": "ftp://127.0.0.1"}])
def test_what_cannot_be_sent_is_a_note(project: Project, collector: Collector, otlp: dict[str, Any]) -> None:
    finished = troubled(project, **block(collector, otlp=otlp))
    assert "note: observability: traces cannot be sent: " in finished.stderr or "did not reach" in finished.stderr
    assert collector.paths == []


def test_no_proxy_stands_before_this_machine(project: Project, collector: Collector) -> None:
    transcript(project, **block(collector))
    assert project.run("run", "-o", "out", HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9").code == 0
    assert len(collector.spans) == 4


@pytest.mark.proves("OTLPExporter: protocol insecure")
def test_grpc(project: Project) -> None:
    with grpc_collector() as collector:
        otlp: dict[str, Any] = {
            "endpoint": collector.url,
            "protocol": "grpc",
            "headers": {"X-Team": HEADER},
            "compression": "gzip",
        }
        transcript(project, 3, enabled=True, exporters={"otlp": otlp})
        finished = project.run("run", "-o", "out", http_proxy="http://127.0.0.1:9", grpc_proxy="http://127.0.0.1:9")
        assert (finished.code, "note:" in finished.stderr) == (0, False), finished.stderr
        assert len(collector.spans) == 10
        assert collector.requests[0]["x-team"] == HEADER
        # As HoloDeck has it: gRPC without TLS unless the file says otherwise.
        transcript(project, enabled=True, exporters={"otlp": {"endpoint": collector.url.removeprefix("http://")}})
        assert project.run("run", "-o", "out").code == 0
        assert len(collector.spans) == 14
        otlp = {"endpoint": collector.url, "protocol": "grpc", "insecure": False, "timeout_ms": 500}
        transcript(project, enabled=True, exporters={"otlp": otlp})
        finished = project.run("run", "-o", "out")
        assert finished.code == 0
        assert f"4 of 4 spans did not reach {collector.url.replace('http', 'https')}: " in finished.stderr
        assert len(collector.spans) == 14


# -- the console


def console(project: Project, **exporter: Any) -> Finished:
    transcript(project, enabled=True, exporters={"console": exporter})
    finished = project.run("run", "-o", "out")
    assert finished.code == 0
    assert "invoke_agent" not in finished.stdout
    return finished


@pytest.mark.proves("Exporters: console")
def test_the_console_is_standard_error(project: Project) -> None:
    lines = [line for line in console(project, pretty_print=False).stderr.splitlines() if line.startswith("{")]
    spans = [json.loads(line) for line in lines]
    assert [span["name"] for span in spans] == ["invoke_agent tested", "evaluate equality", "case case-0", "run tested"]
    assert all(span["start_time"] and span["end_time"] for span in spans)


@pytest.mark.proves("ConsoleExporter: enabled pretty_print include_timestamps")
def test_the_console_may_be_indented_and_without_times(project: Project) -> None:
    assert '\n    "name": "run tested",\n' in console(project).stderr
    shown = console(project, include_timestamps=False, pretty_print=False).stderr
    assert "invoke_agent tested" in shown
    assert "_time" not in shown
    assert "invoke_agent" not in console(project, enabled=False).stderr


def test_without_any_exporter_the_console_is_used(project: Project) -> None:
    transcript(project, enabled=True)
    assert "invoke_agent tested" in project.run("run", "-o", "out").stderr


def test_no_text_in_a_span_is_a_command_of_the_runner(project: Project) -> None:
    hostile = "::error::owned ##[error]owned \u2028 \x1b[31m"
    observability = {"enabled": True, "traces": {"capture_content": True}, "exporters": {"console": {}}}
    project.suite([{"name": "a", "input": hostile, "ground_truth": "x"}], observability=observability)
    project.answers([{"case": "a", "response": hostile}])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("run", "-o", "out")
    assert read_log(finished.stderr.encode()).commands == ()
    # RelatedFiles the spans stands the progress, which shows the reason.
    shown = "".join(line for line in finished.stderr.splitlines(keepends=True) if not line.startswith("    equality: "))
    assert "owned" in shown
    for never in ("::error", "##[error", "\x1b", "\u2028"):
        assert never not in shown


# -- collectors in trouble


def troubled(project: Project, **observability: Any) -> Finished:
    transcript(project, 3, **observability)
    finished = project.run("run", "-o", "out")
    assert finished.code == 0, finished.stdout + finished.stderr
    return finished


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_collector_that_is_away(project: Project, protocol: str) -> None:
    url = f"http://user:pass-4711@127.0.0.1:{closed_port()}"
    finished = troubled(project, enabled=True, exporters={"otlp": {"endpoint": url, "protocol": protocol}})
    (note,) = [line for line in finished.stderr.splitlines() if line.startswith("note: ")]
    path = "/v1/traces" if protocol == "http" else ""
    assert note.startswith(
        f"note: traces: 10 of 10 spans did not reach {url.replace('user:pass-4711@', '')}{path}: the collector "
    )
    assert note.endswith("; the verdict does not depend on them")
    assert "pass-4711" not in finished.stdout + finished.stderr


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_run_does_not_wait_for_a_slow_collector(project: Project, protocol: str) -> None:
    with http_collector() if protocol == "http" else grpc_collector() as collector:
        # Longer than a test may take.
        collector.delay = 600
        otlp = {"endpoint": collector.url, "protocol": protocol, "timeout_ms": 300_000}
        finished = troubled(project, enabled=True, exporters={"otlp": otlp})
        assert "10 of 10 spans did not reach" in finished.stderr
        assert "the collector did not accept them in time" in finished.stderr


@pytest.mark.parametrize(
    ("status", "why"),
    [(401, "the collector answered with status 401"), (307, "the collector answered with status 307")],
)
def test_a_collector_that_refuses(project: Project, collector: Collector, status: int, why: str) -> None:
    collector.status = status
    finished = troubled(project, **block(collector, otlp={"headers": {"authorization": f"Bearer {HEADER}"}}))
    assert f"10 of 10 spans did not reach {collector.url}/v1/traces: {why}" in finished.stderr
    assert HEADER not in finished.stdout + finished.stderr


def test_a_grpc_collector_that_refuses(project: Project) -> None:
    with grpc_collector() as collector:
        collector.status = "UNAUTHENTICATED"
        transcript(project, 3, enabled=True, exporters={"otlp": {"endpoint": collector.url}})
        # OpenTelemetry logs a reason once per process.
        finished = project.run_process("run")
        assert finished.code == 0
        assert f"did not reach {collector.url}: the collector answered UNAUTHENTICATED" in finished.stderr


@pytest.mark.proves("OTLPExporter: timeout_ms")
def test_a_request_takes_as_long_as_it_may(project: Project, collector: Collector) -> None:
    collector.delay = 600
    finished = troubled(project, **block(collector, otlp={"timeout_ms": 50}))
    assert "the collector did not answer in time" in finished.stderr


def test_a_header_that_cannot_be_sent(project: Project, collector: Collector) -> None:
    finished = troubled(project, **block(collector, otlp={"headers": {"x-team": f"{HEADER}\nbad"}}))
    assert "spans did not reach" in finished.stderr
    assert HEADER not in finished.stdout + finished.stderr


def test_several_suites_wait_together(project: Project) -> None:
    with http_collector() as collector:
        collector.delay = 600
        for name in "abc":
            inner = Project(project.folder / name)
            inner.folder.mkdir()
            transcript(inner, **block(collector, otlp={"timeout_ms": 300_000}))
        finished = project.run("run", "-o", "out", "a", "b", "c")
        assert finished.code == 0, finished.stdout + finished.stderr
        assert finished.stderr.count("4 of 4 spans did not reach") == 3


# -- nothing else changes


def test_the_report_is_the_same_with_and_without_traces(
    project: Project, models: FakeModels, collector: Collector
) -> None:
    def canonical(folder: str) -> str:
        return project.run("report", f"{folder}/results.json", "--canonical", "--format", "json").stdout

    # The same file, so that the suite's digest is the same: the switch is outside.
    asking(project, models, observability=block(collector, {"capture_content": True}))
    assert project.run("run", "-o", "out", "-o", "off", OPENAI_API_KEY=KEY, OTEL_SDK_DISABLED="true").code == 0
    assert project.run("run", "-o", "out", "-o", "on", OPENAI_API_KEY=KEY).code == 0
    assert len(collector.spans) == 5
    assert "echo: ping" in canonical("on")
    assert canonical("on") == canonical("off")


@pytest.mark.proves("Observability: disable_provider_tracing")
def test_providers_see_nothing_of_it_and_cassettes_hold_nothing_of_it(
    project: Project, models: FakeModels, collector: Collector
) -> None:
    asking(project, models)
    assert project.run("run", "-o", "out", "--record", "plain", OPENAI_API_KEY=KEY).code == 0
    asking(project, models, observability=block(collector, {"capture_content": True}, disable_provider_tracing=False))
    assert project.run("run", "-o", "out", "--record", "traced", OPENAI_API_KEY=KEY).code == 0
    assert len(collector.spans) == 5
    plain, traced = (sorted(path.name for path in (project.folder / name).iterdir()) for name in ("plain", "traced"))
    assert plain == traced
    before, after = models.requests
    assert {*before.headers} == {*after.headers}
    assert not {"traceparent", "tracestate", "baggage"} & {*after.headers}
    assert_hidden(project)


def test_off_imports_nothing(project: Project) -> None:
    from tests.commands.test_imports import loaded

    transcript(project, enabled=False)
    assert not {"opentelemetry", "grpc", "requests"} & loaded(project, "run")


def test_a_missing_package_is_a_note(project: Project, collector: Collector) -> None:
    transcript(project, **block(collector))
    blocked = project.write("blocked/opentelemetry/__init__.py", "raise ModuleNotFoundError(name='opentelemetry')\n")
    finished = project.run_process("run", PYTHONPATH=str(blocked.parents[1]))
    assert finished.code == 0
    assert (
        "note: observability: traces need a package that is not installed (opentelemetry), so none are sent; "
        "run pip install 'holodeck-action[otel]'" in finished.stderr
    )
