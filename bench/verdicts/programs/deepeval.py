"""DeepEval: `deepeval test run` (https://deepeval.com/docs/evaluation-unit-testing-in-ci-cd)."""

from __future__ import annotations

from bench.verdicts.jobs import Job, NotOfferedError
from bench.verdicts.programs.inspect import exam
from bench.verdicts.server import AGENT_MODEL, JUDGE_MODEL

_TEST = '''import json
import re
import time

import agent
import pytest
from deepeval import assert_test, evaluate
from deepeval.metrics import (
    ConversationalGEval,
    ExactMatchMetric,
    GEval,
    JsonCorrectnessMetric,
    PatternMatchMetric,
    ToolCorrectnessMetric,
)
from deepeval.test_case import (
    ConversationalTestCase,
    LLMTestCase,
    MultiTurnParams,
    SingleTurnParams,
    ToolCall,
    ToolCallParams,
    Turn,
)
from openai import OpenAI
from pydantic import BaseModel

with open("exam.json") as file:
    EXAM = json.load(file)
client = OpenAI(timeout=EXAM["timeout"])


class Order(BaseModel):
    id: str
    status: str
    total: float


def respond(case):
    """Ask the agent; return the answers, the tool calls and the seconds of the last answer."""
    messages, calls = [], []
    for ask in case["asks"]:
        messages.append({"role": "user", "content": ask})
        started = time.monotonic()
        if EXAM["agent"] == "model":
            talk = [{"role": "system", "content": "Answer."}, *messages]
            said = client.chat.completions.create(model="AGENT", messages=talk).choices[0].message.content
        else:
            found = agent.answer(messages)
            said, calls = found["response"], found["tool_invocations"]
        messages.append({"role": "assistant", "content": said})
    return messages, calls, time.monotonic() - started


def tools(calls):
    return [ToolCall(name=call["name"], input_parameters=call["args"]) for call in calls]


def unfenced(text):
    found = re.search(r"```json\\n(.*?)```", text, re.DOTALL)
    return found[1] if found else text


def metric(check):
    if check["equals"] is not None:
        return ExactMatchMetric()
    if check["matches"] is not None:
        return PatternMatchMetric(pattern=f"(?s).*(?:{check['matches']}).*")
    if check["contains"] is not None:
        return PatternMatchMetric(pattern=f"(?s).*{re.escape(check['contains'])}.*")
    if check["excludes"] is not None:
        return PatternMatchMetric(pattern=f"(?s)(?!.*{re.escape(check['excludes'])}).*")
    if check["max_words"] is not None:
        return PatternMatchMetric(pattern=r"\\s*(?:\\S+\\s*){0,%d}" % check["max_words"])
    if check["number"] is not None:
        return PatternMatchMetric(pattern=rf"{check['number']:g}(?:\\.0+)?")
    if check["schema"] is not None:
        return JsonCorrectnessMetric(expected_schema=Order, model="JUDGE", include_reason=False)
    if check["rubric"] is not None:
        return GEval(
            name="Criteria",
            evaluation_steps=[check["rubric"]],
            evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
            model="JUDGE",
        )
    if check["conversation"] is not None:
        return ConversationalGEval(
            name="Criteria",
            evaluation_steps=[check["conversation"]],
            evaluation_params=[MultiTurnParams.ROLE, MultiTurnParams.CONTENT],
            model="JUDGE",
        )
    if check["calls"] is not None:
        return ToolCorrectnessMetric(
            model="JUDGE",
            threshold=1,
            evaluation_params=[ToolCallParams.INPUT_PARAMETERS],
            should_exact_match=True,
            should_consider_ordering=True,
            include_reason=False,
        )
    return None


def filled_case(case):
    messages, calls, seconds = respond(case)
    if "conversation" in EXAM["kinds"]:
        turns = [Turn(role=message["role"], content=message["content"]) for message in messages]
        return ConversationalTestCase(turns=turns)
    text = messages[-1]["content"]
    for check in case["checks"]:
        if check["latency_s"] is not None:
            assert seconds <= check["latency_s"]
    return LLMTestCase(
        input=case["asks"][-1],
        actual_output=unfenced(text) if any(check["fenced"] for check in case["checks"]) else text,
        expected_output=case["target"],
        tools_called=tools(calls),
        expected_tools=tools(case["tools"]),
    )


def metrics_of(case):
    return [found for check in case["checks"] if (found := metric(check))]


if EXAM["rate"] < 1:

    def test_rate():
        cases = [case for case in EXAM["cases"] for _ in range(EXAM["trials"])]
        found = evaluate([filled_case(case) for case in cases], metrics_of(cases[0]))
        passed = sum(result.success for result in found.test_results)
        assert passed / len(cases) >= EXAM["rate"]

else:

    @pytest.mark.flaky(reruns=EXAM["reruns"])
    @pytest.mark.parametrize("case", EXAM["cases"], ids=lambda case: case["name"])
    def test_case(case):
        assert_test(filled_case(case), metrics_of(case))


if EXAM["same"]:

    def test_same_answers():
        answers = {filled_case(case).actual_output for case in EXAM["cases"]}
        assert len(answers) == 1
'''.replace("JUDGE", JUDGE_MODEL).replace("AGENT", AGENT_MODEL)


def run(job: Job) -> int:
    """Run a scenario's job; the command is DeepEval's."""
    scenario = job.scenario
    team = scenario.team
    if scenario.base:
        raise NotOfferedError("no comparison with the results of a base without an account of its service")
    if team.errors_allowed:
        raise NotOfferedError("no tolerated share of cases without an answer")
    if any(case.share is not None for case in scenario.cases):
        raise NotOfferedError("no weights of metrics")
    job.copy_agent()
    more = {
        "rate": team.need / team.trials if team.need else team.pass_rate,
        "trials": team.trials,
        "reruns": team.retries_after_error,
        "timeout": team.turn_timeout_s,
    }
    job.write("exam.json", {**exam(scenario), **more})
    job.write("test_agent.py", _TEST)
    repeat = ("--repeat", str(team.trials)) if team.trials > 1 and not team.need else ()
    return job.run(job.command, "test", "run", "test_agent.py", *repeat)
