import pytest
from deepeval import assert_test
from deepeval.metrics import FaithfulnessMetric, PatternMatchMetric
from deepeval.test_case import LLMTestCase

texts = ["We open at nine."]
more = ["We open at nine.", "We close at five."]
more_yet = ["We open at nine."]
more_yet.append("We close at five.")


def test_one_text() -> None:
    case = LLMTestCase(input="When?", actual_output="At nine.", retrieval_context=texts)
    assert_test(case, [PatternMatchMetric(pattern="At nine.")])


def test_two_texts() -> None:
    case = LLMTestCase(input="When?", actual_output="At nine.", retrieval_context=more)
    assert_test(case, [PatternMatchMetric(pattern="At nine.")])


def test_texts_added_later() -> None:
    case = LLMTestCase(input="When?", actual_output="At nine.", retrieval_context=more_yet)
    assert_test(case, [PatternMatchMetric(pattern="At nine.")])


def test_wrong() -> None:
    case = LLMTestCase(input="When?", actual_output="At nine.")
    with pytest.raises(AssertionError):
        assert_test(case, [PatternMatchMetric(pattern="At ten.")])


@pytest.mark.xfail(reason="not yet")
def test_not_yet() -> None:
    case = LLMTestCase(input="When?", actual_output="At nine.", retrieval_context=["We open at nine."])
    assert_test(case, [FaithfulnessMetric()])
