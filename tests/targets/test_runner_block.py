"""The `claude` and `openai` blocks: limits, tools, thinking, costs and the fallback of the suite's own model."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.llm.providers import Reasoning, resolve_model
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.providers import Effort, LLMProvider
from holodeck_action.targets.own_model.model_agent import ModelAgent
from holodeck_action.targets.own_model.runner_settings import RunnerSettings, runner_settings
from holodeck_action.targets.own_model.toolbox import ToolResult
from holodeck_action.targets.protocol import Reply
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Fault
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, converse, make_case, run
from tests.targets.test_model import config, live_wire
from tests.targets.test_own import asking, assert_hidden, calling, function, openai, recorded_error, report

SHOP = """
def find_order(order: str) -> str:
    return f"{order} is in Leeds"


def cancel(order: str) -> str:
    return "gone"
"""


def anthropic(models: FakeModels, **more: Any) -> dict[str, Any]:
    return {"provider": "anthropic", "name": "claude-haiku-4-5", "endpoint": models.anthropic_url, **more}


KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}

# -- which block, and what it says


def agent(provider: str, **blocks: Any) -> AgentConfig:
    return AgentConfig.model_validate(
        {
            "name": "a",
            "model": {"provider": provider, "name": "m", "endpoint": "https://a"},
            "instructions": {"inline": "hi"},
            **blocks,
        }
    )


@pytest.mark.proves("AgentConfig: claude openai")
@walk(
    ("provider", "block"),
    [("openai", "openai"), ("azure_openai", "openai"), ("anthropic", "claude"), ("ollama", "claude")],
)
def test_the_block_of_the_providers_runner_counts(provider: str, block: str) -> None:
    both = {"openai": {"max_turns": 3}, "claude": {"max_turns": 4}}
    assert runner_settings(agent(provider, **both)).max_calls == {"openai": 3, "claude": 4}[block]
    assert runner_settings(agent(provider)).max_calls == 20


@pytest.mark.proves(
    "ClaudeConfig: max_turns max_budget_usd", "ExtendedThinking: enabled", "OpenAIConfig: max_turns max_budget_usd"
)
def test_all_of_the_blocks_is_read() -> None:
    shared = {"max_turns": 3, "effort": "high", "max_budget_usd": 0.5, "fallback_model": "f", "disallowed_tools": ["b"]}
    tools = {"permissions": {"allowed_tools": ["a"], "disallowed_tools": ["c"]}}
    assert runner_settings(agent("openai", openai={**shared, **tools})) == RunnerSettings(
        "openai", 3, ("a",), ("b", "c"), 0.5, "f", Reasoning("high", None, "openai")
    )
    thinking = {"extended_thinking": {"enabled": True, "budget_tokens": 2000}}
    assert runner_settings(agent("ollama", claude={**shared, **thinking, "allowed_tools": []})) == RunnerSettings(
        "claude", 3, (), ("b",), 0.5, "f", Reasoning("high", 2000, "claude")
    )
    off = {"extended_thinking": {"budget_tokens": 2000}}
    assert runner_settings(agent("anthropic", claude=off)).reasoning == Reasoning(None, None, "claude")


@pytest.mark.parametrize(("block", "provider"), [("claude", "openai"), ("openai", "anthropic")])
def test_the_other_block_is_said_to_be_unused(project: Project, models: FakeModels, block: str, provider: str) -> None:
    model = openai(models) if provider == "openai" else anthropic(models)
    blocks: dict[str, Any] = {block: {"max_turns": 1}}
    asking(project, models, model=model, **blocks)
    finished = project.run("validate", **KEYS)
    assert finished.code == 0
    assert f"note: `{block}` is not used: the model's provider is {provider}, so `" in finished.stderr


# -- tools


@dataclass(frozen=True)
class Named:
    """A tool that has a name, and those of its server."""

    name: str
    other_names: tuple[str, ...] = ()
    is_retrieval: bool = False

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(self.name, "d", {"type": "object"})

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        return ToolResult("", 0)


TOOLS = (Named("find_order"), Named("kb_search"), Named("read", ("mcp__files", "mcp__files__read")))


@pytest.mark.parametrize(
    ("allowed", "disallowed", "left"),
    [
        (None, (), "find_order kb_search read"),
        ((), (), ""),
        (("find_order",), (), "find_order"),
        (("mcp__holodeck_tools__kb_search",), (), "kb_search"),
        (("mcp__files",), (), "read"),
        (("mcp__files__*", "find_*"), (), "find_order read"),
        (("mcp__files__write", "Bash(rm *)"), (), ""),
        (None, ("read",), "find_order kb_search"),
        (("find_order", "read"), ("mcp__files__read",), "find_order"),
        (("order",), (), ""),
    ],
)
def test_which_tools_the_model_is_given(
    allowed: tuple[str, ...] | None, disallowed: tuple[str, ...], left: str
) -> None:
    settings = RunnerSettings(allowed=allowed, disallowed=disallowed)
    assert " ".join(tool.definition.name for tool in settings.permitted_tools(TOOLS)) == left


def test_names_of_no_tool_are_noted() -> None:
    settings = RunnerSettings("claude", allowed=("find_order", "Bash"), disallowed=("WebSearch", "Bash"))
    assert [*settings.notices(TOOLS)] == [
        'claude: "Bash" is not a tool of this suite',
        'claude: "WebSearch" is not a tool of this suite',
    ]


ORDER = {"name": "order", "input": "Where is A-17?", "ground_truth": "Leeds"}


@pytest.mark.proves(
    "ClaudeConfig: allowed_tools disallowed_tools",
    "OpenAIConfig: permissions disallowed_tools",
    "ToolPermissions: allowed_tools disallowed_tools",
)
@pytest.mark.parametrize(
    ("provider", "block"),
    [
        ("openai", {"openai": {"permissions": {"allowed_tools": ["find_order"]}}}),
        ("openai", {"openai": {"permissions": {"disallowed_tools": ["cancel"]}}}),
        ("openai", {"openai": {"disallowed_tools": ["cancel"]}}),
        ("anthropic", {"claude": {"allowed_tools": ["mcp__holodeck_tools__find_order"]}}),
        ("anthropic", {"claude": {"disallowed_tools": ["cancel"]}}),
    ],
)
def test_the_model_sees_permitted_tools_alone(
    project: Project, models: FakeModels, provider: str, block: dict[str, Any]
) -> None:
    project.write("shop.py", SHOP)
    model = openai(models) if provider == "openai" else anthropic(models)
    asking(project, models, [ORDER], tools=[function("find_order"), function("cancel")], model=model, **block)
    # It tries nevertheless.
    models.script([calling("cancel", order="A-17"), "Leeds"])
    finished, record = project.evaluate(**KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [*models.requests[0].tools] == ["find_order"]
    (called,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert called.error is not None
    assert called.error.startswith("there is no tool `cancel`")


@pytest.mark.proves("ClaudeConfig: max_turns", "OpenAIConfig: max_turns")
@pytest.mark.parametrize(("block", "calls"), [({}, 20), ({"openai": {"max_turns": 2}}, 2)])
def test_a_turn_has_so_many_calls(project: Project, models: FakeModels, block: dict[str, Any], calls: int) -> None:
    project.write("shop.py", SHOP)
    asking(project, models, [ORDER], tools=[function("find_order")], **block)
    models.answer(lambda _: calling("find_order", order="A-17"))
    finished, record = project.evaluate(**KEYS)
    assert finished.code == 3
    assert len(models.requests) == calls
    error = recorded_error(record)
    assert (error.code, error.message) == (
        "too_many_calls",
        f"the model called tools {calls} times in one turn without giving an answer",
    )


# -- thinking


def changed(setting: str, name: str, value: str) -> str:
    return f"{setting} is sent to {name} as {value}, the closest value it accepts"


def unlimited(name: str) -> str:
    return (
        f"no max_tokens is sent to {name}, whose thinking would use up the default of 1000; write `max_tokens` below "
        "`model:` to limit thinking and answer together"
    )


def sent(models: FakeModels, provider: str, effort: Effort | None, budget: int | None = None, **fields: Any) -> Any:
    """Ask once; return the request's body and the notices."""

    async def work() -> tuple[Reply | AgentError, tuple[str, ...]]:
        reference = {**config(provider, models), "api_key": KEY, **fields}
        plan = structs.replace(
            resolve_model(LLMProvider.model_validate(reference), {}),
            reasoning=Reasoning(effort, budget, "claude" if provider in ("anthropic", "ollama") else "openai"),
        )
        wire = live_wire()
        asked = ModelAgent(plan, wire, "Hi.", max_bytes=MAX_BYTES, turn_s=60.0, monotonic=time.monotonic)
        try:
            return (await converse(asked, make_case("case", "hi")))[0], asked.notices
        finally:
            await wire.close()

    reply, notices = run(work())
    assert isinstance(reply, Reply), reply
    return models.requests[-1].body, notices


