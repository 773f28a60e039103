from typing import Any

import pytest
from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import BaseMetric, ExactMatchMetric, PatternMatchMetric
from deepeval.test_case import LLMTestCase
from openai import OpenAI

client = OpenAI()


class LengthMetric(BaseMetric):
    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        return float(len(test_case.actual_output or ""))


dataset = EvaluationDataset(goldens=[Golden(input="hello", expected_output="HELLO")])
app = client.responses.create
unused = PatternMatchMetric(pattern="x")
forgotten = LLMTestCase(input="forgotten", actual_output="forgotten")


@pytest.mark.parametrize("golden", dataset.goldens)
def test_app(golden: Golden) -> None:
    case = LLMTestCase(input=golden.input, actual_output=app(golden.input), expected_output=golden.expected_output)
    assert_test(case, [ExactMatchMetric(), LengthMetric()])


def test_unknown() -> None:
    for case in [LLMTestCase(input=f"{app('x')}!", actual_output="X")]:
        assert_test(case, metrics=app("metrics"))


def test_score() -> None:
    exact = ExactMatchMetric()
    answer = str(app("hello").output_text)
    case = LLMTestCase(input="hello", actual_output="", expected_output="HELLO")
    case.actual_output = answer
    exact.measure(case)
    assert exact.score > 0.5
    assert answer in ("HELLO", "Hello")[app("i") :]
