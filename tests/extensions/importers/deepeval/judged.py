from deepeval import assert_test
from deepeval.metrics import (
    AnswerRelevancyMetric,
    BiasMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
    FaithfulnessMetric,
    GEval,
    HallucinationMetric,
    SummarizationMetric,
    ToxicityMetric,
)
from deepeval.test_case import LLMTestCase, SingleTurnParams

case = LLMTestCase(
    input="When do you open?",
    actual_output="At nine.",
    expected_output="The shop opens at nine.",
    retrieval_context=["We open at nine."],
    context=["We open at nine."],
)
helpful = GEval(
    name="Helpful",
    criteria="The answer helps.",
    evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
    threshold=0.7,
    model="gpt-4.1",
)
stepwise = GEval(
    name="Right",
    evaluation_steps=["Read both.", "Compare them."],
    evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT],
    strict_mode=True,
)
contextual = GEval(
    name="Grounded",
    criteria="The answer follows from the context.",
    evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.CONTEXT],
)


def test_answer() -> None:
    retrieved = [AnswerRelevancyMetric(threshold=0.6), FaithfulnessMetric(strict_mode=True)]
    assert_test(
        case,
        [
            helpful,
            stepwise,
            contextual,
            *retrieved,
            ContextualPrecisionMetric(include_reason=False),
            ContextualRecallMetric(0.4),
            ContextualRelevancyMetric(),
            ToxicityMetric(threshold=0.2),
            SummarizationMetric(),
            HallucinationMetric(threshold=0.5),
            BiasMetric(),
        ],
    )