@pytest.mark.parametrize(
    ("provider", "name", "effort", "expected", "notices"),
    [
        ("openai", "gpt-5", "low", "low", ()),
        ("openai", "gpt-5", "none", "minimal", (changed("openai.effort none", "gpt-5", "minimal"),)),
        ("openai", "gpt-5", "max", "high", (changed("openai.effort max", "gpt-5", "high"),)),
        ("openai", "gpt-5.1", "minimal", "low", (changed("openai.effort minimal", "gpt-5.1", "low"),)),
        ("openai", "gpt-5.6", "xhigh", "xhigh", ()),
        # Chat completions do not take it.
        ("openai", "gpt-5.6", "max", "xhigh", (changed("openai.effort max", "gpt-5.6", "xhigh"),)),
        ("openai", "o3", "medium", "medium", ()),
        ("openai", "gpt-4o", "high", None, ("openai.effort is not sent to gpt-4o, which does not accept it",)),
        ("openai", "served-by-us", "high", "high", ()),
        ("azure", "our-deployment", "max", "max", ()),
        ("ollama", "gpt-oss:20b", "low", "low", ()),
        ("ollama", "gpt-oss:20b", "max", "high", (changed("claude.effort max", "gpt-oss:20b", "high"),)),
        ("ollama", "llama3.2", "low", None, ("claude.effort is not sent to llama3.2, which does not accept it",)),
    ],
)
def test_effort_of_models_that_speak_openais_language(
    models: FakeModels, provider: str, name: str, effort: Effort, expected: str | None, notices: tuple[str, ...]
) -> None:
    body, said = sent(models, provider, effort, name=name, max_tokens=500)
    assert (body.get("reasoning_effort"), said) == (expected, notices)


