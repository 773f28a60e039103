from typing import Any

import pytest
from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import BaseMetric, ExactMatchMetric, PatternMatchMetric
from deepeval.test_case import LLMTestCase


def app(question: str) -> str:
    return question.upper()


class LengthMetric(BaseMetric):
    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        return float(len(test_case.actual_output or ""))


dataset = EvaluationDataset(goldens=[Golden(input="hello", expected_output="HELLO")])
unused = PatternMatchMetric(pattern="x")
forgotten = LLMTestCase(input="forgotten", actual_output="forgotten")


@pytest.mark.parametrize("golden", dataset.goldens)
def test_app(golden: Golden) -> None:
    case = LLMTestCase(input=golden.input, actual_output=app(golden.input), expected_output=golden.expected_output)
    assert_test(case, [ExactMatchMetric(), LengthMetric()])


def test_unknown() -> None:
    for case in [LLMTestCase(input=app("x"), actual_output="X")]:
        assert_test(case, metrics=list(map(type, ())))  # type: ignore[arg-type]
