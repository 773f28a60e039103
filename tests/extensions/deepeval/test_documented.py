"""The uses of judged evaluators that HoloDeck's documents show, under their import names, in plain scripts."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest.mock import patch

import pytest

from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from tests.commands.project import Project
from tests.llm.judging import asked_keys
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.llm.models.values import Reply

ROOT = Path(__file__).parents[3]


def judge(request: Request) -> Reply:
    """What a judge with sense would say about the documents' examples."""
    text, asked = request.text, asked_keys(request)
    if asked == {"steps"}:
        return {"steps": ["Look at the words.", "Look at the tone."]}
    if "score" in asked:
        return Answer('{"reason": "it is formal", "score": 8}', alternatives={"8": {"8": 0.5, "9": 0.5}})
    if asked == {"reason"}:
        return {"reason": "for these reasons"}
    if asked != {"verdicts"}:
        (key,) = asked
        return {key: ["The store is open 24/7." if "Store" in text else "We offer returns."]}
    schema = json.dumps(request.schema)
    return {"verdicts": [said(word, schema) for word in words(text)]}


pytestmark = [pytest.mark.needs("deepeval", "holodeck"), pytest.mark.models(answer=judge)]


def words(text: str) -> list[str]:
    if text.startswith("Based on the given claims"):
        return ["no" if "24/7" in text else "yes"]
    if text.startswith("Given the input, expected output"):
        return ["no", "yes"] if "Irrelevant info" in text else ["yes", "no"]
    if text.startswith("For EACH sentence"):
        return ["yes", "yes", "no"]
    if text.startswith("For the provided list"):
        return ["yes"]
    return ["no" if "Company founded" in text.rpartition("ontext:")[2] else "yes"]


def said(verdict: str, schema: str) -> dict[str, str]:
    whole = {"verdict": verdict, "reason": "Feature C is missing", "statement": "a statement"}
    return {name: value for name, value in whole.items() if f'"{name}"' in schema or schema == "null"}


def printed(folder: Path, models: FakeModels, source: str) -> Any:
    """The JSON that a script prints in this process; addresses come from the environment, as documents name none."""
    (folder / "script.py").write_text(dedent(source), encoding="utf-8")
    output, errors = io.StringIO(), io.StringIO()
    with patch.dict(os.environ, addresses(models)), chdir(folder), redirect_stdout(output), redirect_stderr(errors):
        runpy.run_path("script.py", run_name="__main__")
    return only_printed(folder, output.getvalue(), errors.getvalue())


