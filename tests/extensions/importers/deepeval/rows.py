import pytest
from deepeval import assert_test, evaluate
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase
from shop import names

ROWS = [("one", "1", "1"), pytest.param("two", "2", "3", id="wrong")]


@pytest.mark.parametrize("question, answer, expected", ROWS)
def test_rows(question: str, answer: str, expected: str) -> None:
    case = LLMTestCase(input=question, actual_output=answer, expected_output=expected)
    assert_test(case, [ExactMatchMetric()])


@pytest.mark.parametrize("answer", ["7", pytest.param("8")])
@pytest.mark.parametrize(["question", "expected"], [["seven", "7"], ["eight", "8"]])
def test_product(question: str, answer: str, expected: str) -> None:
    assert_test(LLMTestCase(input=question, actual_output=answer, expected_output=expected), [ExactMatchMetric()])


def test_loop() -> None:
    for question, answer in [("three", "3"), ("four", "IV")]:
        evaluate([LLMTestCase(input=question, actual_output=answer, expected_output="3")], [ExactMatchMetric()])


@pytest.mark.parametrize("question, answer", [("five", "5"), ("six",)])
def test_short_row(question: str, answer: str) -> None:
    assert_test(LLMTestCase(input=question, actual_output=answer, expected_output="5"), [ExactMatchMetric()])


@pytest.mark.parametrize("question, answer", names())
def test_computed(question: str, answer: str) -> None:
    assert_test(LLMTestCase(input=question, actual_output=answer, expected_output="5"), [ExactMatchMetric()])
