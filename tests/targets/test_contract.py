"""One contract for every own agent: what it is asked with, what it answers, and that the target makes no difference."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import ModelUsage, Record, TurnRecord, Usage
from holodeck_action.targets.reply import REPLY_KEYS, reply_from_mapping
from tests.commands.project import Finished, Project
from tests.tables import walk
from tests.targets.service import Service

CALL = {"name": "find_order", "args": {"id": "A-17"}, "result": {"city": "Leeds"}, "duration_ms": 12.5}
USED: dict[str, int] = {"prompt_tokens": 1000, "completion_tokens": 100, "cached_tokens": 400, "reasoning_tokens": 60}
REPLIES: list[dict[str, Any]] = [
    {
        "response": "In Leeds",
        "model": "openai/gpt-4o",
        "usage": USED,
        "tool_invocations": [CALL, {"name": "refund", "error": "not allowed"}],
        "retrieved_chunks": [{"id": 7, "text": "Leeds", "score": 0.5}],
        "messages": [{"role": "tool", "content": "Leeds"}, {"role": "assistant", "content": "In Leeds"}],
        "metadata": {"graph": {"steps": 3}},
        "duration_ms": 321.5,
        "first_token_ms": 45.5,
    },
    {
        "response": "Tomorrow",
        "usage": [{"model": "small", **USED, "cost_usd": 0.25}, {"model": "large", **USED, "cost_usd": 0.5}],
        "tool_invocations": [],
    },
]
FAILING = {"error": {"kind": "infrastructure", "message": "the database is away"}, "cost_usd": 0.125}
MAPPING = {key: f"$.{key}" for key in REPLY_KEYS if key != "response"}

AGENT = """
import json, sys

REPLIES = json.loads({replies!r})

def reply(request):
    if request["name"] == "broken":
        return REPLIES[2]
    if request["turn"] == 1:
        assert [each["role"] for each in request["messages"]] == ["user", "tool", "assistant", "user"], request
    return REPLIES[request["turn"]]

def answer(messages, request):
    assert messages == request["messages"]
    return reply(request)

def commanded():
    for line in sys.stdin:
        print(json.dumps(reply(json.loads(line))), flush=True)