def printed_alone(folder: Path, models: FakeModels, source: str) -> Any:
    """The JSON that a script prints in a process of its own, where it is the first to import anything."""
    (folder / "script.py").write_text(dedent(source), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **addresses(models)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return only_printed(folder, done.stdout, done.stderr)


def addresses(models: FakeModels) -> dict[str, str]:
    return {"OPENAI_BASE_URL": models.openai_url, "OLLAMA_BASE_URL": models.ollama_url}


def only_printed(folder: Path, output: str, errors: str) -> Any:
    """Return the JSON printed; nothing else was said, and no file written."""
    assert errors == ""
    assert [path.name for path in folder.iterdir()] == ["script.py"]
    return json.loads(output)


def test_the_apis_geval(tmp_path: Path, models: FakeModels) -> None:
    assert printed(
        tmp_path,
        models,
        f"""
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.deepeval import DeepEvalModelConfig, GEvalEvaluator
        from holodeck.models.llm import ProviderEnum

        config = DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key="{KEY}")
        evaluator = GEvalEvaluator(
            name="Professionalism",
            criteria="The response is professional and free of slang.",
            evaluation_params=["actual_output", "input"],
            evaluation_steps=["Look for formal language", "Look for slang"],
            model_config=config,
            threshold=0.7,
            strict_mode=False,
        )

        async def main():
            result = await evaluator.evaluate(input="Write a business email", actual_output="Dear Sir or Madam")
            print(json.dumps([
                evaluator.name, result["score"], result["passed"], result["reasoning"], result.metric_name,
                result["GEval"], result.threshold, result.evaluation_steps, dict(result.metadata),
            ]))

        asyncio.run(main())
        """,
    ) == [
        "Professionalism",
        0.85,
        True,
        "it is formal",
        "GEval",
        0.85,
        0.7,
        ["Look for formal language", "Look for slang"],
        {
            "judge": "openai/gpt-4o",
            "criteria": "The response is professional and free of slang.",
            "auto_generated_steps": False,
            "strict_mode": False,
            "log_probability_weighted": True,
        },
    ]
    (request,) = models.requests
    assert (request.provider, request.model, request.body["temperature"]) == ("openai", "gpt-4o", 0.0)


def test_the_apis_geval_with_the_default_configuration_asks_ollama(tmp_path: Path, models: FakeModels) -> None:
    assert (
        printed(
            tmp_path,
            models,
            """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.deepeval.config import DeepEvalModelConfig
        from holodeck.lib.evaluators.deepeval.geval import GEvalEvaluator

        config = DeepEvalModelConfig()
        evaluator = GEvalEvaluator(name="Professionalism", criteria="professional language", model_config=config)

        async def main():
            results = [await evaluator.evaluate(input="Write me an email", actual_output="Dear Sir") for _ in "ab"]
            print(json.dumps([
                [r["score"], r.threshold, r["passed"], r.metadata["auto_generated_steps"]] for r in results
            ]))

        asyncio.run(main())
        """,
        )
        == [[0.8, 0.5, True, True]] * 2
    )
    assert [request.model for request in models.requests] == ["gpt-oss:20b"] * 3, "steps are written once"


RAG = """
import asyncio, json
import holodeck_action.compat
from holodeck.lib.evaluators.deepeval import (
    AnswerRelevancyEvaluator,
    ContextualPrecisionEvaluator,
    ContextualRecallEvaluator,
    ContextualRelevancyEvaluator,
    DeepEvalModelConfig,
    FaithfulnessEvaluator,
)

config = DeepEvalModelConfig()

async def main():
    faithfulness = await FaithfulnessEvaluator(model_config=config, threshold=0.8).evaluate(
        input="What are the store hours?",
        actual_output="Store is open 24/7.",
        retrieval_context=["Store hours: Mon-Fri 9am-5pm"],
    )
    relevancy = await AnswerRelevancyEvaluator(model_config=config, threshold=0.7).evaluate(
        input="What is the return policy?", actual_output="We offer 30-day returns at no extra cost."
    )
    contextual = await ContextualRelevancyEvaluator(config, threshold=0.6).evaluate(
        input="What is the pricing?",
        actual_output="Basic plan is $10/month.",
        retrieval_context=["Pricing: Basic $10, Pro $25", "Company founded in 2020"],
    )
    precision = await ContextualPrecisionEvaluator(model_config=config, threshold=0.7).evaluate(
        input="What is X?",
        actual_output="X is...",
        expected_output="X is the correct definition.",
        retrieval_context=["Irrelevant info", "X is the definition"],
    )
    recall = await ContextualRecallEvaluator(config, threshold=0.8).evaluate(
        query="List all features",
        response="Features are A and B",
        ground_truth="Features are A, B, and C",
        retrieval_context=["Feature A: ...", "Feature B: ..."],
    )
    print(json.dumps([
        [r.metric_name, r["score"], r["passed"], r["reasoning"], {k: v for k, v in r.metadata.items() if k != "judge"}]
        for r in (faithfulness, relevancy, contextual, precision, recall)
    ]))

asyncio.run(main())
"""


@pytest.mark.full
def test_the_apis_rag_metrics(tmp_path: Path, models: FakeModels) -> None:
    reason = "for these reasons"
    claim = "The store is open 24/7."
    assert printed_alone(tmp_path, models, RAG) == [
        [
            "Faithfulness",
            0.0,
            False,
            reason,
            {"claims_count": 1, "supported_claims": 0, "unsupported_claims": [claim]},
        ],
        [
            "AnswerRelevancy",
            1.0,
            True,
            reason,
            {"statements_count": 1, "relevant_statements": 1, "irrelevant_statements": []},
        ],
        [
            "ContextualRelevancy",
            0.5,
            False,
            reason,
            {
                "statements_count": 2,
                "relevant_statements": 1,
                "relevant_chunks": 1,
                "total_chunks": 2,
                "irrelevant_chunk_indices": [1],
            },
        ],
        ["ContextualPrecision", 0.5, False, reason, {"precision_at_k": {"1": 0.0, "2": 0.5}}],
        [
            "ContextualRecall",
            pytest.approx(2 / 3),
            False,
            reason,
            {"expected_facts": 3, "retrieved_facts": 2, "missing_facts": ["Feature C is missing"]},
        ],
    ]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("answer_relevancy", "AnswerRelevancyEvaluator"),
        ("contextual_precision", "ContextualPrecisionEvaluator"),
        ("contextual_recall", "ContextualRecallEvaluator"),
        ("contextual_relevancy", "ContextualRelevancyEvaluator"),
        ("faithfulness", "FaithfulnessEvaluator"),
    ],
)
def test_without_a_reason_it_is_the_arithmetic(tmp_path: Path, models: FakeModels, module: str, name: str) -> None:
    reason, asked = printed(
        tmp_path,
        models,
        f"""
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.deepeval.{module} import {name}
        from holodeck.lib.evaluators.base import RetryConfig
        from holodeck.lib.evaluators.deepeval.config import DeepEvalModelConfig

        async def main():
            retries = RetryConfig(max_retries=1)
            evaluator = {name}(DeepEvalModelConfig(), include_reason=False, timeout=30.0, retry_config=retries)
            result = await evaluator.evaluate(
                input="What is X?", actual_output="X is.", expected_output="X.", retrieval_context=["X is.", "Else."]
            )
            print(json.dumps([result["reasoning"], sorted(evaluator.required_fields)]))

        asyncio.run(main())
        """,
    )
    assert reason.startswith(name.removesuffix("Evaluator") + " is ")
    assert {"actual_output"} <= {*asked}
    assert not any(asked_keys(request) == {"reason"} for request in models.requests)


