"""Every evaluator class of the installed Azure AI Evaluation, by `type: azure`.

It works as the bare library does, or is refused with a reason. The table of docs/azure-metrics.md comes from here.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.azure.catalogue import (
    ANSWER_ONLY,
    BINARY,
    AzureEntry,
    evaluator_names,
    find_evaluator,
)
from holodeck_action.extensions.azure.class_metric import AzureClassMetric, agent_messages
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.judging.asking import judged_grader
from holodeck_action.record.record import ToolInvocation
from tests.commands.project import Project, evaluations
from tests.extensions.azure.azure_judge import config
from tests.github.steps import naming
from tests.llm.bare_library import run_bare
from tests.llm.models import KEY, Answer, FakeModels, Request, serve_models
from tests.llm.wiring import opened

DOCS = Path(__file__).parents[3] / "docs" / "azure-metrics.md"

TEXTS = {
    "query": "How warm is it in {{ Oslo }}?",
    "response": "It is 3 degrees, I think.",
    "ground_truth": "It is 3 degrees in Oslo.",
    "context": "Oslo: 3 degrees.",
}
CALLS = (
    ToolInvocation("lookup", {"city": "Oslo"}, {"degrees": 3}),
    ToolInvocation("forecast", {"city": "Oslo"}, error="no such service"),
)
TOOLS = [
    {"name": name, "description": f"finds the {name}", "parameters": {"type": "object", "properties": {}}}
    for name in ("lookup", "forecast")
]


def entries() -> dict[str, AzureEntry]:
    return {name: found for name in evaluator_names() if isinstance(found := find_evaluator(name), AzureEntry)}


def options(entry: AzureEntry) -> dict[str, Any]:
    return {"tool_definitions": TOOLS} if entry.options else {}


def judged(scale: tuple[int, int]) -> Callable[[Request], Answer]:
    """Answer with a score on a scale that depends on the prompt."""

    def answer(request: Request) -> Answer:
        draw = zlib.crc32(f"{request.system} {request.text}".encode())
        score = scale[0] + draw % (scale[1] - scale[0] + 1)
        return Answer(json.dumps({"reason": f"because {draw}", "score": score, "status": "completed"}))

    return answer


async def ours(models: FakeModels, name: str, entry: AzureEntry) -> EvaluationResult:
    async with opened() as wire:
        judge = JudgeModel(config(models).plan({}), wire)
        metric = AzureClassMetric(metric=name, options=options(entry))
        assert isinstance(metric, AzureClassMetric)
        return await judged_grader(metric, judge=judge).evaluate(**TEXTS, tool_invocations=CALLS)


def inputs_of(entry: AzureEntry) -> dict[str, Any]:
    inputs: dict[str, Any] = {each: TEXTS[each] for each in entry.inputs if each in TEXTS}
    if entry.takes_calls:
        inputs["response"] = agent_messages(CALLS, TEXTS["response"])
    return inputs | options(entry)


def bare(servers: Mapping[str, FakeModels], folder: Path) -> dict[str, float]:
    """Scores of the library by itself, each class with a server of its own."""
    known = entries()
    rows = [
        {"url": models.azure_url, "evaluator": name, "inputs": inputs_of(known[name])}
        for name, models in servers.items()
    ]
    scores = run_bare("tests.extensions.azure.native_classes", KEY, folder=folder, rows=rows)
    return dict(zip(servers, scores, strict=True))


def prompts(models: FakeModels) -> list[tuple[str, str]]:
    return [(request.system, request.text) for request in models.requests]


@pytest.mark.full
def test_each_class_scores_and_asks_as_the_bare_library(tmp_path: Path) -> None:
    known = entries()
    assert len(known) > 5
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve_models(answer=judged(entry.scale))) for name, entry in known.items()}
        raw = bare(servers, tmp_path)
        asked = {name: prompts(models) for name, models in servers.items()}
    for name, entry in known.items():
        with naming(name), serve_models(answer=judged(entry.scale)) as models:
            result = asyncio.run(ours(models, name, entry))
            assert asked[name] == prompts(models)
            low, high = entry.scale
            assert (result.raw_score, result.score) == (raw[name], (raw[name] - low) / (high - low))
            assert result.reasoning.startswith("because")
            if entry.reads_calls:
                assert "lookup" in "".join(asked[name][0])


def test_the_facts_that_the_package_does_not_tell_are_few_and_about_its_classes() -> None:
    """At most 12 with those of DeepEval."""
    assert {*BINARY, *ANSWER_ONLY} <= {*evaluator_names()}
    assert len(BINARY) + len(ANSWER_ONLY) <= 6


NEWER = """
from azure.ai.evaluation._evaluators._content_safety._violence import ViolenceEvaluator
from azure.ai.evaluation._evaluators._relevance import RelevanceEvaluator

class _Between(ViolenceEvaluator): pass

class ThreatEvaluator(_Between): pass

class _Closer(RelevanceEvaluator): pass