"""
ASKED = {"name": "{{ case.name }}", "turn": "{{ turn.index }}"}
HTTP = {"type": "http", "response": {"text": "$.response", **MAPPING}}


@pytest.fixture
def suite(project: Project) -> Project:
    turns = [{"input": "Where is A-17?", "ground_truth": "In Leeds"}, {"input": "When?", "ground_truth": "Tomorrow"}]
    project.suite([{"name": "order", "turns": turns}, {"name": "broken", "input": "Where?", "ground_truth": "?"}])
    project.write("the_agent.py", AGENT.format(replies=json.dumps([*REPLIES, FAILING])))
    rows = [{"case": "order", "turn": turn, **reply} for turn, reply in enumerate(REPLIES)]
    project.answers([*rows, {"case": "broken", **FAILING}])
    return project


def _served(service: Service) -> None:
    replies = [*REPLIES, FAILING]
    service.respond = lambda handler, received: handler.answer(
        replies[2] if received.body["name"] == "broken" else replies[received.body["turn"]]
    )


def _run(project: Project, target: Any) -> tuple[Finished, Record]:
    if isinstance(target, str):
        return project.evaluate("--target", target)
    project.policy(target=target)
    return project.evaluate()


def _turns(record: Record) -> dict[str | None, list[TurnRecord]]:
    return {case.name: list(case.turns) for case in record.cases}


def _without_target(record: Record) -> bytes:
    suite = replace(record.suite, digest="")
    return canonical_json(replace(record, suite=suite, provenance=replace(record.provenance, target="")))


@pytest.mark.full
@pytest.mark.proves(
    "ResponseMapping: usage cost_usd model messages metadata error duration_ms first_token_ms",
)
def test_the_same_agent_behind_every_target_gives_the_same_record(suite: Project, service: Service) -> None:
    _served(service)
    command = f"command:{sys.executable} -c 'import the_agent; the_agent.commanded()'"
    mapped = {**HTTP, "url": service.url, "request": ASKED}
    targets = ["recorded:answers.jsonl", "python:the_agent:answer", command, f"http:{service.url}", mapped]
    finished, records = zip(*(_run(suite, target) for target in targets), strict=True)
    assert {each.code for each in finished} == {3}
    assert len({_without_target(record) for record in records}) == 1
    for record in records:
        first, second = _turns(record)["order"]
        assert first.usage is not None
        assert first.usage == Usage(1000, 100, first.usage.cost_usd, 400, 60, estimated=True)
        # 600 and 400 cached tokens of the prompt, 100 of the answer, at the list price per million.
        assert first.usage.cost_usd == pytest.approx((600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6)
        assert first.model == "openai/gpt-4o"
        assert first.metadata == {"graph": {"steps": 3}}
        assert first.messages == tuple(REPLIES[0]["messages"])
        assert first.timing is not None
        assert (first.timing.model_ms, first.timing.first_token_ms) == (321.5, 45.5)
        assert first.tool_invocations is not None
        assert [call.error for call in first.tool_invocations] == [None, "not allowed"]
        parts = (ModelUsage("small", 1000, 100, 400, 60, 0.25), ModelUsage("large", 1000, 100, 400, 60, 0.5))
        assert second.usage == Usage(2000, 200, 0.75, 800, 120, parts)
        (broken,) = _turns(record)["broken"]
        assert broken.error is not None
        assert broken.error.code == "infrastructure_error"
        assert broken.error.message == "there is no answer, for a reason outside the agent: the database is away"
        assert broken.usage == Usage(cost_usd=0.125)


def test_what_is_not_told_leaves_no_trace_in_a_record(project: Project) -> None:
    project.numbered(1)
    project.evaluate()
    turn = json.loads((project.out / "results.json").read_bytes())["cases"][0]["trials"][0]["turns"][0]
    assert not {"model", "messages", "metadata"} & turn.keys()
    assert turn["timing"].keys() == {"started_at", "duration_ms", "model_ms"}


def test_the_record_tells_list_prices_from_reported_costs(project: Project) -> None:
    project.numbered(3)
    listed, reported = {"model": "gpt-4o", **USED}, {"model": "own", **USED, "cost_usd": 0.5}
    usages: list[dict[str, Any]] = [
        {"usage": [listed, reported]},
        {"usage": [listed, reported], "cost_usd": 0.75},
        {"usage": [listed, {"model": "own", **USED}]},
    ]
    project.answers([{"case": f"case {n}", "response": str(n), **usage} for n, usage in enumerate(usages)])
    finished, record = project.evaluate()
    assert finished.code == 0
    found = [turn.usage for turn in record.turns if turn.usage is not None]
    assert [usage.estimated for usage in found] == [True, False, False]
    assert [usage.cost_usd is None for usage in found] == [False, False, True]
    assert [[each.estimated for each in usage.models] for usage in found] == [
        [True, False],
        [True, False],
        [True, False],
    ]


def test_a_text_as_error_is_the_agents_own(project: Project) -> None:
    project.numbered(1)
    project.answers([{"case": "case 0", "error": "no idea"}])
    finished, record = project.evaluate()
    (turn,) = record.turns
    assert finished.code == 3
    assert turn.error is not None
    assert (turn.error.code, turn.error.message) == ("agent_error", "the agent reports an error: no idea")


@pytest.mark.full
def test_a_callable_is_given_the_request_where_it_asks_for_it_and_keeps_its_process(project: Project) -> None:
    turns = [{"input": str(turn), "ground_truth": "same"} for turn in range(3)]
    project.suite([{"name": name, "turns": turns} for name in "abcd"])
    project.policy(cases={name: {"tags": ["slow"]} for name in "abcd"})
    project.write(
        "stateful.py",
        """
