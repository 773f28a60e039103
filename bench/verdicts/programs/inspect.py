"""Inspect: `inspect eval`, then a script that reads the log (https://inspect.aisi.org.uk/eval-logs.html)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import to_builtins

from bench.verdicts.jobs import ORDER_SCHEMA, Job, NotOfferedError, final_cases
from bench.verdicts.scenarios import Scenario, Step
from bench.verdicts.server import AGENT_MODEL, JUDGE_MODEL

_OWN_CODE = {"excludes", "max_words"}
"""Checks without a scorer: what an answer must not be."""
_TASK = '''import json
import re

import agent
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, ModelOutput
from inspect_ai.scorer import SampleScore, Score, accuracy, exact, match, metric, model_graded_qa, scorer, stderr
from inspect_ai.solver import generate, solver, system_message, use_tools
from inspect_ai.tool import tool

with open("exam.json") as file:
    EXAM = json.load(file)


def calls_of(state):
    calls = [call for message in state.messages for call in getattr(message, "tool_calls", None) or ()]
    return [{"name": call.function, "args": call.arguments} for call in calls]


def json_of(text, fenced):
    found = re.search(r"```json\\n(.*?)```", text, re.DOTALL) if fenced else None
    return json.loads(found[1] if found else text)


def holds(check, text, state):
    if check["equals"] is not None:
        return check["equals"] == text
    if check["contains"] is not None:
        return check["contains"] in text
    if check["excludes"] is not None:
        return check["excludes"] not in text
    if check["matches"] is not None:
        return re.search(check["matches"], text) is not None
    if check["max_words"] is not None:
        return len(text.split()) <= check["max_words"]
    if check["latency_s"] is not None:
        return state.output.time is not None and state.output.time <= check["latency_s"]
    if check["schema"] is not None:
        import jsonschema

        try:
            jsonschema.validate(json_of(text, check["fenced"]), EXAM["schema"])
        except (ValueError, jsonschema.ValidationError):
            return False
        return True
    if check["calls"] is not None:
        return calls_of(state) == state.metadata["tools"]
    return True


@metric
def same_answers():
    def compute(scores: list[SampleScore]) -> float:
        return float(len({each.score.answer for each in scores}) == 1)

    return compute


@scorer(metrics=[accuracy(), stderr(), *([same_answers()] if EXAM["same"] else [])])
def checks():
    async def score(state, target):
        text = state.output.completion
        found = [(check["weight"], holds(check, text, state)) for check in state.metadata["checks"]]
        share = sum(weight for weight, good in found if good) / sum(weight for weight, _ in found)
        return Score(value=float(share >= (state.metadata["share"] or 1)), answer=text)

    return score


@solver
def own_agent():
    async def solve(state, generate):
        state.messages = []
        for ask in state.metadata["asks"]:
            state.messages.append(ChatMessageUser(content=ask))
            talk = [{"role": message.role, "content": message.text} for message in state.messages]
            said = agent.answer(talk)["response"]
            state.messages.append(ChatMessageAssistant(content=said))
            state.output = ModelOutput.from_content("agent", said)
        return state

    return solve


@tool
def find_order():
    async def execute(id: str) -> str:
        """Look an order up.

        Args:
            id: The order.
        """
        return "done"

    return execute


@tool
def refund():
    async def execute(id: str) -> str:
        """Refund an order.

        Args:
            id: The order.
        """
        return "done"

    return execute


def scorers():
    kinds = EXAM["kinds"]
    if kinds == ["equals"]:
        return exact()
    if kinds == ["number"]:
        return match(location="exact", numeric=True)
    if kinds in (["rubric"], ["conversation"]):
        return model_graded_qa(model="openai/JUDGE", include_history=kinds == ["conversation"])
    return checks() if kinds else None


@task
def exam():
    solvers = {
        "model": [system_message("Answer."), generate()],
        "python": [own_agent()],
        "tools": [system_message("Answer."), use_tools(find_order(), refund()), generate()],
    }
    samples = [
        Sample(input=case["asks"][-1], target=case["target"], id=case["name"], metadata=case) for case in EXAM["cases"]
    ]
    return Task(dataset=samples, solver=solvers[EXAM["agent"]], scorer=scorers())
'''.replace("JUDGE", JUDGE_MODEL)
_CHECK = """import glob
import sys

