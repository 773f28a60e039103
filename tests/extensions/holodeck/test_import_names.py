"""The documented import names, in plain scripts and in worker processes, as real processes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import get_args

import pytest

from holodeck_action import compat
from holodeck_action.extensions.deepeval.metrics_rag import RagName
from holodeck_action.suite.model.providers import COMPATIBLE, ProviderEnum, ProviderName, RAGMetricType
from tests.workers.support import graded, write

ROOT = Path(__file__).parents[2]


def script(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a user in their folder, where our package is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.py").write_text(dedent(source), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def printed(folder: Path, source: str) -> object:
    """The JSON that a script prints; it must succeed."""
    done = script(folder, source)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_us_the_names_do_not_exist(tmp_path: Path) -> None:
    assert "No module named 'holodeck'" in script(tmp_path, "import holodeck").stderr


@pytest.mark.parametrize("module", sorted(compat.served_names()))
def test_every_name_is_there(module: str) -> None:
    served = importlib.import_module(module)
    for name, source in compat.served_names()[module].items():
        home, _, own = source.partition(":")
        assert getattr(served, name) is getattr(importlib.import_module(home), own)
        assert name in dir(served)
    assert served.__all__ == sorted(compat.served_names()[module])


def test_the_guides_grader_in_a_worker(tmp_path: Path) -> None:
    """The grader contract: documented import, frozen context, tool invocations, turn_config, GraderResult."""
    write(
        tmp_path,
        """
        from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

        def subtracted(ctx: GraderContext) -> GraderResult:
            wanted = {"a": ctx.turn_config.get("expected_a"), "b": ctx.turn_config.get("expected_b")}
            for call in ctx.tool_invocations:
                if call.name == "subtract" and {"a": call.args.get("a"), "b": call.args.get("b")} == wanted:
                    return GraderResult(score=1.0, passed=True, reason="the call is there")
            return GraderResult(score=0.0, passed=False, reason="the call is missing")
        """,
        "graders.exact_tool_call",
    )
    call = {"name": "subtract", "args": {"a": 60.94, "b": 25.14}, "result": "35.8"}
    config = {"expected_a": 60.94, "expected_b": 25.14}
    right = graded(tmp_path, "graders.exact_tool_call:subtracted", tool_invocations=[call], turn_config=config)
    wrong = graded(tmp_path, "graders.exact_tool_call:subtracted", tool_invocations=[], turn_config=config)
    assert (right.value["passed"], right.value["reason"]) == (True, "the call is there")
    assert (wrong.value["passed"], wrong.value["reason"]) == (False, "the call is missing")


def test_a_grader_can_be_tried_in_a_plain_script(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

        def long_enough(ctx: GraderContext) -> GraderResult | bool | float:
            return len(ctx.agent_response) / 10
        """,
        "graders.length",
    )
    assert (
        printed(
            tmp_path,
            """
            import holodeck_action.compat
            from graders.length import GraderContext, long_enough

            print(long_enough(GraderContext(turn_input="a", agent_response="twelve", ground_truth=None)))
            """,
        )
        == 0.6
    )


def test_graders_can_use_the_documented_evaluators(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        from holodeck.lib.evaluators.nlp_metrics import BLEUEvaluator

        async def similar(ctx):
            result = await BLEUEvaluator(threshold=0.3).evaluate(
                response=ctx.agent_response, ground_truth=ctx.ground_truth
            )
            return result["bleu"]
        """,
    )
    outcome = graded(tmp_path, "similar", agent_response="the cat sat on the mat", ground_truth="the cat is on the mat")
    assert outcome.value["score"] == pytest.approx(0.379918, abs=1e-6)


def test_the_apis_text_metrics(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.nlp_metrics import BLEUEvaluator, METEOREvaluator, ROUGEEvaluator

        async def main():
            texts = {"response": "The cat sat on the mat", "ground_truth": "The cat is on the mat"}
            bleu = await BLEUEvaluator(threshold=0.5).evaluate(**texts)
            rouge = await ROUGEEvaluator(threshold=0.6, variant="rougeL").evaluate(**texts)
            scores = [round(bleu["bleu"], 6), rouge["rouge1"], rouge["rouge2"]]
            print(json.dumps([*scores, bleu["passed"], rouge["passed"]]))

        asyncio.run(main())
        """,
    ) == [0.379918, pytest.approx(5 / 6), pytest.approx(0.6), False, True]


