"""The two APIs of OpenAI: which one a model is called through, live and replayed, and what passes between calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from holodeck_action.llm.chat import ChatModel
from holodeck_action.llm.messages import Question, Request
from holodeck_action.llm.providers import resolve_model, with_api
from holodeck_action.record.record import Record
from holodeck_action.suite.model.providers import LLMProvider
from tests.commands.project import Project
from tests.llm.codecs.plans import answer_of, response_of
from tests.llm.models import KEY, Answer, FakeModels, Fault, ToolCall
from tests.llm.models import Request as Asked
from tests.llm.models.responses import SEALED
from tests.llm.models.shapes import event
from tests.llm.wiring import opened
from tests.tables import walk
from tests.targets.test_own import SHOP, asking, function, openai

SHOP_AND_STOCK = f"{SHOP}\n\ndef stock(item: str) -> int:\n    return 3\n"
TOOLS = [function("find_order"), function("stock")]
CASE = {"name": "order", "input": "Where is A-17?", "ground_truth": "echo: A-17 is in Leeds | 3"}
KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ONLY_RESPONSES = {
    "error": {
        "message": "This model is only supported in v1/responses and not in v1/chat/completions.",
        "type": "invalid_request_error",
        "param": "model",
        "code": None,
    }
}


def thinking(request: Asked) -> Answer:
    """Think, call both functions, and echo their results."""
    if request.results:
        return Answer("echo: " + " | ".join(request.results), thinking="Both are here.")
    calls = (ToolCall("find_order", {"order": "A-17"}), ToolCall("stock", {"item": "A-17"}))
    return Answer("I look.", tools=calls, thinking="Two functions help.", phase="commentary")


def shop(project: Project, models: FakeModels, model: Mapping[str, Any], **top: Any) -> None:
    project.write("shop.py", SHOP_AND_STOCK)
    asking(project, models, [CASE], tools=TOOLS, model={**model}, **top)
    models.answer(thinking)


def recorded_and_replayed(project: Project, models: FakeModels) -> tuple[Record, int]:
    """Run the suite live, recorded, and from the recording; return the first record and its notes of a switch."""
    finished, record = project.evaluate("--record", "tape", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    asked = len(models.requests)
    first = canonical(project)
    notes = finished.stderr.count("was called through the Responses API")
    assert notes == sum("was called through the Responses API" in notice for notice in record.run.notices)
    finished = project.run("run", "-o", "out", "--replay", "tape")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(models.requests) == asked
    assert canonical(project) == first
    return record, notes


def canonical(project: Project) -> str:
    """Return what a replay repeats of the last run."""
    told = project.run("report", "out", "--canonical", "--format", "json").stdout
    assert json.loads(told)["passing"]
    return told


MODELS: dict[str, tuple[str, list[str]]] = {
    "gpt-6-luna": ("openai", [CHAT, RESPONSES, RESPONSES]),
    "gpt-5.6": ("openai", [CHAT, RESPONSES, RESPONSES]),
    "gpt-4.1": ("openai", [CHAT, CHAT]),
    "gpt-7-x": ("openai", [CHAT, CHAT]),
    "claude-haiku-4-5": ("anthropic", ["/v1/messages"] * 2),
    "llama3.2": ("ollama", [CHAT, CHAT]),
}


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_two_functions_live_and_replayed(project: Project, models: FakeModels, name: str) -> None:
    provider, paths = MODELS[name]
    addresses = {"openai": models.openai_url, "anthropic": models.anthropic_url, "ollama": models.ollama_url}
    shop(project, models, {"provider": provider, "name": name, "endpoint": addresses[provider]})
    record, notes = recorded_and_replayed(project, models)
    assert [request.path for request in models.requests] == paths
    assert notes == (RESPONSES in paths)
    turn = record.cases[0].trials[0].turns[0]
    assert turn.response == CASE["ground_truth"]
    assert [call.name for call in turn.tool_invocations or ()] == ["find_order", "stock"]
    assert turn.usage is not None
    assert turn.usage.completion_tokens


@pytest.mark.proves("OpenAIConfig: api")
def test_thoughts_go_back_encrypted_and_stay_out_of_the_answer(project: Project, models: FakeModels) -> None:
    shop(project, models, openai(models, name="gpt-5.6"), openai={"api": "responses", "effort": "high"})
    record, notes = recorded_and_replayed(project, models)
    first, second = models.requests
    assert [first.path, second.path] == [RESPONSES] * 2
    assert notes == 0
    assert (first.body["store"], first.body["reasoning"]) == (False, {"effort": "high"})
    thought, comment, *calls = second.body["input"][1:5]
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", f"{SEALED}0")
    assert (comment["phase"], comment["content"][0]["text"]) == ("commentary", "I look.")
    assert [call["type"] for call in calls] == ["function_call"] * 2
    turn = record.cases[0].trials[0].turns[0]
    assert "Both are here" not in str(turn.response)


def test_a_refusal_changes_no_api_that_the_suite_sets(project: Project, models: FakeModels) -> None:
    shop(project, models, openai(models, name="gpt-5.6"), openai={"api": "chat"})
    finished, record = project.evaluate(**KEYS)
    assert finished.code == 3
    assert {request.path for request in models.requests} == {CHAT}
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert "; `openai: {api: chat}` keeps the model from the Responses API" in error.message


@pytest.mark.full
@walk(("first", "then"), [("chat", "responses"), ("responses", None)])
def test_a_replay_takes_the_api_of_the_recording(
    project: Project, models: FakeModels, first: str, then: str | None
) -> None:
    shop(project, models, openai(models, name="gpt-4.1"), openai={"api": first})
    finished, record = project.evaluate("--record", first, **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    asked = len(models.requests)
    shop(project, models, openai(models, name="gpt-4.1"), openai=None if then is None else {"api": then})
    finished, replayed = project.evaluate("--replay", first)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(models.requests) == asked
    assert [turn.response for turn in replayed.cases[0].trials[0].turns] == [CASE["ground_truth"]]
    assert replayed.cases[0].trials[0].turns[0].usage == record.cases[0].trials[0].turns[0].usage
    project.write("agent.yaml", (project.folder / "agent.yaml").read_text().replace("Where is", "And where is"))
    finished, replayed = project.evaluate("--replay", first)
    error = replayed.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == "cassette_miss"


@pytest.mark.full
@walk(
    ("written", "environ", "endpoint"),
    [
        (None, {}, "api.openai.com/v1/responses"),
        ("chat", {}, "api.openai.com/v1/chat/completions"),
        (None, {"OPENAI_BASE_URL": "https://gate.example/v1"}, "gate.example/v1/chat/completions"),
        ("responses", {"OPENAI_BASE_URL": "https://gate.example/v1"}, "gate.example/v1/responses"),
    ],
)
def test_a_run_at_another_address_asks_its_api(
    project: Project, models: FakeModels, written: str | None, environ: dict[str, str], endpoint: str
) -> None:
    if not (project.folder / "tape").exists():
        shop(project, models, openai(models, name="gpt-4.1"), openai={"api": "chat"})
        assert project.run("run", "--record", "tape", **KEYS).code == 0
    model = {"provider": "openai", "name": "gpt-4.1"}
    shop(project, models, model, openai=None if written is None else {"api": written})
    _, record = project.evaluate("--replay", "tape", **environ)
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    # A miss shows the first 30 characters of a difference.
    assert f"→ '{endpoint[:30]}'" in error.message


def test_an_api_that_the_address_lacks_leaves_the_refusal(project: Project, models: FakeModels) -> None:
    shop(project, models, openai(models, name="gpt-5.6"))
    about_responses = lambda request: request.path == RESPONSES  # noqa: E731
    models.fail(Fault(status=404, body="no such page", times=None, about=about_responses))
    finished, record = project.evaluate(**KEYS)
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert (error.code, [request.path for request in models.requests]) == ("bad_request", [CHAT, RESPONSES])
    assert "use /v1/responses" in error.message
    assert "was called through the Responses API" not in finished.stderr


@pytest.mark.full
def test_a_model_without_encrypted_thoughts_is_replayed_without_them(project: Project, models: FakeModels) -> None:
    # The name is that of a model that thinks, but this service has another model behind it.
    shop(project, models, openai(models, name="gpt-5.1"), openai={"api": "responses"})
    models.answer(lambda request: replace(thinking(request), thinking=None))
    message = {"error": {"message": "Encrypted content is not supported with this model.", "param": "include"}}
    models.fail(Fault(status=400, body=message, times=None, about=lambda request: "include" in request.body))
    recorded_and_replayed(project, models)
    assert ["include" in request.body for request in models.requests] == [True, False, False]


@pytest.mark.full
@pytest.mark.needs("deepeval")
def test_a_judge_that_is_refused_is_called_elsewhere(project: Project, models: FakeModels) -> None:
    tone = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Read it."]}
    cases = [{"name": f"case {number}", "input": f"ping {number}"} for number in range(4)]
    metrics = [{**tone, "model": openai(models, name="gpt-5-pro")}]
    asking(project, models, cases, evaluations={"metrics": metrics})
    models.answer(
        lambda request: '{"reason": "so", "score": 9}' if "Read it." in str(request.body) else f"pong {request.text}"
    )
    about_judge = lambda request: request.model == "gpt-5-pro" and request.path == CHAT  # noqa: E731
    models.fail(Fault(status=404, body=ONLY_RESPONSES, times=None, about=about_judge))
    _, notes = recorded_and_replayed(project, models)
    paths = [request.path for request in models.requests if request.model == "gpt-5-pro"]
    assert (paths[0], paths.count(RESPONSES)) == (CHAT, len(cases))
    assert {request.path for request in models.requests if request.model == "gpt-4o"} == {CHAT}
    assert notes == 1


OWN = "https://api.openai.com/v1"
GATE = "https://gate.example/v1"
AZURE = "https://a.example"
CHOICES: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("openai", {}, None, f"{OWN}/responses"),
    ("openai", {"endpoint": OWN}, None, f"{OWN}/responses"),
    ("openai", {"endpoint": "https://eu.api.openai.com/v1"}, None, "https://eu.api.openai.com/v1/responses"),
    ("openai", {}, "chat", f"{OWN}/chat/completions"),
    ("openai", {"endpoint": GATE}, None, f"{GATE}/chat/completions"),
    (
        "openai",
        {"endpoint": "https://myapi.openai.com.example/v1"},
        None,
        "https://myapi.openai.com.example/v1/chat/completions",
    ),
    ("openai", {"endpoint": GATE}, "responses", f"{GATE}/responses"),
    ("azure_openai", {"endpoint": AZURE}, None, f"{AZURE}/openai/v1/chat/completions"),
    ("azure_openai", {"endpoint": AZURE}, "responses", f"{AZURE}/openai/v1/responses"),
    (
        "azure_openai",
        {"endpoint": AZURE, "api_version": "2025-04-01-preview"},
        "responses",
        f"{AZURE}/openai/responses?api-version=2025-04-01-preview",
    ),
    ("groq", {}, None, "https://api.groq.com/openai/v1/chat/completions"),
    ("groq", {}, "responses", "https://api.groq.com/openai/v1/responses"),
]


@walk(("provider", "fields", "written", "address"), CHOICES)
def test_the_api_of_an_address(provider: str, fields: dict[str, Any], written: Any, address: str) -> None:
    reference = {"provider": provider, "name": "gpt-4.1", "api_key": KEY, **fields}
    plan = with_api(resolve_model(LLMProvider.model_validate(reference), {}), written)
    called: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        called.append(str(request.url))
        return httpx2.Response(200, json=response_of() if "/responses" in called[0] else answer_of("openai"))

    async def main() -> str:
        async with opened(network=httpx2.MockTransport(respond)) as wire:
            return (await ChatModel(plan, wire).ask([Request((Question("Hi"),))])).text

    assert asyncio.run(main()) == "Yes."
    assert called == [address]


# -- answers that are not whole JSON values


def told(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, "sequence_number": 0, **fields}, kind)


FAILED = {"status": "failed", "error": {"code": "server_error", "message": "No."}, "output": []}
BROKEN: dict[str, tuple[str, bytes]] = {
    "a failed answer": ("application/json", json.dumps(response_of(**FAILED)).encode()),
    "a failed stream": ("text/event-stream", told("response.failed", response=response_of(**FAILED))),
    "an error in a stream": ("text/event-stream", told("error", code="server_error", message="No.", param=None)),
    "a stream without an end": ("text/event-stream", told("response.created", response=response_of(output=[]))),
}


@pytest.mark.full
@walk("broken", BROKEN)
def test_a_broken_response_is_tried_again(project: Project, models: FakeModels, broken: str) -> None:
    kind, body = BROKEN[broken]
    models.fail(Fault(status=200, headers={"content-type": kind}, body=body))
    before = len(models.requests)
    asking(project, models, openai={"api": "responses"})
    finished, _ = project.evaluate(**KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [request.path for request in models.requests[before:]] == [RESPONSES] * 2


def test_a_stream_is_an_answer_with_its_usage(project: Project, models: FakeModels) -> None:
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    whole = response_of(model="gpt-4.1", usage=usage)
    body = told("response.output_text.delta", delta="Yes.") + told("response.completed", response=whole)
    models.fail(Fault(status=200, headers={"content-type": "text/event-stream"}, body=body))
    case = {"name": "stream", "input": "ping", "ground_truth": "Yes."}
    asking(project, models, [case], model=openai(models, name="gpt-4.1"), openai={"api": "responses"})
    record, _ = recorded_and_replayed(project, models)
    used = record.cases[0].trials[0].turns[0].usage
    assert used is not None
    assert (used.prompt_tokens, used.completion_tokens) == (30, 9)
    # $2 for a million tokens, $0.50 for those of the cache, $8 for those of the answer.
    assert used.cost_usd == pytest.approx((10 * 2 + 20 * 0.5 + 9 * 8) / 1e6)


@walk("finish", ["length", "refusal", "content_filter"])
def test_why_an_answer_ends(project: Project, models: FakeModels, finish: Any) -> None:
    refused = "I will not." if finish == "refusal" else None
    models.answer(lambda request: Answer("" if refused else "At", refusal=refused, finish=finish))
    asking(project, models, openai={"api": "responses"})
    _, record = project.evaluate(**KEYS)
    turn = record.cases[0].trials[0].turns[0]
    if finish == "content_filter":
        assert turn.error is not None
        assert turn.error.code == "content_filter"
        return
    assert (turn.response, turn.finish_reason) == (refused or "At", finish)


def test_a_limit_below_the_smallest_is_raised_with_a_notice(project: Project, models: FakeModels) -> None:
    asking(project, models, model=openai(models, max_tokens=5), openai={"api": "responses"})
    finished, _ = project.evaluate(**KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert models.requests[0].body["max_output_tokens"] == 16
    assert "max_tokens 5 is sent to gpt-4o as 16, the smallest value it accepts" in finished.stdout + finished.stderr
