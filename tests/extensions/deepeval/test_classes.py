"""Every metric class of the installed DeepEval, by `type: deepeval`: it works as the bare library does, or is refused
with a reason. The table of docs/deepeval-metrics.md comes from here.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.deepeval.catalogue import FIXED, SPEECH, CatalogueEntry, find_metric, metric_names
from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator
from holodeck_action.extensions.deepeval.conversation import ConversationEvaluator
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.exchange import Exchange
from holodeck_action.record.facts import Known, Nothing
from holodeck_action.record.record import ToolInvocation
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project, evaluations
from tests.extensions.deepeval.native_classes import CALLS, CASE, FIRST
from tests.extensions.deepeval.test_scores import config
from tests.llm.bare_library import run_bare
from tests.llm.models import KEY, Answer, FakeModels, Request, serve_models
from tests.llm.wiring import opened

DOCS = Path(__file__).parents[3] / "docs" / "deepeval-metrics.md"

ORDER = {
    "properties": {"total": {"title": "Total", "type": "integer"}},
    "required": ["total"],
    "title": "Order",
    "type": "object",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "NonAdviceMetric": {"advice_types": ["medical", "legal"]},
    "MisuseMetric": {"domain": "weather"},
    "RoleViolationMetric": {"role": "weather service"},
    "PatternMatchMetric": {"pattern": "It is .*", "ignore_case": True},
    "PromptAlignmentMetric": {"prompt_instructions": ["Be short.", "Be sure."]},
    "JsonCorrectnessMetric": {"expected_schema": ORDER},
    "ToolPermissionMetric": {"allowed_tools": ["lookup"]},
    "SummarizationMetric": {"n": 2},
    "RoleAdherenceMetric": {"chatbot_role": "weather service"},
    "TopicAdherenceMetric": {"relevant_topics": ["weather", "places"]},
    "ToolUseMetric": {"available_tools": [{"name": "lookup"}, {"name": "forecast"}]},
    "ConversationalGEval": {
        "name": "Patience",
        "criteria": "The agent is patient.",
        "evaluation_params": ["role", "content", "scenario"],
        "scenario": "A caller asks for the weather.",
    },
}
"""Options that a class requires, or without which it would find nothing."""
NOT_COMPARED = ("KnowledgeRetentionMetric",)
"""Classes whose schema OpenAI refuses when the bare library's own client sends it."""


SCORE = {"type": "object", "properties": {"reason": {"type": "string"}, "score": {"type": "integer"}}}
"""The form of a verdict that G-Eval asks for in words."""


def judged(request: Request) -> Answer:
    """Answer by the schema alone: two items in each list, and values that depend on the prompt."""
    schema = request.schema or SCORE
    return Answer(json.dumps(_value(schema, schema, request.text)))


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], prompt: str) -> Any:
    draw = zlib.crc32(prompt.encode())
    if "$ref" in schema:
        return _value(root["$defs"][schema["$ref"].rpartition("/")[2]], root, prompt)
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], root, prompt)
    if "enum" in schema:
        return schema["enum"][draw % len(schema["enum"])]
    match schema.get("type"):
        case "object":
            return {name: _value(each, root, f"{name} {prompt}") for name, each in schema.get("properties", {}).items()}
        case "array":
            return [_value(schema["items"], root, f"{number} {prompt}") for number in (1, 2)]
        case "number":
            return (draw % 5) / 4
        case "integer":
            return draw % 2
        case "boolean":
            return draw % 2 == 0
    return ("yes", "no")[draw % 2] if prompt.startswith("verdict") else f"text {draw}"


