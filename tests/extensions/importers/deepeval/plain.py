from deepeval import assert_test
from deepeval.metrics import ExactMatchMetric, PatternMatchMetric
from deepeval.test_case import LLMTestCase

exact = ExactMatchMetric()


def test_hours() -> None:
    case = LLMTestCase(input="When do you open?", actual_output=" At nine.\n", expected_output="At nine.")
    assert_test(case, [exact, PatternMatchMetric(pattern=r"at \w+\.", ignore_case=True)])


def test_wrong_hours() -> None:
    case = LLMTestCase(input="When do you close?", actual_output="At ten.", expected_output="At five.")
    assert_test(test_case=case, metrics=[exact])


def test_pattern() -> None:
    order = "A-17"
    case = LLMTestCase("Where is order " + "A-17?", f"{order} is in Leeds")
    assert_test(case, [PatternMatchMetric(r"A-\d+ is in \w+")])


def test_half_a_pattern() -> None:
    case = LLMTestCase(input="Where is it?", actual_output="A-17 is in Leeds, I think")
    assert_test(case, [PatternMatchMetric(pattern=r"A-\d+ is in \w+")])