@walk(("effort", "sampled"), [("high", False), ("none", True), (None, True)])
def test_a_model_that_reasons_on_request_is_then_sent_no_sampling(
    models: FakeModels, effort: Effort | None, sampled: bool
) -> None:
    body, notices = sent(models, "azure", effort, name="gpt-5.1", temperature=0.5)
    assert [name in body for name in ("temperature", "max_completion_tokens")] == [sampled, sampled]
    unsent = "temperature is not sent to gpt-5.1, which does not accept it"
    assert notices == (() if sampled else (unsent, unlimited("gpt-5.1")))


@pytest.mark.parametrize(
    ("name", "effort", "expected", "notices"),
    [
        ("claude-opus-4-8", "low", "low", ()),
        ("claude-opus-4-8", "max", "max", ()),
        ("claude-opus-4-8", "xhigh", "xhigh", ()),
        ("claude-opus-4-6", "xhigh", "max", (changed("claude.effort xhigh", "claude-opus-4-6", "max"),)),
        ("claude-opus-4-5", "max", "high", (changed("claude.effort max", "claude-opus-4-5", "high"),)),
        ("claude-haiku-4-5", "low", None, ("claude.effort is not sent to claude-haiku-4-5, which does not accept it",)),
    ],
)
def test_effort_of_anthropics_models(
    models: FakeModels, name: str, effort: Effort, expected: str | None, notices: tuple[str, ...]
) -> None:
    body, said = sent(models, "anthropic", effort, name=name)
    assert ((body.get("output_config") or {}).get("effort"), said) == (expected, notices)