async def ours(models: FakeModels, names: list[str]) -> list[EvaluationResult]:
    calls = tuple(ToolInvocation(**call) for call in CALLS)
    async with opened() as wire:
        judge = JudgeModel(config(models).plan({}), wire)
        results = []
        for name in names:
            found = find_metric(name)
            assert isinstance(found, CatalogueEntry)
            if found.of_conversation:
                texts = tuple(CASE["retrieval_context"])
                last = Exchange(CASE["input"], CASE["actual_output"], Known(calls), Known(texts))
                hello = Exchange(FIRST["input"], FIRST["response"], Nothing(), Known(texts))
                talk = {"turns": (hello, last)}
                evaluator: ClassEvaluator = ConversationEvaluator(name, OPTIONS.get(name), judge=judge)
                results.append(await evaluator.evaluate(**talk, expected_output=CASE["expected_output"]))
            else:
                evaluator = ClassEvaluator(name, OPTIONS.get(name), judge=judge)
                results.append(await evaluator.evaluate(**CASE, tool_invocations=calls))
        return results


def bare(models: FakeModels, names: list[str], folder: Path) -> list[float]:
    rows = [{"metric": name, "options": {**OPTIONS.get(name, {}), **FIXED.get(name, {})}} for name in names]
    module = "tests.extensions.deepeval.native_classes"
    scores: list[float] = run_bare(module, models.openai_url, KEY, folder=folder, rows=rows)
    return scores


def prompts(models: FakeModels, count: int | None = None) -> list[str]:
    return sorted(_comparable(request.text) for request in models.requests[:count])


def _comparable(prompt: str) -> str:
    """A prompt; DeepEval prints the reasons of turns as a list in the order in which they were answered."""
    joins_reasons = prompt.startswith("You are an AI evaluator producing a single final explanation")
    return " ".join(sorted(re.findall(r"\w+", prompt))) if joins_reasons else prompt


@pytest.mark.full
def test_every_class_scores_and_asks_as_the_bare_library(tmp_path: Path) -> None:
    requests: dict[str, int] = {}
    results: dict[str, EvaluationResult] = {}
    served = [name for name in metric_names() if isinstance(find_metric(name), CatalogueEntry)]
    compared = [name for name in served if name not in NOT_COMPARED]
    with serve_models(answer=judged) as models:
        for name in [*compared, *NOT_COMPARED]:
            before = len(models.requests)
            (results[name],) = asyncio.run(ours(models, [name]))
            requests[name] = len(models.requests) - before
        asked = prompts(models, sum(requests[name] for name in compared))
    with serve_models(answer=judged) as models:
        scores = bare(models, compared, tmp_path)
        assert asked == prompts(models)
    assert {name: results[name].score for name in compared} == dict(zip(compared, scores, strict=True))
    assert len(set(scores)) > 3
    assert all(result.reasoning for result in results.values())
    check_table(requests)


def check_table(requests: Mapping[str, int]) -> None:
    """Check that docs/deepeval-metrics.md lists every class, as it behaved here."""
    text = DOCS.read_text(encoding="utf-8")
    table = "\n".join(_table(requests))
    start, end = text.index("| metric |"), text.index("\n\n", text.index("| metric |"))
    if os.environ.get("UPDATE_GOLDEN"):
        DOCS.write_text(text[:start] + table + text[end:], encoding="utf-8")
    else:
        assert text[start:end] == table, f"the table of {DOCS.name} differs; UPDATE_GOLDEN=1 writes it anew"


def _table(requests: Mapping[str, int]) -> Iterator[str]:
    yield "| metric | reads, besides question and answer | options | judge calls |"
    yield "|---|---|---|--:|"
    refused: dict[str, list[str]] = {}
    for name in sorted(metric_names()):
        found = find_metric(name)
        if not isinstance(found, CatalogueEntry):
            refused.setdefault(str(found), []).append(f"`{name}`")
            continue
        read = [*sorted(found.needs), *(["tool calls"] if found.reads_calls else [])]
        notes = {name: " (required)" for name, each in found.options.items() if each.required}
        notes[found.tools_option] = " (else the suite's tools)"
        options = ", ".join(f"`{name}`{notes.get(name, '')}" for name in found.options)
        yield f"| `{name}` | {', '.join(read)} | {options} | {requests[name] or ''} |"
    for reason, names in sorted(refused.items()):
        yield f"| {', '.join(names)} | refused: {reason} | | |"


def test_the_facts_that_the_library_does_not_tell_are_few_and_about_its_classes() -> None:
    """At most 12 with those of Azure AI Evaluation."""
    assert {*FIXED, *SPEECH} <= {*metric_names()}
    assert len(FIXED) + len(SPEECH) <= 6


