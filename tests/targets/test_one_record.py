"""The record does not show how an agent was reached: one agent, behind each target that can ask it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record, ToolInvocation, Usage
from holodeck_action.suite.model.named_models import SMALL
from tests.commands.project import Project
from tests.extensions.frameworks.framework_examples import FOLDER, variables
from tests.llm.models import KEY, FakeModels
from tests.targets.shop_model import ANSWERS, ORDER, shop_answer
from tests.workers.installing import uv

pytestmark = pytest.mark.models(answer=shop_answer)
SHOP = """
import json
import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

PLACES = {"A-17": "Leeds", "B-4": "York"}
PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOL = {"type": "function", "function": {"name": "find_order", "parameters": PARAMETERS}}
kept = {}


def find_order(id):
    "Find an order."
    return {"place": PLACES[id]}


def completed(messages):
    body = {"model": "gpt-4o-mini", "messages": messages, "tools": [TOOL]}
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    asked = urllib.request.Request(os.environ["MODELS"] + "/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


def converse(request):
    said = kept.setdefault(request["session"], [])
    said.append({"role": "user", "content": request["input"]})
    before, calls, used = len(said), [], {"prompt": 0, "completion": 0, "cached": 0}
    while True:
        completion = completed(said)
        usage, message = completion["usage"], completion["choices"][0]["message"]
        for each in ("prompt", "completion"):
            used[each] += usage[each + "_tokens"]
        used["cached"] += usage["prompt_tokens_details"]["cached_tokens"]
        said.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            args = json.loads(call["function"]["arguments"])
            result = find_order(**args)
            calls.append({"name": call["function"]["name"], "args": args, "result": result})
            said.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    usage = {name + "_tokens": count for name, count in used.items()}
    return {"response": message["content"], "tool_invocations": calls,
            "usage": {**usage, "reasoning_tokens": 0, "model": "openai/" + completion["model"]}}


def answer(messages, request):
    return converse(request)


def commanded():
    for line in sys.stdin:
        print(json.dumps(converse(json.loads(line))), flush=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = json.dumps(converse(body)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def served():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
"""
PYDANTIC_AI = """
import os
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
import shop

provider = OpenAIProvider(os.environ["MODELS"], os.environ["OPENAI_API_KEY"])
agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider))

@agent.tool_plain
def find_order(id: str) -> dict:
    return shop.find_order(id)
"""
GATES = {"max_cost_usd": 0.01, "max_total_tokens": 1000}
SPANS = """
from framework import Agent, agent

# Spans of its own, which the reply does not repeat.
Agent.instrument_all()
kept = {}

async def answer(messages, request):
    result = await agent.run(request["input"], message_history=kept.get(request["session"]))
    kept[request["session"]] = result.all_messages()
    return result.output
"""


@pytest.fixture
def asked(project: Project, models: FakeModels) -> Project:
    """A suite with a conversation in which the second turn names no order."""
    call = {"name": "find_order", "args": {"id": ORDER}}
    turns = [
        {"input": f"Where is {ORDER}?", "ground_truth": ANSWERS["where is"].format("Leeds"), "expected_tools": [call]},
        {"input": "When does it come?", "ground_truth": ANSWERS["when does"], "expected_tools": [call]},
    ]
    project.suite(
        [
            {"name": "order", "turns": turns},
            {
                "name": "opening",
                "input": "When do you open?",
                "ground_truth": ANSWERS["you open"],
                "expected_tools": [],
            },
        ]
    )
    project.policy(gates=GATES)
    project.write("shop.py", SHOP)
    return project


@pytest.fixture
def service(asked: Project, models: FakeModels) -> Iterator[str]:
    """The agent as a service of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import shop; shop.served()"],
        cwd=asked.folder,
        env=asked.environ(MODELS=models.openai_url, OPENAI_API_KEY=KEY),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def _record(project: Project, models: FakeModels, target: str, *more: str, **environ: str) -> Record:
    given = {"MODELS": models.openai_url, "OPENAI_API_KEY": KEY, **environ}
    # Each worker imports a framework.
    finished, record = project.evaluate("--target", target, "--concurrency", "1", *more, **given)
    assert finished.code == 0, finished.stderr + finished.stdout
    return record


def _canonical(record: Record) -> bytes:
    # The policy file belongs to the suite, and says whether spans are read.
    suite = replace(record.suite, digest="")
    return canonical_json(replace(record, suite=suite, provenance=replace(record.provenance, target="")))


@pytest.mark.full
def test_an_agent_gives_the_same_record_behind_every_target(asked: Project, models: FakeModels, service: str) -> None:
    asked.write("framework.py", PYDANTIC_AI)
    command = f"command:{sys.executable} -c 'import shop; shop.commanded()'"
    targets = ["python:shop:answer", command, f"http:{service}", "pydantic-ai:framework:agent"]
    records = [_record(asked, models, target) for target in targets]
    asked.write("spanned.py", SPANS)
    asked.policy(gates=GATES, spans=True)
    records.append(_record(asked, models, "python:spanned:answer"))
    assert {_canonical(each) for each in records} == {_canonical(records[0])}
    (order, opening) = records[0].cases
    for turn in order.turns:
        assert turn.tool_invocations == (ToolInvocation("find_order", {"id": ORDER}, {"place": "Leeds"}, bytes=18),)
        assert turn.usage is not None
        assert turn.usage == Usage(30, 10, turn.usage.cost_usd, 4, 0, estimated=True)
        # 26 and 4 cached tokens of the prompt, 10 of the answer, at the list price.
        assert turn.usage.cost_usd == pytest.approx((26 * 0.15 + 4 * 0.075 + 10 * 0.6) / 1e6)
        assert turn.model == "openai/gpt-4o-mini"
    (turn,) = opening.turns
    assert (turn.response, turn.tool_invocations) == (ANSWERS["you open"], ())


AS_TOLD = """
import json
import shop

def answer(messages, request):
    reply = shop.converse(request)
    # As these frameworks name their models; LangGraph keeps the text of a result.
    reply["usage"]["model"] = "{model}"
    for call in reply["tool_invocations"]:
        call["result"] = {result}
    return reply
"""


def _without_messages(record: Record) -> Record:
    """Leave out what graphs alone tell of a conversation: the ids of calls are other ones in each run."""
    cases = []
    for case in record.cases:
        trials = (
            replace(trial, turns=tuple(replace(turn, messages=None) for turn in trial.turns)) for trial in case.trials
        )
        cases.append(replace(case, trials=tuple(trials)))
    return replace(record, cases=tuple(cases))


@pytest.mark.frameworks
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("example", "target", "result"),
    [
        ("langgraph", "langgraph:shop_agent:graph", 'json.dumps(call["result"])'),
        ("openai_agents", "openai-agents:shop_agent:agent", 'call["result"]'),
    ],
)
def test_an_adapter_gives_the_record_of_a_callable(
    asked: Project, models: FakeModels, example: str, target: str, result: str
) -> None:
    code = (FOLDER / example / "shop_agent.py").read_text(encoding="utf-8")
    found = "return ORDERS.get(id, {})"
    assert found in code
    asked.write("shop_agent.py", code.replace(found, 'return {"place": ORDERS[id]["place"]}'))
    asked.write("as_told.py", AS_TOLD.format(result=result, model=SMALL))
    environ = {**variables(models), "PATH": f"{uv().parent}:{asked.environ()['PATH']}"}
    requirements = ("--requirements", str(FOLDER / example / "requirements.txt"))
    records = [_record(asked, models, each, *requirements, **environ) for each in (target, "python:as_told:answer")]
    told, said = (_canonical(_without_messages(record)) for record in records)
    assert told == said
