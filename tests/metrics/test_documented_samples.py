"""The uses that the HoloDeck documents show, as scripts of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NLP = """
import asyncio
from holodeck_action.metrics.text_similarity import BLEUEvaluator, METEOREvaluator, ROUGEEvaluator

async def main():
    bleu = BLEUEvaluator(threshold=0.5)
    result = await bleu.evaluate(response="The cat sat on the mat", ground_truth="The cat is on the mat")
    print(f"{result['bleu']:.6f}", result["passed"])

    rouge = ROUGEEvaluator(threshold=0.6, variant="rougeL")
    result = await rouge.evaluate(response="The cat sat on the mat", ground_truth="The cat is on the mat")
    print(f"{result['rouge1']:.6f} {result['rouge2']:.6f} {result['rougeL']:.6f}", result["passed"])

    meteor = METEOREvaluator(threshold=0.7)
    result = await meteor.evaluate(response="The automobile is red", ground_truth="The car is red")
    plain = await bleu.evaluate(response="The automobile is red", ground_truth="The car is red")
    print(f"{result['meteor']:.6f}", result["meteor"] > plain["bleu"], result["passed"])

asyncio.run(main())
"""

SUBCLASS = """
import asyncio
from holodeck_action.metrics.base import BaseEvaluator, EvalParam, ParamSpec

class MyEvaluator(BaseEvaluator):
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}))

    async def _evaluate_impl(self, **kwargs):
        return {"score": 0.85, "passed": True}

async def main():
    evaluator = MyEvaluator(timeout=30.0)
    result = await evaluator.evaluate(query="test", response="answer")
    print(evaluator.name, evaluator.timeout, result["score"], result["passed"])
    print((await evaluator.evaluate(input="test", actual_output="answer"))["score"])
    print(sorted(param.value for param in evaluator.get_param_spec().required))

asyncio.run(main())
"""

SETTINGS = """
from holodeck_action.metrics.base import EvalParam, ParamSpec, RetryConfig
from holodeck_action.metrics.text_similarity import BLEUEvaluator

config = RetryConfig(max_retries=3, base_delay=2.0)
print(list(config.delays()), config.max_delay, config.exponential_base)
evaluator = BLEUEvaluator(threshold=0.5, timeout=None, retry_config=config)
print(evaluator.threshold, evaluator.timeout, evaluator.retry_config is config)
spec = ParamSpec(
    required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}),
    optional=frozenset({EvalParam.CONTEXT}),
    uses_context=True,
)
print(spec.uses_deepeval_params(), spec.uses_context, spec.uses_retrieval_context)
"""


@pytest.mark.parametrize(
    ("script", "output"),
    [
        (NLP, "0.379918 False\n0.833333 0.600000 0.833333 True\n0.638889 True False\n"),
        (SUBCLASS, "MyEvaluator 30.0 0.85 True\n0.85\n['query', 'response']\n"),
        (SETTINGS, "[2.0, 4.0] 60.0 2.0\n0.5 None True\nFalse True False\n"),
    ],
)
def test_documented_uses(script: str, output: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(script, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=100, check=False
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == (output, "", 0)