def test_thinking_has_a_budget_beside_the_answers(models: FakeModels) -> None:
    body, notices = sent(models, "anthropic", None, 4000, max_tokens=500, temperature=0.7)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert body["max_tokens"] == 4500
    assert "temperature" not in body
    assert notices == ("temperature is not sent to claude-haiku-4-5, which does not accept it",)


def test_the_least_budget_is_the_providers(models: FakeModels) -> None:
    body, notices = sent(models, "anthropic", None, 1000)
    assert body["thinking"]["budget_tokens"] == 1024
    assert notices == (
        "claude.extended_thinking.budget_tokens 1000 is sent to claude-haiku-4-5 as 1024, the smallest value it "
        "accepts",
    )


def test_a_model_that_takes_no_budget_thinks_as_it_likes(models: FakeModels) -> None:
    body, notices = sent(models, "anthropic", None, 4000, name="claude-opus-4-8")
    # Its thinking counts towards the limit, and Anthropic requires one.
    assert (body["thinking"], body["max_tokens"]) == ({"type": "adaptive"}, 128_000)
    assert notices == (
        unlimited("claude-opus-4-8"),
        "claude.extended_thinking.budget_tokens is not sent to claude-opus-4-8, which decides itself how long "
        "it thinks; "
        "`claude.effort` guides it",
    )


def test_other_providers_think_without_a_budget(models: FakeModels) -> None:
    body, notices = sent(models, "ollama", None, 4000)
    assert body["max_tokens"] == 1000
    assert notices == ("claude.extended_thinking is not sent to llama3.2, which does not accept it",)


@pytest.mark.proves("ClaudeConfig: extended_thinking effort", "ExtendedThinking: budget_tokens", "OpenAIConfig: effort")
def test_the_blocks_reach_the_model(project: Project, models: FakeModels) -> None:
    thinking = {"extended_thinking": {"enabled": True, "budget_tokens": 3000}, "effort": "low"}
    asking(project, models, model=anthropic(models), claude=thinking)
    finished = project.run("run", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert models.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 3000}
    assert "note: claude.effort is not sent to claude-haiku-4-5, which does not accept it" in finished.stderr
    asking(project, models, model=openai(models, name="o3"), openai={"effort": "low"})
    assert project.run("run", **KEYS).code == 0
    assert models.requests[1].body["reasoning_effort"] == "low"


@walk(
    ("name", "fields", "effort", "tokens"),
    [
        ("gpt-4o", {}, None, "1,000"),
        ("gpt-5.5", {}, None, "4,096"),
        ("gpt-5.5", {}, "none", "1,000"),
        ("gpt-5.2", {}, "low", "4,096"),
        ("gpt-5.5", {"max_tokens": 700}, None, "700"),
    ],
)
def test_the_plan_counts_answers_up_to_the_limit_that_is_sent(
    project: Project, models: FakeModels, name: str, fields: dict[str, Any], effort: str | None, tokens: str
) -> None:
    asking(project, models, model=openai(models, name=name, **fields), openai={"effort": effort})
    finished = project.run("run", "--dry-run", **KEYS)
    assert f"(answers of {tokens} tokens)" in finished.stdout + finished.stderr


# -- costs

TALKS = [{"name": talk, "turns": [{"input": text, "ground_truth": text} for text in talk]} for talk in ("abc", "xyz")]


def dear(text: str) -> Answer:
    """An answer of gpt-4o for $0.025 + $0.01 at list price."""
    return Answer(text, prompt_tokens=10_000, completion_tokens=1_000, model="gpt-4o")


