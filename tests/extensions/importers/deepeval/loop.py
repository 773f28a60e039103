import pytest
from deepeval import assert_test, evaluate
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import AnswerRelevancyMetric, ExactMatchMetric
from deepeval.test_case import LLMTestCase
from shop import NAMES, answer

dataset = EvaluationDataset(goldens=[Golden(input=name, expected_output=name.upper()) for name in NAMES])
for golden in dataset.goldens:
    case = LLMTestCase(input=golden.input, actual_output=answer(golden.input), expected_output=golden.expected_output)
    dataset.add_test_case(case)


@pytest.fixture
def exact():
    yield ExactMatchMetric()


@pytest.mark.parametrize("test_case", dataset)
def test_shop(test_case: LLMTestCase, exact: ExactMatchMetric, relevant: AnswerRelevancyMetric) -> None:
    assert_test(test_case, [exact, relevant])
    assert exact.is_successful()


class TestAsync:
    @pytest.mark.asyncio
    async def test_golden(self) -> None:
        await ExactMatchMetric().a_measure(LLMTestCase("x", await answer.later("x"), "X"))


evaluate(dataset, metrics=[NoSuchMetric(), ExactMatchMetric()])  # noqa: F821