def test_the_apis_evaluator_of_ones_own(tmp_path: Path, models: FakeModels) -> None:
    assert printed(
        tmp_path,
        models,
        """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.deepeval.base import DeepEvalBaseEvaluator
        from holodeck.lib.evaluators.deepeval.config import DeepEvalModelConfig
        from holodeck.lib.evaluators.param_spec import EvalParam, ParamSpec

        class MyMetricEvaluator(DeepEvalBaseEvaluator):
            PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT}))

            def _create_metric(self):
                from deepeval.metrics import AnswerRelevancyMetric

                return AnswerRelevancyMetric(threshold=self._threshold, model=self._model)

        async def main():
            evaluator = MyMetricEvaluator(DeepEvalModelConfig(), threshold=0.7)
            result = await evaluator.evaluate(
                input="What is Python?", actual_output="Python is a programming language."
            )
            print(json.dumps([evaluator.name, result["score"], result["passed"], result["reasoning"]]))

        asyncio.run(main())
        """,
    ) == ["MyMetricEvaluator", 1.0, True, "for these reasons"]


@pytest.mark.proves("DeepEvalModelConfig: provider")
def test_the_apis_model_configurations(tmp_path: Path, models: FakeModels) -> None:
    assert printed(
        tmp_path,
        models,
        """
        import json
        import holodeck_action.compat
        from holodeck.lib.evaluators.deepeval.config import DeepEvalModelConfig
        from holodeck.models.llm import ProviderEnum

        default = DeepEvalModelConfig()
        azure = {
            "endpoint": "https://test.openai.azure.com/", "deployment_name": "judge", "api_key": "key",
        }
        configs = [
            default,
            DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key="sk-1"),
            DeepEvalModelConfig(provider=ProviderEnum.ANTHROPIC, model_name="claude-3-5-sonnet-latest", api_key="sk-2"),
            DeepEvalModelConfig(provider=ProviderEnum.AZURE_OPENAI, model_name="gpt-4o", **azure),
        ]
        refused = []
        for left_out in azure:
            try:
                DeepEvalModelConfig(
                    provider=ProviderEnum.AZURE_OPENAI,
                    model_name="gpt-4o",
                    **{name: value for name, value in azure.items() if name != left_out},
                )
            except ValueError as error:
                refused.append(f"{left_out} is required for Azure OpenAI" in str(error))
        print(json.dumps([
            [default.provider.value, default.model_name, default.temperature],
            [type(config.to_deepeval_model()).__name__ for config in configs],
            refused,
            "sk-1" in repr(configs[1]),
        ]))
        """,
    ) == [
        ["ollama", "gpt-oss:20b", 0.0],
        ["OllamaModel", "OpenAIModel", "AnthropicModel", "AzureOpenAIModel"],
        [True] * 3,
        False,
    ]