@pytest.mark.proves("ClaudeConfig: max_budget_usd", "OpenAIConfig: max_budget_usd")
@pytest.mark.parametrize(("budget", "answered"), [(0.03, 1), (0.06, 2), (0.07, 2), (1.0, 3)])
def test_a_conversation_ends_when_it_has_cost_what_it_may(
    project: Project, models: FakeModels, budget: float, answered: int
) -> None:
    asking(project, models, TALKS, openai={"max_budget_usd": budget})
    models.answer(lambda request: dear(request.text))
    finished, record = project.evaluate("--record", "tape", **KEYS)
    # Each conversation has its own.
    assert len(models.requests) == 2 * answered
    assert finished.code == (0 if answered == 3 else 3), finished.stdout + finished.stderr
    for case in record.cases:
        turns = case.trials[0].turns
        assert [turn.response for turn in turns if turn.response is not None] == [*str(case.name)][:answered]
        if answered < 3:
            error = turns[answered].error
            assert error is not None
            assert (error.code, error.message) == (
                "session_budget",
                (
                    f"the conversation has cost ${0.035 * answered:.4f} of at most ${budget:g}; raise "
                    "openai.max_budget_usd, or shorten the case"
                ),
            )
    # A replay costs what the recorded run cost.
    before = report(project, "out")
    assert project.run("run", "-o", "out", "--replay", "tape").code == finished.code
    assert report(project, "out") == before


def test_a_turn_that_goes_round_in_circles_is_ended_by_its_cost(project: Project, models: FakeModels) -> None:
    project.write("shop.py", SHOP)
    asking(project, models, [ORDER], tools=[function("find_order")], openai={"max_budget_usd": 0.1})
    models.answer(lambda _: replace(dear(""), tools=calling("find_order", order="A-17").tools))
    finished, record = project.evaluate(**KEYS)
    assert (finished.code, len(models.requests)) == (3, 3)
    assert recorded_error(record).code == "session_budget"