def test_the_apis_evaluator_of_ones_own(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.base import BaseEvaluator, EvaluationError, RetryConfig
        from holodeck.lib.evaluators.param_spec import DEEPEVAL_PARAMS, EvalParam, ParamSpec

        class MyEvaluator(BaseEvaluator):
            PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}))

            async def _evaluate_impl(self, **kwargs):
                return {"score": 0.85, "passed": True}

        async def main():
            evaluator = MyEvaluator(timeout=30.0, retry_config=RetryConfig(max_retries=3, base_delay=2.0))
            result = await evaluator.evaluate(query="test", response="answer")
            try:
                await evaluator.evaluate(query="test")
            except EvaluationError as error:
                missing = str(error)
            print(json.dumps([
                result["score"], result["passed"], missing, MyEvaluator.get_param_spec().uses_deepeval_params(),
                EvalParam.INPUT in DEEPEVAL_PARAMS, evaluator.name,
            ]))

        asyncio.run(main())
        """,
    ) == [
        0.85,
        True,
        "MyEvaluator needs response (or actual_output), which was not given",
        False,
        True,
        "MyEvaluator",
    ]


@pytest.mark.full
def test_the_apis_configuration_models(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import json
        import holodeck_action.compat
        from holodeck.models.evaluation import (
            CodeMetric, EvaluationConfig, EvaluationMetric, GEvalMetric, MetricType, RAGMetric, RAGMetricType
        )
        from holodeck.models.llm import LLMProvider, ProviderEnum
        from holodeck.models.test_case import Turn

        metric = GEvalMetric(
            name="Professionalism", criteria="Evaluate if the response uses professional language", threshold=0.7
        )
        rag = RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=0.8)
        config = EvaluationConfig(
            model=LLMProvider(provider=ProviderEnum.OPENAI, name="gpt-4o", temperature=0.0),
            metrics=[metric, rag, EvaluationMetric(metric="bleu", threshold=0.4), CodeMetric(grader="a.b:c")],
        )
        turn = Turn(input="And in 2005?", ground_truth="25.14", turn_config={"turn_program": "25.14"})
        print(json.dumps([
            [item.type for item in config.metrics], rag.metric_type == RAGMetricType.FAITHFULNESS,
            config.model.provider == ProviderEnum.OPENAI, ProviderEnum.OPENAI.value, turn.turn_config,
            metric.evaluation_params,
        ]))
        """,
    ) == [["geval", "rag", "standard", "code"], True, True, "openai", {"turn_program": "25.14"}, ["actual_output"]]


def test_the_apis_comparisons_and_errors(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import asyncio, json
        import holodeck_action.compat
        from holodeck.lib.evaluators.base import EvaluationError
        from holodeck.lib.evaluators.deepeval.errors import DeepEvalError, ProviderNotSupportedError
        from holodeck.lib.evaluators.deterministic import EqualityEvaluator, NumericEvaluator
        from holodeck.lib.evaluators.nlp_metrics import NLPMetricsError

        async def main():
            equal = await EqualityEvaluator(case_insensitive=True).evaluate(response="YES", ground_truth="yes")
            near = await NumericEvaluator(relative_tolerance=0.01).evaluate(response="60.9", ground_truth="60.94")
            judge = DeepEvalError("broken", metric_name="Faithfulness", original_error=ValueError("x"))
            provider = ProviderNotSupportedError("no", "GroundednessEvaluator", "ollama", ["azure_openai"])
            print(json.dumps([
                equal["score"], near["passed"], judge.metric_name, judge.test_case_summary,
                provider.supported_providers, isinstance(judge, EvaluationError), isinstance(provider, EvaluationError),
                issubclass(NLPMetricsError, EvaluationError),
            ]))

        asyncio.run(main())
        """,
    ) == [1.0, True, "Faithfulness", {}, ["azure_openai"], True, True, True]


def test_the_enumerations_are_the_formats() -> None:
    assert {member.value for member in ProviderEnum} == set(get_args(ProviderName)) - set(COMPATIBLE)
    assert {member.value for member in RAGMetricType} == set(get_args(RagName))


def test_nothing_is_imported_before_it_is_used(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import json, sys
        import holodeck_action.compat
        import holodeck.models.evaluation
        loaded = [name for name in sys.modules if name.startswith(("holodeck_action.", "pydantic"))]
        print(json.dumps(sorted(name for name in loaded if not name.startswith("holodeck_action.extensions"))))
        others = [name for name in loaded if name.startswith("holodeck_action.extensions.") and name.count(".") > 2]
        assert all(name.endswith(".manifest") for name in others), others
        """,
    ) == [
        "holodeck_action.compat",
        "holodeck_action.seam",
        "holodeck_action.seam.manifest",
        "holodeck_action.seam.registry",
    ]


def test_unknown_names_fail_as_usual(tmp_path: Path) -> None:
    missing_name = script(tmp_path, "import holodeck_action.compat\nfrom holodeck.models.llm import Nothing").stderr
    assert "ImportError: cannot import name 'Nothing' from 'holodeck.models.llm'" in missing_name
    missing_module = script(tmp_path, "import holodeck_action.compat\nimport holodeck.models.nothing").stderr
    assert "ModuleNotFoundError: No module named 'holodeck.models.nothing': it is not known to this" in missing_module


@pytest.mark.parametrize(
    ("real", "served"), [("holodeck.lib", "holodeck.models.evaluation"), ("gllm_evals.lib", "gllm_evals.evaluator")]
)
def test_the_real_package_wins(tmp_path: Path, real: str, served: str) -> None:
    root, other = real.partition(".")[0], served.rpartition(".")[0] if served.count(".") > 1 else served
    write(tmp_path, "", f"{root}.__init__")
    write(tmp_path, "VERSION = 'real'\n", real)
    done = script(tmp_path, f"import holodeck_action.compat, {real}\nprint({real}.VERSION)")
    assert done.stdout == "real\n"
    done = script(tmp_path, f"import holodeck_action.compat, {real}\nimport {served}")
    assert f"ModuleNotFoundError: No module named '{other}'" in done.stderr


def test_a_mere_folder_of_that_name_hides_nothing(tmp_path: Path) -> None:
    """A repository may keep its agent in `holodeck/`: its modules and ours are both found."""
    write(
        tmp_path,
        """
        from holodeck.lib.test_runner.code_grader import GraderResult

        def check(ctx):
            return GraderResult(1.0)
        """,
        "holodeck.graders",
    )
    assert graded(tmp_path, "holodeck.graders:check").value["score"] == 1.0