from inspect_ai.log import read_eval_log

rate = float(sys.argv[1])
(path,) = glob.glob("logs/*.json")
log = read_eval_log(path)
if log.status != "success":
    sys.exit(f"status {log.status}")
scores = log.results.scores if log.results else []
if not scores:
    sys.exit("no scores")
for score in scores:
    if score.unscored_samples:
        sys.exit(f"{score.name}: {score.unscored_samples} samples without a score")
    for name, metric in score.metrics.items():
        if name != "stderr" and metric.value < rate - 1e-9:
            sys.exit(f"{score.name} {name} {metric.value}")
"""


def run(job: Job) -> int:
    """Run a scenario's job; the command is Inspect's."""
    scenario = job.scenario
    if scenario.base:
        raise NotOfferedError("no comparison with the results of a base")
    kinds = {check.kind for case in scenario.cases for check in case.checks}
    if kinds <= _OWN_CODE and _is_silent(scenario):
        raise NotOfferedError("no scorer for what an answer must not be; the user's own code decides")
    job.copy_agent()
    job.write("exam.json", exam(scenario))
    job.write("task.py", _TASK)
    job.write("check.py", _CHECK)
    code = job.run(job.command, "eval", "task.py", *_options(job))
    return code or job.run(str(Path(job.command).with_name("python")), "check.py", str(scenario.team.pass_rate))


def _is_silent(scenario: Scenario) -> bool:
    """Return whether an answer has no text, so that the user's own code alone decides."""
    steps = [step for steps in scenario.fault.values() for step in steps]
    return any(step == "" or (isinstance(step, Step) and step.content is None) for step in steps)


def exam(scenario: Scenario) -> dict[str, Any]:
    """Return the data of the exam for programs whose tests are written in Python."""
    bare = scenario.change.empty == "checks"
    kinds = [] if bare else sorted({check.kind for case in scenario.cases for check in case.checks})
    cases = []
    for case in final_cases(scenario):
        checks = [] if bare else [to_builtins(check) for check in case.checks]
        targets = [check.equals if check.number is None else f"{check.number:g}" for check in case.checks]
        rubrics = [check.rubric or check.conversation for check in case.checks]
        target = next((each for each in [*targets, *rubrics] if each is not None), "")
        asks = case.turns or (case.ask,)
        cases.append(
            {
                "name": case.name,
                "asks": asks,
                "target": target,
                "checks": checks,
                "share": case.share,
                "tools": [to_builtins(call) for call in case.tools],
            }
        )
    return {
        "agent": scenario.agent,
        "kinds": kinds,
        "same": "same_as" in kinds,
        "cases": cases,
        "schema": ORDER_SCHEMA,
    }


def _options(job: Job) -> list[str]:
    team = job.scenario.team
    found = ["--model", f"openai/{AGENT_MODEL}", "--model-base-url", job.address, "--display", "plain"]
    found += ["--log-dir", "logs", "--log-format", "json"]
    found += ["--max-retries", "3", "--timeout", str(round(team.turn_timeout_s))]
    if team.trials > 1:
        found += ["--epochs", str(team.trials), "--epochs-reducer", f"at_least_{team.need or team.trials}"]
    if team.errors_allowed:
        found += ["--fail-on-error", str(team.errors_allowed)]
    if team.retries_after_error:
        found.append(f"--retry-on-error={team.retries_after_error}")
    if team.max_tool_calls:
        found += ["--message-limit", str(2 * team.max_tool_calls + 3)]
    return found