def test_a_failure_is_the_documented_error(tmp_path: Path, models: FakeModels) -> None:
    assert printed(
        tmp_path,
        models,
        """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.base import EvaluationError
        from holodeck.lib.evaluators.deepeval import DeepEvalError, DeepEvalModelConfig, FaithfulnessEvaluator
        from holodeck.models.llm import ProviderEnum

        config = DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key="sk-wrong")
        told = []

        async def main():
            evaluator = FaithfulnessEvaluator(config)
            try:
                await evaluator.evaluate(input="q", actual_output="a" * 500, retrieval_context=["c"])
            except DeepEvalError as error:
                told.extend([error.metric_name, type(error.original_error).__name__])
                told.append(isinstance(error, EvaluationError))
                told.extend(len(text) for text in error.test_case_summary.values())
            try:
                await evaluator.evaluate(input="q", actual_output="a")
            except EvaluationError as error:
                told.append(str(error))

        asyncio.run(main())
        print(json.dumps(told))
        """,
    ) == [
        "Faithfulness",
        "ModelCallError",
        True,
        1,
        # With the mark of a cut.
        201,
        "Faithfulness needs retrieval_context, which was not given",
    ]


TRACED = """
import asyncio, json
import holodeck_action.compat
from holodeck.lib.evaluators.deepeval import DeepEvalModelConfig, GEvalEvaluator
from holodeck.models.observability import TracingConfig
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
case = {"input": "q", "actual_output": "call 0800-1234", "retrieval_context": ["c"]}

configs = {
    "plain": TracingConfig(),
    "off": TracingConfig(enabled=False),
    "sampled": TracingConfig(sample_rate=0.0),
    "none": None,
    "texts": TracingConfig(capture_content=True, redaction_patterns=["[0-9]{4}-[0-9]{4}"]),
}

async def main():
    for name, config in configs.items():
        with trace.get_tracer("mine").start_as_current_span(name):
            evaluator = GEvalEvaluator(
                "Tone", "polite", None, ["Look"], DeepEvalModelConfig(), observability_config=config
            )
            await evaluator.evaluate(**case)

asyncio.run(main())
spans = kept.get_finished_spans()
names = {span.context.span_id: span.name for span in spans}
print(json.dumps([
    [names[span.parent.span_id], dict(span.attributes)] for span in spans if span.name == "evaluate Tone"
]))
"""


@pytest.mark.full
@pytest.mark.proves("DeepEvalBaseEvaluator: observability_config")
def test_observability_config_opens_a_span_per_evaluation(tmp_path: Path, models: FakeModels) -> None:
    (plain, found), (texts, attributes) = printed_alone(tmp_path, models, TRACED)
    assert (plain, texts) == ("plain", "texts")
    assert found == {
        "openinference.span.kind": "EVALUATOR",
        "gen_ai.evaluation.name": "Tone",
        "gen_ai.evaluation.score.value": 0.8,
        "gen_ai.evaluation.score.label": "pass",
    }
    # Texts are held only where they are wanted.
    inputs = json.loads(attributes["holodeck_action.evaluation.inputs"])
    assert inputs == {"input": "q", "actual_output": "call ***", "retrieval_context": ["c"]}
    assert attributes["gen_ai.evaluation.explanation"] == "it is formal"


# -- the documents' YAML, through the command line


def evaluations(record: Record) -> dict[str, list[Evaluation]]:
    return {case.name or "": [*case.trials[0].turns[0].evaluations] for case in record.cases}


def conversing(request: Request) -> Reply:
    if request.system:
        return "We offer a 30-day money-back guarantee on all products."
    return judge(request)


COMPLETE = """
name: customer-support-agent
model: {provider: openai, name: gpt-4o}
instructions: {inline: Help customers.}
evaluations:
  model: {provider: openai, name: gpt-4o, temperature: 0.0}
  metrics:
    - {type: standard, metric: bleu, threshold: 0.4}
    - {type: standard, metric: rouge, threshold: 0.5}
    - type: geval
      name: Helpfulness
      criteria: "The response is actionable"
      evaluation_params: [actual_output, input]
      threshold: 0.7
    - {type: rag, metric_type: faithfulness, threshold: 0.8, include_reason: true}
test_cases:
  - name: Refund policy question
    input: What is your refund policy?
    ground_truth: We offer a 30-day money-back guarantee on all products.
    retrieval_context:
      - "Refund Policy: All products come with a 30-day money-back guarantee."
      - "Returns must be initiated within 30 days of purchase."
  - name: Product recommendation
    input: I need a laptop for video editing
    expected_tools: [search_products, get_specifications]
    evaluations:
      - {type: geval, name: TechnicalAccuracy, criteria: "The specifications are right", threshold: 0.8}
"""