def test_a_model_whose_price_is_not_known_is_not_limited_and_that_is_told(project: Project, models: FakeModels) -> None:
    block = {"max_budget_usd": 0.01, "fallback_model": "gpt-4o"}
    asking(project, models, [ORDER], model=openai(models, name="unheard-of"), openai=block)
    models.answer(lambda _: "Leeds")
    finished = project.run("run", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [line for line in finished.stderr.splitlines() if "max_budget_usd" in line] == [
        (
            "note: openai.max_budget_usd does not limit OpenAI model unheard-of, whose price is unknown; use "
            "budget.max_tokens"
        )
    ]


# -- the fallback


def failing(models: FakeModels, name: str, **fault: Any) -> None:
    models.fail(Fault(**fault, times=None, about=lambda request: request.model == name))


@pytest.mark.proves("ClaudeConfig: fallback_model", "OpenAIConfig: fallback_model")
@pytest.mark.parametrize(
    ("provider", "error", "asked"),
    [
        ("openai", "unknown_model", 1),
        ("openai", "unavailable", 7),
        ("openai", "server_error", 7),
        ("anthropic", "overloaded", 7),
        ("openai", "rate_limit", 7),
    ],
)
def test_the_fallback_answers_where_the_model_cannot(
    project: Project, models: FakeModels, provider: str, error: Any, asked: int
) -> None:
    model = openai(models) if provider == "openai" else anthropic(models)
    block: dict[str, Any] = {"openai" if provider == "openai" else "claude": {"fallback_model": "spare"}}
    asking(project, models, model=model, **block)
    failing(models, model["name"], error=error, retry_after_ms="1")
    finished, record = project.evaluate("--record", "tape", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [request.model for request in models.requests] == [model["name"]] * asked + ["spare"]
    assert record.cases[0].trials[0].turns[0].fallback_model == "spare"
    sentence = "1 answer came from the fallback model spare, because the suite's model could not answer"
    assert sentence in record.notices
    # The error of the model is not on the tape, its fallback's answer is.
    before = report(project, "out")
    again = project.run("run", "-o", "out", "--replay", "tape")
    assert again.code == 0, again.stdout + again.stderr
    assert report(project, "out") == before
    assert_hidden(project, finished, again)


def test_a_failed_case_tells_that_the_fallback_answered(project: Project, models: FakeModels) -> None:
    asking(project, models, [{"name": "a", "input": "a", "ground_truth": "b"}], openai={"fallback_model": "spare"})
    failing(models, "gpt-4o", error="unknown_model")
    finished, _ = project.evaluate(**KEYS)
    assert finished.code == 1
    assert "the fallback model spare answered" in (project.out / "report.md").read_text()


@pytest.mark.parametrize("error", ["bad_key", "context_length", "content_filter", "bad_request", "quota"])
def test_what_no_other_model_would_change_is_not_asked_again(project: Project, models: FakeModels, error: Any) -> None:
    asking(project, models, openai={"fallback_model": "spare"})
    failing(models, "gpt-4o", error=error)
    finished, _ = project.evaluate(**KEYS)
    assert finished.code == 3
    assert {request.model for request in models.requests} == {"gpt-4o"}


def test_both_errors_are_told(project: Project, models: FakeModels) -> None:
    asking(project, models, openai={"fallback_model": "spare"})
    models.fail(Fault(error="unknown_model", times=None))
    finished, record = project.evaluate(**KEYS)
    assert finished.code == 3
    error = recorded_error(record)
    assert error.code == "model_not_found"
    assert "OpenAI model gpt-4o is unknown" in error.message
    assert "; and the fallback: OpenAI model spare is unknown" in error.message


def test_a_replay_that_has_neither_names_the_models_call(project: Project, models: FakeModels) -> None:
    asking(project, models, openai={"fallback_model": "spare"})
    assert project.run("run", "--record", "tape", **KEYS).code == 0
    asking(project, models, [{"name": "other", "input": "b", "ground_truth": "b"}], openai={"fallback_model": "spare"})
    finished, record = project.evaluate("--replay", "tape")
    assert finished.code == 3
    error = recorded_error(record)
    assert error.code == "cassette_miss"
    assert "'ping' → 'b'" in error.message
    assert "spare" not in error.message


# -- keys that are not there


@pytest.mark.parametrize("written", [{}, {"api_key": "${MY_OWN_KEY}"}])
def test_a_key_is_needed_to_ask_and_for_nothing_else(
    project: Project, models: FakeModels, written: dict[str, Any]
) -> None:
    variable = "MY_OWN_KEY" if written else "OPENAI_API_KEY"
    said = f"model.api_key names the variable {variable}, which is not set" if written else f"variable {variable}"
    text = json.dumps({"provider": "openai", "name": "gpt-4o", **written})
    asking(project, models, model=json.loads(text), tools=None)
    outside = {"OPENAI_BASE_URL": models.openai_url, **({"OPENAI_API_KEY": "unused-1234567"} if written else {})}
    # A server that is not this machine, since one that is needs no key; nothing is sent to it here.
    away = {**outside, "OPENAI_BASE_URL": "https://models.example.com/v1"}
    validated = project.run("validate", **away)
    assert validated.code == 0
    assert "note: a run would be refused here: " in validated.stderr
    assert said in validated.stderr
    refused = project.run("run", **away)
    assert (refused.code, said in refused.stderr) == (2, True)
    assert project.run("run", "-o", "out", "--record", "tape", **{**outside, variable: KEY}).code == 0
    before = report(project, "out")
    again = project.run("run", "-o", "out", "--replay", "tape", **{**outside, "OPENAI_API_KEY": ""})
    assert again.code == 0, again.stdout + again.stderr
    assert report(project, "out") == before
    assert len(models.requests) == 1


def test_a_wrong_address_is_no_valid_suite(project: Project, models: FakeModels) -> None:
    asking(project, models, model={"provider": "openai", "name": "gpt-4o", "endpoint": "nowhere"})
    finished = project.run("validate", **KEYS)
    assert finished.code == 2
    assert "model.endpoint is not a URL" in finished.stderr