class CloserEvaluator(_Closer): pass
"""


@pytest.mark.full
def test_a_newer_class_is_refused_or_served_by_the_bases_of_its_bases(
    project: Project, suite: Any, tmp_path: Path
) -> None:
    spec = importlib.util.find_spec("azure.ai.evaluation")
    assert spec is not None
    assert spec.submodule_search_locations
    newer = tmp_path / "newer" / "azure" / "ai" / "evaluation"
    shutil.copytree(spec.submodule_search_locations[0], newer, ignore=shutil.ignore_patterns("__pycache__"))
    newer.joinpath("_newer.py").write_text(NEWER)
    with newer.joinpath("__init__.py").open("a") as init:
        init.write("\nfrom ._newer import CloserEvaluator, ThreatEvaluator\n")
    suite({"metric": "ThreatEvaluator"}, {"metric": "CloserEvaluator", "options": {"tools": []}})
    finished = project.run_process("validate", PYTHONPATH=str(tmp_path / "newer"))
    assert finished.code == 2
    assert "ThreatEvaluator cannot be used: a service of Azure computes it; write `{type: deepeval" in finished.stderr
    assert "metrics[1].options.tools: unknown key" in finished.stderr


@pytest.mark.models(answer=judged((3, 3)))
def test_intent_resolution_takes_known_calls_and_grades_without_them(project: Project, suite: Any) -> None:
    suite({"metric": "IntentResolutionEvaluator"})
    assert project.evaluate()[0].code == 0
    suite({"metric": "IntentResolutionEvaluator"}, tool_invocations=[{"name": "lookup", "args": {}, "result": "3"}])
    finished, record = project.evaluate()
    assert (finished.code, evaluations(record)[0].score) == (0, 0.5)


def test_the_table_of_the_page_lists_every_class() -> None:
    text = DOCS.read_text(encoding="utf-8")
    table = "\n".join(_table())
    start, end = text.index("| metric |"), text.index("\n\n", text.index("| metric |"))
    if os.environ.get("UPDATE_GOLDEN"):
        DOCS.write_text(text[:start] + table + text[end:], encoding="utf-8")
    else:
        assert text[start:end] == table, f"the table of {DOCS.name} differs; UPDATE_GOLDEN=1 writes it anew"


def _table() -> Iterator[str]:
    yield "| metric | reads | options | judge's scale |"
    yield "|---|---|---|---|"
    refused: dict[str, list[str]] = {}
    for name in sorted(evaluator_names()):
        found = find_evaluator(name)
        if not isinstance(found, AzureEntry):
            refused.setdefault(str(found), []).append(f"`{name}`")
            continue
        read = [each for each in found.inputs if each in TEXTS] + ["tool calls"] * found.reads_calls
        given = ", ".join(f"`{each}`, else the suite's tools" for each in found.options)
        yield f"| `{name}` | {', '.join(read)} | {given} | {found.scale[0]} to {found.scale[1]} |"
    for reason, names in sorted(refused.items()):
        yield f"| {', '.join(names)} | refused: {reason} | | |"


@pytest.fixture
def suite(project: Project, models: FakeModels) -> Callable[..., None]:
    """Write a suite with the given metrics, a judge of OpenAI, and one recorded answer."""

    def write(*metrics: Mapping[str, Any], answer: str = TEXTS["response"], **row: Any) -> None:
        judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
        given = [{"type": "azure", **each} for each in metrics]
        case = {"name": "one", "input": TEXTS["query"], "ground_truth": TEXTS["ground_truth"]}
        project.suite([case], evaluations={"model": judge, "metrics": given})
        project.policy(target="recorded:answers.jsonl")
        project.answers([{"case": "one", "response": answer, **row}])

    return write


@pytest.mark.proves("AzureClassMetric: type", "ClassMetric: metric options threshold model")
@pytest.mark.models(answer=judged((1, 1)))
def test_a_run_grades_with_any_judge_and_a_replay_asks_nobody(project: Project, models: FakeModels, suite: Any) -> None:
    tools = {"metric": "ToolCallAccuracyEvaluator", "options": {"tool_definitions": TOOLS}}
    called = [{"name": "lookup", "args": {"city": "Oslo"}, "result": "3"}]
    suite({"metric": "ResponseCompletenessEvaluator"}, {**tools, "threshold": 0.25}, tool_invocations=called)
    finished, record = project.evaluate("--record", "tape")
    assert finished.code == 1, finished.stderr
    found = evaluations(record)
    assert [(each.evaluator_name, each.score, each.criteria.threshold) for each in found] == [
        ("ResponseCompletenessEvaluator", 0, 0.5),
        ("ToolCallAccuracyEvaluator", 0, 0.25),
    ]
    asked = len(models.requests)
    assert asked == 2
    again = project.evaluate("--replay", "tape")[1]
    assert len(models.requests) == asked
    assert [each.score for each in evaluations(again)] == [0, 0]


@pytest.mark.models(answer=judged((1, 1)))
def test_unknown_or_missing_calls_are_an_error(project: Project, models: FakeModels, suite: Any) -> None:
    tools = {"metric": "ToolCallAccuracyEvaluator", "options": {"tool_definitions": TOOLS}, "threshold": 0.0}
    suite(tools)
    finished, record = project.evaluate()
    assert finished.code == 3
    assert "tool_invocations" in str(evaluations(record)[0].error)
    suite(tools, tool_invocations=[])
    finished, record = project.evaluate()
    assert finished.code == 3
    assert "gave no score" in str(evaluations(record)[0].error)
    assert models.requests == []


LOOKUP = {"name": "lookup", "description": "finds a city", "type": "function", "file": "own.py", "function": "lookup"}
CITY = {"city": {"type": "string", "description": "a town"}}


@pytest.mark.models(answer=judged((1, 1)))
def test_the_tools_of_the_agent_are_the_definitions_unless_the_option_is_given(
    project: Project, models: FakeModels, suite: Any
) -> None:
    called = [{"name": "lookup", "args": {"city": "Oslo"}, "result": "3"}]
    accuracy = {"metric": "ToolCallAccuracyEvaluator", "threshold": 0.0}
    prompt = {
        "name": "sum_up",
        "description": "sums up",
        "type": "prompt",
        "template": "{{ a }}",
        "parameters": {"a": {}},
    }
    search = {"name": "faq", "description": "searches", "type": "vectorstore", "source": "faq.txt"}
    server = {"name": "shop", "description": "a shop", "type": "mcp", "command": "npx", "args": ["shop"]}
    for tools, option, told in (
        ([{**LOOKUP, "parameters": CITY}, prompt, search], None, ("a town", "sums up", "searches")),
        ([{**LOOKUP, "parameters": CITY}], TOOLS, ("finds the forecast",)),
        ([LOOKUP], None, ()),
        ([{**LOOKUP, "parameters": CITY}, server], None, ()),
        (None, None, ()),
    ):
        suite({**accuracy, **({"options": {"tool_definitions": option}} if option else {})}, tool_invocations=called)
        written = json.loads((project.folder / "agent.yaml").read_text())
        project.write("agent.yaml", json.dumps({**written, **({} if tools is None else {"tools": tools})}, indent=1))
        project.write("own.py", "def lookup(city): ...")
        project.write("faq.txt", "Q")
        before = len(models.requests)
        finished, record = project.evaluate()
        (found,) = evaluations(record)
        assert (finished.code, len(models.requests) - before) == ((0, 1) if told else (3, 0)), finished.stderr
        assert all(each in models.requests[-1].text for each in told)
        wanted = "needs the name, description, parameters of each tool that the agent may call; the suite's `tools`"
        assert told or wanted in str(found.error)
        assert not told or [each["name"] for each in found.criteria.settings["options"]["tool_definitions"]]


@pytest.mark.models(answer=judged((5, 5)))
def test_an_empty_answer_and_a_score_off_the_scale_never_pass(project: Project, models: FakeModels, suite: Any) -> None:
    suite({"metric": "TaskAdherenceEvaluator"}, tool_invocations=[])
    finished, record = project.evaluate()
    assert finished.code == 3
    assert "score: it must be a number from 0 to 1" in str(evaluations(record)[0].error)
    asked = len(models.requests)
    suite({"metric": "RelevanceEvaluator"}, answer=" ")
    finished, record = project.evaluate()
    assert (finished.code, evaluations(record)[0].score) == (1, 0)
    assert len(models.requests) == asked


@pytest.mark.models(answer=lambda request: Answer('{"score": 3, "reason": "", "status": "completed"}'))
def test_a_score_without_a_reason_gets_a_sentence(project: Project, suite: Any) -> None:
    suite({"metric": "ResponseCompletenessEvaluator"})
    _, record = project.evaluate()
    explanation = "ResponseCompletenessEvaluator gave the score 3 (maximum 5) without an explanation"
    assert evaluations(record)[0].explanation == explanation


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"metric": "RelevanceEvaluater"}, "metric", 'is not a metric of Azure AI Evaluation, did you mean "Relevance'),
        ({"metric": "ViolenceEvaluator"}, "metric", "a service of Azure computes it; write `{type: deepeval, metric: "),
        (
            {"metric": "UngroundedAttributesEvaluator"},
            "metric",
            "write `{type: rag, metric_type: faithfulness}`",
        ),
        (
            {"metric": "GleuScoreEvaluator"},
            "metric",
            "write `{type: standard, metric: bleu}`; GLEU is a variant of BLEU",
        ),
        ({"metric": "QAEvaluator"}, "metric", "it gives several scores; list its evaluators separately"),
        ({"metric": "RelevanceEvaluator", "options": {"tools": []}}, "options.tools", "unknown key"),
    ],
)
def test_a_wrong_class_or_option_is_refused_at_its_line(
    project: Project, suite: Any, settings: dict[str, Any], place: str, message: str
) -> None:
    suite(settings)
    finished = project.run("validate")
    assert finished.code == 2
    assert f"evaluations.metrics[0].{place}: " in finished.stderr
    assert message in finished.stderr