def test_the_apis_complete_agent(project: Project, models: FakeModels) -> None:
    models.answer(conversing)
    project.write("agent.yaml", COMPLETE)
    finished, record = project.evaluate(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=models.openai_url)
    # No tool is there to be called.
    assert finished.code == 1, finished.stdout + finished.stderr
    found = evaluations(record)
    assert [(each.evaluator_name, each.score) for each in found["Refund policy question"]] == [
        ("bleu", 1.0),
        ("rouge", 1.0),
        ("Helpfulness", 0.85),
        ("faithfulness", 1.0),
    ]
    assert [(each.evaluator_name, each.score) for each in found["Product recommendation"]] == [
        ("TechnicalAccuracy", 0.85)
    ]


JUDGED = """
name: judged
model: {provider: openai, name: gpt-4o}
instructions: {inline: Help customers.}
evaluations:
  model: {provider: openai, name: gpt-4o, temperature: 0.0}
  metrics:
    - {type: rag, metric_type: faithfulness, threshold: 0.8, include_reason: true}
    - {type: rag, metric_type: answer_relevancy, threshold: 0.7}
    - {type: rag, metric_type: contextual_relevancy, threshold: 0.6}
    - {type: rag, metric_type: contextual_precision, threshold: 0.7}
    - {type: rag, metric_type: contextual_recall, threshold: 0.6}
    - type: geval
      name: Professionalism
      criteria: |
        The response is professional
        and free of slang.
      evaluation_steps: [Look for formal language, Look for slang, Look at the tone]
      evaluation_params: [actual_output, input]
      threshold: 0.7
      strict_mode: false
test_cases:
  - input: What is your refund policy?
    ground_truth: We offer a 30-day money-back guarantee on all products.
    retrieval_context: ["Refund Policy: a 30-day money-back guarantee.", "Returns within 30 days."]
"""


def test_the_apis_judged_metrics_in_yaml(project: Project, models: FakeModels) -> None:
    models.answer(conversing)
    project.write("agent.yaml", JUDGED)
    finished, record = project.evaluate(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=models.openai_url)
    assert finished.code in (0, 1), finished.stdout + finished.stderr
    (found,) = evaluations(record).values()
    assert [(each.evaluator_name, each.criteria.threshold) for each in found] == [
        ("faithfulness", 0.8),
        ("answer_relevancy", 0.7),
        ("contextual_relevancy", 0.6),
        ("contextual_precision", 0.7),
        ("contextual_recall", 0.6),
        ("Professionalism", 0.7),
    ]
    assert all(each.score is not None and each.explanation for each in found)
    assert {each.metadata["judge"] for each in found} == {"openai/gpt-4o"}
    assert found[-1].score == 0.85
    assert any(
        "Look at the tone" in request.text and "free of slang" not in request.text for request in models.requests
    )


LEVELS = """
name: three-levels
model: {provider: openai, name: agents-own}
instructions: {inline: Help customers.}
evaluations:
  model: {provider: ollama, name: "llama3.2:latest", temperature: 0.0}
  metrics:
    - type: rag
      metric_type: faithfulness
      threshold: 0.9
      model: {provider: openai, name: gpt-4}
    - {type: geval, name: Coherence, criteria: The response is clear., threshold: 0.75}
test_cases:
  - {input: Hello, retrieval_context: [a text]}
"""


@pytest.mark.proves("EvaluationConfig: model", "RagMetric: model")
def test_the_guides_three_levels_of_models(project: Project, models: FakeModels) -> None:
    models.answer(conversing)
    addresses = {"OPENAI_BASE_URL": models.openai_url, "OLLAMA_BASE_URL": models.ollama_url, "OPENAI_API_KEY": KEY}
    project.write("agent.yaml", LEVELS)
    finished, record = project.evaluate(**addresses)
    assert finished.code == 0, finished.stdout + finished.stderr
    (found,) = evaluations(record).values()
    assert {each.evaluator_name: each.metadata["judge"] for each in found} == {
        "faithfulness": "openai/gpt-4",
        "Coherence": "ollama/llama3.2:latest",
    }
    # Without the two upper levels it is the agent's own model.
    lines = [line for line in LEVELS.splitlines() if "model: {provider: o" not in line or "agents-own" in line]
    project.write("agent.yaml", "\n".join(lines))
    finished, record = project.evaluate(**addresses)
    assert finished.code == 0, finished.stdout + finished.stderr
    (found,) = evaluations(record).values()
    assert {each.metadata["judge"] for each in found} == {"openai/agents-own"}