from collections import defaultdict
SESSIONS = defaultdict(list)

def answer(messages, request, /, temperature=0):
    said = SESSIONS[request["session"]]
    said.append(request["turn"])
    complete = said == list(range(request["turn"] + 1)) and request["tags"] == ["slow"] and len(messages) > 2 * said[-1]
    return "same" if complete else f"{said}"

def as_before(messages, session=None, *, request=None, **more):
    return "same" if (session, request, more) == (None, None, {}) else "more"

class Agent:
    async def __call__(self, messages, request):
        return "same" if request["input"] == messages[-1]["content"] else "other"

instance = Agent()
""",
    )
    for name in ("answer", "as_before", "instance"):
        finished = project.run("run", "--target", f"python:stateful:{name}", "--concurrency", "2")
        assert finished.code == 0, finished.stdout + finished.stderr


def test_requests_fit_their_schema_and_trials_have_seeds_of_their_own(project: Project, service: Service) -> None:
    schema = json.loads(project.run("schema", "request").stdout)
    project.suite(
        [{"name": "a", "turns": [{"input": "1"}, {"input": "2"}]}, {"input": "3"}], [{"type": "length", "max_words": 9}]
    )
    project.policy(target=f"http:{service.url}", trials={"repeat": 2, "stop_when_decided": False})
    project.run("run")
    seeds: dict[tuple[str, int], set[int]] = {}
    for received in service.received:
        jsonschema.validate(received.body, schema, jsonschema.Draft202012Validator)
        assert {*received.body} == {*schema["properties"]} - {"traceparent", "warm_up"}
        seeds.setdefault((received.body["case"], received.body["trial"]), set()).add(received.body["seed"])
    before = dict(seeds)
    assert len(seeds) == 4 == len(set.union(*seeds.values()))
    project.run("run")
    for received in service.received:
        assert before[received.body["case"], received.body["trial"]] == {received.body["seed"]}


GOOD: list[Any] = [
    "text",
    *REPLIES,
    FAILING,
    {"error": "no idea"},
    {"response": {"a": 1}, "usage": [], "cost_usd": None, "error": None},
    {"response": "", "usage": {}, "retrieved_chunks": [{"id": "a"}], "messages": []},
]
BAD: list[tuple[Any, str]] = [
    (5, "the reply must be text or an object with `response`, not a number"),
    ({"responze": "a"}, "unknown key `responze` (did you mean `response`?)"),
    ({"cost_usd": 1}, "the reply has no `response`"),
    ({"response": "a", "error": "b"}, "error replaces `response`: give only one of them"),
    ({"response": "a", "cost_usd": -1}, "cost_usd must be from 0 to 9007199254740992"),
    ({"response": "a", "duration_ms": "1"}, "duration_ms must be a number, not text"),
    ({"response": "a", "model": ""}, "model must not be empty"),
    ({"response": "a", "metadata": []}, "metadata must be an object, not a list"),
    ({"response": "a", "messages": [{"content": "b"}]}, "messages[0].role must be text, not null"),
    ({"response": "a", "usage": 3}, "usage must be an object or a list, not a number"),
    ({"response": "a", "usage": {"prompt_tokens": -5}}, "usage.prompt_tokens must be from 0 to 9007199254740992"),
    ({"response": "a", "usage": [{}, {"tokens": 1}]}, "usage[1]: unknown key `tokens` (did you mean `prompt_tokens`?)"),
    ({"error": {"kind": "fate", "message": "b"}}, "error.kind must be agent or infrastructure, not fate"),
    ({"error": {"kind": "agent"}}, "error.message must be text, not null"),
]


def test_the_schema_of_a_reply_allows_what_is_read_and_nothing_else(project: Project) -> None:
    check = jsonschema.Draft202012Validator(json.loads(project.run("schema", "reply").stdout))
    check.check_schema(check.schema)
    for value in GOOD:
        reply_from_mapping(value, max_bytes=10_000)
        assert check.is_valid(value), value
    for value, sentence in BAD:
        with pytest.raises(AgentError) as caught:
            reply_from_mapping(value, max_bytes=10_000)
        assert caught.value.message.startswith(sentence)
        assert not check.is_valid(value), value


@pytest.mark.parametrize(
    ("part", "whole"), [("cached_tokens", "prompt_tokens"), ("reasoning_tokens", "completion_tokens")]
)
def test_a_part_is_no_more_than_the_whole(project: Project, part: str, whole: str) -> None:
    project.numbered(2)
    rows: list[dict[str, Any]] = [
        {"case": "case 0", "response": "0", "usage": {whole: 5, part: 6}},
        {"case": "case 1", "response": "1"},
    ]
    project.answers(rows)
    finished, record = project.evaluate()
    broken, right = record.turns
    assert finished.code == 3
    assert broken.error is not None
    message = f"answers.jsonl:1: usage.{part} must be at most {whole}, of which it is a part"
    assert (broken.error.message, right.response) == (message, "1")


@walk(
    ("model", "known"), [("gpt-4o", True), ("google/gemini-2.0-flash", True), ("ollama/llama3", False), (None, False)]
)
def test_a_price_is_estimated_only_for_a_model_that_is_named_and_listed(model: str | None, known: bool) -> None:
    reply = reply_from_mapping({"response": "", "usage": USED, "model": model}, max_bytes=1000)
    assert reply.usage is not None
    assert (reply.usage.cost_usd is not None) == known
    given = reply_from_mapping({"response": "", "usage": USED, "model": model, "cost_usd": 3}, max_bytes=1000)
    assert given.usage is not None
    assert given.usage.cost_usd == 3.0


# -- what answers cost

SPENDING = """
def answer(messages, request):
    if request["name"] == "case 3":
        raise ValueError("no")
    return {"response": messages[-1]["content"][8:-1], %s}
