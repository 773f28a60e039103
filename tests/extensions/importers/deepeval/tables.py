import pytest
from deepeval import assert_test, evaluate
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ExactMatchMetric, PatternMatchMetric
from deepeval.test_case import LLMTestCase

dataset = EvaluationDataset(
    goldens=[
        Golden(input="one", actual_output="1", expected_output="1"),
        Golden(input="two", actual_output="2", expected_output="3"),
    ]
)
cases = [
    LLMTestCase(input=golden.input, actual_output=golden.actual_output, expected_output=golden.expected_output)
    for golden in dataset.goldens
    if isinstance(golden, Golden)
]
listed = [LLMTestCase(name="three", input="three", actual_output="3", expected_output="3")]
metrics = [ExactMatchMetric()]


@pytest.mark.parametrize("golden", dataset.goldens)
def test_numbers(golden: Golden) -> None:
    case = LLMTestCase(input=golden.input, actual_output=golden.actual_output, expected_output=golden.expected_output)
    assert_test(case, [*metrics, PatternMatchMetric(pattern=r"\d")])


def test_list() -> None:
    evaluate(listed, metrics)
    for each in [LLMTestCase(input="four", actual_output="4", expected_output="IV")]:
        metrics[0].measure(each)
