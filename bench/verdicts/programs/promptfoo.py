"""promptfoo: `promptfoo eval` and its exit code (https://www.promptfoo.dev/docs/usage/command-line/)."""

from __future__ import annotations

import json
import sys
from typing import Any

from msgspec import to_builtins

from bench.verdicts.jobs import ORDER_SCHEMA, Job, NotOfferedError, final_cases
from bench.verdicts.scenarios import Case, Check
from bench.verdicts.server import AGENT_MODEL, JUDGE_MODEL

_PROVIDER = """import agent


def call_api(prompt, options, context):
    messages = []
    for ask in context["vars"]["asks"].split("\\n"):
        messages.append({"role": "user", "content": ask})
        found = agent.answer(messages)
        messages.append({"role": "assistant", "content": found["response"]})
    said = [message["content"] for message in messages]
    calls = [{"name": call["name"], "args": call["args"]} for call in found["tool_invocations"]]
    return {"output": said[-1] if len(said) == 2 else "\\n".join(said), "metadata": {"calls": calls}}
"""
_JSON = {"type": "json_object"}
"""The judge may write nothing but a JSON object (https://www.promptfoo.dev/docs/providers/openai/)."""
_UNFENCE = "(output.match(/```json\\n([\\s\\S]*?)```/) || [, output])[1]"


def run(job: Job) -> int:
    """Run a scenario's job; the command is promptfoo's."""
    scenario = job.scenario
    team = scenario.team
    if scenario.base:
        raise NotOfferedError("no comparison with the results of a base")
    cases = final_cases(scenario)
    if any(check.kind == "same_as" for case in cases for check in case.checks):
        raise NotOfferedError("no assertion sees the answers of two tests")
    bare = scenario.change.empty == "checks"
    provider: Any = _model(AGENT_MODEL, job.address)
    if scenario.agent != "model":
        job.copy_agent()
        job.write("provider.py", _PROVIDER)
        provider = "file://provider.py"
    config = {
        "prompts": ["{{question}}"],
        "providers": [provider],
        "defaultTest": {"options": {"provider": _model(JUDGE_MODEL, job.address, response_format=_JSON)}},
        "tests": [_test(case, bare) for case in cases],
    }
    job.write("promptfooconfig.json", config)
    milliseconds = str(round(1000 * team.turn_timeout_s))
    job.environ |= {
        "PROMPTFOO_PYTHON": sys.executable,
        "PROMPTFOO_EVAL_TIMEOUT_MS": milliseconds,
        "REQUEST_TIMEOUT_MS": milliseconds,
        "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
        "PROMPTFOO_DISABLE_SHARING": "1",
    }
    rate = team.need / team.trials if team.need else team.pass_rate - team.errors_allowed
    if rate < 1:
        job.environ["PROMPTFOO_PASS_RATE_THRESHOLD"] = f"{100 * rate:g}"
    trials = ("--repeat", str(team.trials)) if team.trials > 1 else ()
    common = ("--no-cache", "--no-progress-bar", "--no-table")
    code = job.run(job.command, "eval", "-c", "promptfooconfig.json", *common, *trials)
    if code and team.retries_after_error:
        code = job.run(job.command, "eval", "-c", "promptfooconfig.json", "--retry-errors", "--no-progress-bar")
    return code


def _model(name: str, address: str, **config: Any) -> dict[str, Any]:
    return {"id": f"openai:chat:{name}", "config": {"apiBaseUrl": address, **config}}


def _test(case: Case, bare: bool) -> dict[str, Any]:
    asks = case.turns or (case.ask,)
    found: dict[str, Any] = {"description": case.name, "vars": {"question": asks[-1], "asks": "\n".join(asks)}}
    if any(check.fenced for check in case.checks):
        found["options"] = {"transform": _UNFENCE}
    if case.share is not None:
        found["threshold"] = case.share
    found["assert"] = [] if bare else [{**_assertion(check, case), "weight": check.weight} for check in case.checks]
    return found


def _assertion(check: Check, case: Case) -> dict[str, Any]:
    value: Any = getattr(check, check.kind)
    if check.kind == "calls":
        expected = json.dumps(json.dumps([to_builtins(call) for call in case.tools], separators=(",", ":")))
        value = f"JSON.stringify(context.providerResponse.metadata.calls) === {expected}"
        return {"type": "javascript", "value": value}
    if check.kind == "number":
        return {"type": "javascript", "value": f"Number(output) === {value}"}
    if check.kind == "latency_s":
        return {"type": "latency", "threshold": 1000 * value}
    if check.kind == "max_words":
        return {"type": "word-count", "value": {"max": value}}
    if check.kind == "json_schema":
        return {"type": "is-json", "value": ORDER_SCHEMA}
    names = {"excludes": "not-contains", "matches": "regex", "rubric": "llm-rubric", "conversation": "llm-rubric"}
    return {"type": names.get(check.kind, check.kind), "value": value}
