"""Traces that four frameworks recorded, judged and made into cases.

The recordings are of the example agents of the frameworks; scripts/record_traces.py makes them again. Nights of more
conversations are copies with other ids, times and answers.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from holodeck_action.extensions.traces.drift import find_drifts
from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.named_models import SMALL
from scripts.record_traces import CONVERSATIONS, RECORDINGS, record
from tests.commands.project import Project
from tests.extensions.traces.test_trace_target import suite

FRAMEWORKS = ("langgraph", "openai_agents", "pydantic_ai", "crewai")
RIGHT = {
    "Where is order A-17?": "Your order is in Leeds.",
    "And when does it arrive?": "It arrives tomorrow.",
    "Where is order B-4?": "Your order is in York.",
    "When do you open?": "We open at nine.",
    "Where is order E-3?": "I cannot find your order.",
}
"""The recorded answers by question."""
WRONG = "As an AI, I cannot help."
CHECK = {"type": "not_contains", "value": "As an AI"}
ECHO = "def answer(messages):\n    return 'You said: ' + messages[-1]['content']\n"


def conversations(name: str) -> dict[str, str]:
    """Return the recorded requests of OTLP by session, as JSON."""
    traces: dict[str, list[dict[str, Any]]] = {}
    sessions: dict[str, str] = {}
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    alone = {"resource": resource["resource"], "scopeSpans": [{**scope, "spans": [span]}]}
                    traces.setdefault(span["traceId"], []).append(alone)
                    for each in span["attributes"]:
                        if each["key"] in ("session.id", "gen_ai.conversation.id"):
                            sessions[span["traceId"]] = each["value"]["stringValue"]
    found: dict[str, list[dict[str, Any]]] = {}
    for trace, parts in traces.items():
        found.setdefault(sessions[trace], []).extend(parts)
    return {session: json.dumps({"resourceSpans": parts}) for session, parts in found.items()}


def night(name: str, seed: int, wrong: float, count: int = 80) -> str:
    """Return a night of conversations, drawn from the recorded ones, each with a probability of wrong answers."""
    dice = random.Random(seed)
    listed = sorted(conversations(name).items())
    lines = []
    for number in range(count):
        _, text = dice.choice(listed)
        if dice.random() < wrong:
            for answer in RIGHT.values():
                text = text.replace(answer, WRONG)
        text = later(text, (1000 * seed + number) * 60 * 10**9)
        text = re.sub(r'("traceId": ")[0-9a-f]{16}', rf"\g<1>{seed:08x}{number:08x}", text)
        lines.append(re.sub(r"\bs-(\d)\b", rf"s-{seed}-{number}-\1", text))
    return "".join(f"{line}\n" for line in lines)


def later(text: str, nanoseconds: int) -> str:
    return re.sub(r'(imeUnixNano": ")(\d+)', lambda found: found[1] + str(int(found[2]) + nanoseconds), text)


def judge(project: Project, traces: str, name: str, *arguments: str) -> Record:
    """Judge traces, and return the record, which stays in `nights/NAME`."""
    project.write(f"{name}.jsonl", traces)
    done = project.run(
        "run", "agent.yaml", "-o", f"nights/{name}", "--target", f"traces:{name}.jsonl", "--no-html", *arguments
    )
    # One conversation in five ends in an error of the agent.
    assert done.code in (1, 3), done.stderr
    return read_record(project.folder / "nights" / name / "results.json")


def drift(project: Project, now: str, before: str) -> tuple[int, list[str]]:
    """Return the exit code of `drift` and the states of the numbers."""
    done = project.run("drift", f"nights/{now}", "--before", f"nights/{before}", "--format", "json")
    return done.code, [each["state"] for each in json.loads(done.stdout)]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_conversations_are_judged(project: Project, name: str) -> None:
    suite(project, CHECK)
    check_record(judge(project, (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8"), "night"), name)


def check_record(record: Record, name: str) -> None:
    """Check what a record of the recorded conversations contains, known and unknown."""
    cases = {case.id: case.trials[0].turns for case in record.cases}
    assert cases.keys() == CONVERSATIONS.keys()
    for session, turns in cases.items():
        for turn, question in zip(turns, CONVERSATIONS[session], strict=True):
            # The inputs of a crew are the whole conversation.
            assert (turn.input.splitlines()[-1] == f"user: {question}") if name == "crewai" else turn.input == question
            # No framework retrieved anything, but none says so.
            assert turn.retrieved_chunks is None
            check_failure(turn) if session == "s-5" else check_answer(turn, question, name)


def check_failure(turn: TurnRecord) -> None:
    assert turn.error is not None
    assert "400" in turn.error.message
    assert "Traceback" not in turn.error.message
    assert (turn.response, turn.tool_invocations, turn.usage) == (None, None, None)


def check_answer(turn: TurnRecord, question: str, name: str) -> None:
    assert (turn.error, turn.response) == (None, RIGHT[question])
    opening = question == "When do you open?"
    wanted = (
        [] if opening else [{"order": "E-3"} if "E-3" in question else {"id": "B-4" if "B-4" in question else "A-17"}]
    )
    calls = turn.tool_invocations or ()
    assert turn.tool_invocations is not None
    assert [(call.name, call.args) for call in calls] == [("find_order", each) for each in wanted]
    for call in calls:
        assert ("York" if "B-4" in question else "Leeds") in str(call.result) or call.error is not None
        assert ("Traceback" in str(call.error), call.error is not None) == (False, "E-3" in question)
    usage = turn.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == ((12, 2) if opening else (30, 10))
    # OpenAI Agents does not export the number of cached tokens, and the others leave out a zero or not.
    hit = 0 if name == "openai_agents" or "E-3" in question else 4
    assert usage.cached_tokens in ({None, hit} if hit == 0 else {hit})
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    # The recordings are of an older model than the examples.
    fresh, cached, answered = (0.1, 0.01, 0.5) if str(turn.model).endswith(SMALL) else (0.15, 0.075, 0.6)
    assert usage.cost_usd == pytest.approx(((prompt - hit) * fresh + hit * cached + completion * answered) / 1e6)
    # Pydantic AI exports a cost, which it computes from list prices, too.
    assert usage.estimated
    assert turn.model in ("openai/gpt-4o-mini", f"openai/{SMALL}")
    assert turn.timing is not None
    assert (turn.timing.model_ms or 0) > 0


@pytest.mark.full
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_night_is_sampled(project: Project, name: str) -> None:
    suite(project, CHECK)
    whole = judge(project, night(name, 1, 0.3), "whole")
    sample = judge(project, night(name, 1, 0.3), "sample", "--sample", "40", "--sample-by", "tool")
    by_id = {case.id: case.trials[0].turns for case in whole.cases}
    assert (len(by_id), len(sample.cases)) == (80, 40)

    def called(turns: Sequence[TurnRecord]) -> bool:
        return any(turn.tool_invocations for turn in turns)

    for case in sample.cases:
        assert [turn.response for turn in case.trials[0].turns] == [turn.response for turn in by_id[case.id]]
    # The weights estimate how many conversations call the tool.
    weights = sum(case.weight for case in sample.cases if called(case.trials[0].turns))
    assert weights / 40 == pytest.approx(sum(map(called, by_id.values())) / 80)
    assert len({case.weight for case in sample.cases}) == 2


@pytest.mark.full
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_planted_drift_between_nights_is_found(project: Project, name: str) -> None:
    suite(project, CHECK)
    before = judge(project, night(name, 1, 0.1), "before")
    later = judge(project, night(name, 2, 0.5), "later")
    judge(project, night(name, 3, 0.1), "same")

    assert drift(project, "later", "before") == (1, ["worse", "worse"])
    assert drift(project, "same", "before") == (0, ["no drift", "no drift"])

    without = sum("no drift" not in states(before, before, seed) for seed in range(100))
    planted = sum("worse" in states(before, later, seed) for seed in range(100))
    # At a probability of 1 %, more than 4 of 100 have a probability of 0.3 %.
    assert without <= 4
    assert planted >= 98


def states(before: Record, now: Record, seed: int) -> set[str]:
    """Return how conversations drawn from two records compare."""
    dice = random.Random(seed)
    first, second = (
        replace(of, cases=tuple(replace(dice.choice(of.cases), id=f"{start + at}") for at in range(100)))
        for of, start in ((before, 0), (now, 1000))
    )
    return {each.state for each in find_drifts([first], [second])}


@pytest.mark.full
def test_whole_runs_of_nights_without_drift(project: Project) -> None:
    suite(project, CHECK)
    judge(project, night("openai_agents", 100, 0.1), "100")
    for seed in range(101, 106):
        judge(project, night("openai_agents", seed, 0.1), str(seed))
        assert drift(project, str(seed), str(seed - 1)) == (0, ["no drift", "no drift"])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_traces_become_cases_that_run(project: Project, name: str) -> None:
    shutil.copy(RECORDINGS / f"{name}.jsonl", project.folder)

    made = project.run("cases", "from-traces", f"{name}.jsonl", "-o", "cases.yaml", "--accept")

    assert made.code == 0, made.stderr
    assert "wrote 5 cases of 5 conversations to cases.yaml: 1 for an error" in made.stdout
    assert "Traceback" not in (project.folder / "cases.yaml").read_text(encoding="utf-8")
    project.suite([], [{"type": "length", "min_words": 1}], test_cases=None, test_cases_file="cases.yaml")
    project.policy(target="python:agent:answer", ground_truth="unused")
    project.write("agent.py", ECHO)
    assert project.run("validate").stdout.startswith("agent.yaml: valid: 5 cases, 6 turns")
    ran, record = project.evaluate()
    assert ran.code == 0, ran.stdout
    turns = [turn for case in record.cases for turn in case.trials[0].turns]
    asked = [turn.input.splitlines()[-1].removeprefix("user: ") for turn in turns]
    assert asked == [question for session in CONVERSATIONS.values() for question in session]
    assert all(turn.response == f"You said: {turn.input}" for turn in turns)
    # An error is not an expected answer.
    expected = [case.get("ground_truth") for case in written(project) for case in case.get("turns", [case])]
    assert expected == [*RIGHT.values(), None]


def written(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((project.folder / "cases.yaml").read_text())["test_cases"]
    return found


@pytest.mark.frameworks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_new_traces_are_as_the_recorded_ones(project: Project, name: str) -> None:
    suite(project, CHECK)
    check_record(judge(project, record(name), "night"), name)