@pytest.fixture
def suite(project: Project, models: FakeModels) -> Callable[..., None]:
    """Write a suite with the given metrics and one case."""

    def write(*metrics: dict[str, Any], answer: str = CASE["actual_output"], **row: Any) -> None:
        judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
        case = {"name": "one", "input": CASE["input"], "ground_truth": CASE["expected_output"]}
        project.suite(
            [case], evaluations={"model": judge, "metrics": [{"type": "deepeval", **each} for each in metrics]}
        )
        project.policy(target="recorded:answers.jsonl")
        project.answers([{"case": "one", "response": answer, **row}])

    return write


@pytest.mark.proves("DeepEvalClassMetric: type metric options threshold model")
@pytest.mark.models(answer=judged)
def test_a_run_records_each_class_and_a_replay_asks_nobody(project: Project, models: FakeModels, suite: Any) -> None:
    suite(
        {"metric": "BiasMetric", "threshold": 0.0},
        {"metric": "ExactMatchMetric"},
        {"metric": "ToolPermissionMetric", "options": {"allowed_tools": ["lookup"]}, "threshold": 0.5},
        {"metric": "TaskCompletionMetric", "threshold": 0.0},
        tool_invocations=[{"name": "lookup", "args": {"city": "Oslo"}, "result": "3"}],
    )
    finished, record = project.evaluate("--record", "tape")
    assert finished.code == 1, finished.stderr
    scores = {each.evaluator_name: each.score for each in evaluations(record)}
    assert scores["ExactMatchMetric"] == 0
    assert scores["ToolPermissionMetric"] == 1
    exact = next(each for each in evaluations(record) if each.evaluator_name == "ExactMatchMetric")
    assert (exact.criteria.kind, exact.criteria.metric, exact.criteria.threshold) == ("deepeval", "ExactMatchMetric", 1)
    asked = len(models.requests)
    assert asked == 5
    _, again = project.evaluate("--replay", "tape")
    assert len(models.requests) == asked
    assert [each.score for each in evaluations(again)] == [each.score for each in evaluations(record)]


@pytest.mark.models(answer=judged)
@pytest.mark.parametrize("metric", ["TaskCompletionMetric", "ArgumentCorrectnessMetric", "ToolPermissionMetric"])
def test_unknown_tool_calls_are_an_error(project: Project, models: FakeModels, suite: Any, metric: str) -> None:
    suite({"metric": metric, "threshold": 0.0, "options": OPTIONS.get(metric, {})})
    finished, record = project.evaluate()
    assert finished.code == 3
    (found,) = evaluations(record)
    assert "tool_invocations" in str(found.error)
    assert models.requests == []


@pytest.mark.models(answer=judged)
def test_an_empty_answer_scores_zero_and_asks_nobody(project: Project, models: FakeModels, suite: Any) -> None:
    suite({"metric": "ToxicityMetric"}, {"metric": "SummarizationMetric"}, answer=" ")
    finished, record = project.evaluate()
    assert finished.code == 1
    assert [(each.score, each.explanation) for each in evaluations(record)] == [(0, "the answer is empty")] * 2
    assert models.requests == []


def forgetful(request: Request) -> Answer:
    answer = json.loads(judged(request).text)
    return Answer(json.dumps({name: value[:1] if name == "verdicts" else value for name, value in answer.items()}))