"""
TELLING = '"model": "openai/gpt-4o", "usage": {"prompt_tokens": 1000, "completion_tokens": 100}'
COST = (1000 * 2.5 + 100 * 10) / 1e6


def _spending(project: Project, count: int, told: str = TELLING) -> None:
    project.numbered(count)
    project.write("spender.py", SPENDING % told)
    project.policy(target="python:spender:answer")


@pytest.mark.full
@pytest.mark.parametrize(("gate", "each"), [("max_cost_usd", COST), ("max_total_tokens", 1100)])
def test_gates_on_spending_count_what_replies_tell(project: Project, gate: str, each: float) -> None:
    _spending(project, 3)
    for limit, code in ((3 * each + 1e-9, 0), (2.9 * each, 1)):
        project.policy(target="python:spender:answer", gates={gate: limit if gate == "max_cost_usd" else int(limit)})
        finished = project.run("run")
        assert finished.code == code, finished.stdout + finished.stderr


@pytest.mark.parametrize("gate", ["max_cost_usd", "max_total_tokens"])
@pytest.mark.parametrize(("count", "told"), [(2, '"metadata": {}'), (4, TELLING)])
def test_an_answer_that_tells_nothing_leaves_a_gate_on_spending_open(
    project: Project, gate: str, count: int, told: str
) -> None:
    _spending(project, count, told)
    project.policy(target="python:spender:answer", gates={gate: 1000000, "min_completeness": 0.1, "min_pass_rate": 0})
    finished = project.run("run")
    assert finished.code == 3, finished.stdout + finished.stderr
    assert f"; the usage of {2 if count == 2 else 1} turns and evaluations is unknown" in finished.stdout


@pytest.mark.parametrize(("gate", "path"), [("max_cost_usd", "cost_usd"), ("max_total_tokens", "usage")])
def test_a_gate_on_what_no_reply_can_tell_is_refused_before_the_run(
    project: Project, service: Service, gate: str, path: str
) -> None:
    project.numbered(1)
    target = {"type": "http", "url": service.url, "response": {"text": "$.response"}}
    project.policy(target=target, gates={gate: 1000000})
    for command in (["run"], ["run", "--dry-run"], ["validate"]):
        finished = project.run(*command)
        assert finished.code == 2
        assert (
            f"gates.{gate} cannot be judged: http:{service.url} does not report what the gate depends on"
        ) in finished.stderr
    assert service.received == []
    service.respond = lambda handler, _: handler.answer(
        {"response": "0", "used": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost_usd": 0.5}}
    )
    target["response"] = {"text": "$.response", "usage": "$.used"}
    project.policy(target=target, gates={gate: 1000000})
    assert project.run("run").code == 0


@pytest.mark.parametrize(
    ("flag", "limit", "spent"), [("--max-cost-usd", 2.5 * COST, "$0.0105"), ("--max-tokens", 2500, "3,300")]
)
def test_a_budget_counts_what_replies_tell_and_ends_the_run(
    project: Project, flag: str, limit: float, spent: str
) -> None:
    _spending(project, 2)
    finished = project.run("run", flag, f"{limit:g}", "--concurrency", "1")
    assert finished.code == 0, finished.stdout + finished.stderr
    _spending(project, 9)
    finished, record = project.evaluate(flag, f"{limit:g}", "--concurrency", "1")
    assert finished.code == 4
    assert f"is used up: 3 calls took {spent}" in finished.stdout
    assert sum(len(case.trials) for case in record.cases) == 3
    assert (
        "agent.yaml: the budget counts the usage that python:spender:answer reports after each answer"
    ) in finished.stderr


def test_a_budget_says_what_it_could_not_count(project: Project) -> None:
    _spending(project, 2, '"cost_usd": 0.1')
    finished = project.run("run", "--max-tokens", "100")
    assert finished.code == 0
    assert (
        "note: the budget does not count 2 answers of the target, which did not report their usage" in finished.stderr
    )
    finished = project.run("run", "--max-cost-usd", "1")
    assert "does not count" not in finished.stderr


def test_reports_add_up_what_replies_tell(project: Project) -> None:
    _spending(project, 2)
    project.evaluate()
    report = json.loads(project.run("report", "out/results.json", "--format", "json").stdout)
    assert (report["spend"]["prompt_tokens"], report["spend"]["completion_tokens"]) == (2000, 200)
    assert report["spend"]["agent_cost_usd"] == pytest.approx(2 * COST)
    (model,) = report["spend"]["models"]
    assert (model["model"], model["prompt_tokens"], model["cached_tokens"]) == ("openai/gpt-4o", 2000, None)


def test_reports_tell_models_apart(suite: Project) -> None:
    suite.evaluate("--target", "recorded:answers.jsonl")
    report = json.loads(suite.run("report", "out/results.json", "--format", "json").stdout)
    large, first, small = report["spend"]["models"]
    assert [each["model"] for each in (large, first, small)] == ["large", "openai/gpt-4o", "small"]
    assert large == {"model": "large", **USED, "cost_usd": 0.5}
    assert first["reasoning_tokens"] == 60
    suite.numbered(1)
    suite.evaluate("--target", "recorded:answers.jsonl")
    report = json.loads(suite.run("report", "out/results.json", "--format", "json").stdout)
    assert "models" not in report["spend"]


def test_a_comparison_shows_when_answers_began(project: Project) -> None:
    project.numbered(12)
    for first_ms, baseline in ((100, {}), (250, {"source": "file:base.json"})):
        rows = [{"case": f"case {n}", "response": str(n), "first_token_ms": first_ms} for n in range(12)]
        project.answers(rows)
        project.policy(target="recorded:answers.jsonl", baseline=baseline)
        finished = project.run("run", "-o", "out")
        project.write("base.json", (project.out / "results.json").read_bytes())
    assert "  95 % first token: 100 ms → 250 ms" in finished.stdout