@pytest.mark.models(answer=forgetful)
def test_a_missing_verdict_is_asked_for_and_then_an_error(project: Project, models: FakeModels, suite: Any) -> None:
    suite({"metric": "BiasMetric"})
    finished, record = project.evaluate()
    assert finished.code == 3
    (found,) = evaluations(record)
    assert "it holds 1 verdicts, but there must be 2" in str(found.error)
    assert len(models.requests) == 3


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        (
            {"metric": "BiasMetrik"},
            "metrics[0].metric: ",
            'BiasMetrik is not a metric of DeepEval, did you mean "BiasMetric"?',
        ),
        (
            {"metric": "DAGMetric"},
            "metrics[0].metric: ",
            "DAGMetric cannot be used: it needs a graph of Python objects; use `type: geval`",
        ),
        (
            {"metric": "BiasMetric", "options": {"strict": True}},
            "metrics[0].options.strict: ",
            'unknown key, did you mean "strict_mode"?',
        ),
        ({"metric": "MisuseMetric"}, "metrics[0].options.domain: ", "is missing (required)"),
        ({"metric": "MisuseMetric", "options": {"domain": 3}}, "metrics[0].options.domain: ", "must be text"),
        ({"metric": "BiasMetric", "options": 3}, "metrics[0].options: ", "must be a mapping"),
        (
            {"metric": "AgentLoopDetectionMetric", "options": {"check_reasoning_stagnation": True}},
            "metrics[0].options.check_reasoning_stagnation: ",
            "unknown key",
        ),
        (
            {"metric": "JsonCorrectnessMetric", "options": {"expected_schema": {"type": 3}}},
            "metrics[0].options: ",
            "expected_schema is not a JSON Schema: type: 3 is not valid",
        ),
        (
            {"metric": "JsonCorrectnessMetric", "options": {"expected_schema": "no.json"}},
            "agent.yaml:18:4: ",
            "the file no.json cannot be read",
        ),
    ],
)
def test_a_wrong_class_or_option_is_refused_at_its_line(
    project: Project, suite: Any, settings: dict[str, Any], place: str, message: str
) -> None:
    suite(settings)
    finished = project.run("validate")
    assert finished.code == 2
    assert place in finished.stderr
    assert message in finished.stderr


@pytest.mark.models(answer=judged)
def test_a_json_schema_comes_from_a_file(project: Project, suite: Any) -> None:
    suite({"metric": "JsonCorrectnessMetric", "options": {"expected_schema": "order.json"}}, answer='{"total": 3}')
    project.write("order.json", json.dumps(ORDER))
    finished, record = project.evaluate()
    assert (finished.code, evaluations(record)[0].score) == (0, 1), finished.stderr
    suite({"metric": "JsonCorrectnessMetric", "options": {"expected_schema": "order.json"}}, answer='{"total": "3"}')
    assert project.evaluate()[0].code == 1


NEWER = """
from typing import Optional
from deepeval.metrics.base_metric import BaseMetric
from deepeval.test_case import SingleTurnParams

class PolitenessMetric(BaseMetric):
    _required_params = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT]

    def __init__(self, word: str, threshold: Optional[float] = 0.5):
        self.word, self.threshold = word, threshold

    def measure(self, test_case, *args, **kwargs):
        self.score = float(self.word in test_case.actual_output)
        self.reason = f"looked for {self.word}"
        return self.score

    async def a_measure(self, test_case, *args, **kwargs):
        return self.measure(test_case)
"""


@pytest.mark.full
def test_a_class_of_a_newer_deepeval_works_without_a_change(project: Project, suite: Any, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("deepeval")
    assert spec is not None
    assert spec.submodule_search_locations
    installed, newer = Path(spec.submodule_search_locations[0]), tmp_path / "newer" / "deepeval"
    shutil.copytree(installed, newer, ignore=shutil.ignore_patterns("__pycache__"))
    newer.joinpath("metrics", "politeness.py").write_text(NEWER)
    with newer.joinpath("metrics", "__init__.py").open("a") as init:
        init.write("\nfrom .politeness import PolitenessMetric\n")
    suite({"metric": "PolitenessMetric", "options": {"word": "think"}})
    finished = project.run_process("run", "-o", "out", PYTHONPATH=str(newer.parent))
    assert finished.code == 0, finished.stderr
    (found,) = evaluations(read_record(project.out / "results.json"))
    assert (found.score, found.explanation) == (1, "looked for think")


def test_python_takes_the_same_options_with_the_same_refusals() -> None:
    from holodeck_action.metrics import DeepEval

    assert DeepEval(metric="MisuseMetric", options={"domain": "weather"}).pass_mark == 0.5
    with pytest.raises(ValueError, match=r"options.domain: is missing"):
        DeepEval(metric="MisuseMetric")
