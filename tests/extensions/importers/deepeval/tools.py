from deepeval import evaluate
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

called = [ToolCall(name="find_order", input_parameters={"order": "A-17"}), ToolCall(name="refund")]

evaluate(
    test_cases=[
        LLMTestCase(
            name="names",
            input="Refund A-17.",
            actual_output="Done.",
            tools_called=called,
            expected_tools=[ToolCall(name="refund"), ToolCall(name="find_order")],
        )
    ],
    metrics=[ToolCorrectnessMetric(threshold=0.9)],
)
evaluate(
    test_cases=[
        LLMTestCase(
            name="order of names",
            input="Refund A-17.",
            actual_output="Done.",
            tools_called=called,
            expected_tools=[ToolCall(name="refund"), ToolCall(name="find_order")],
        )
    ],
    metrics=[ToolCorrectnessMetric(threshold=0.9, should_consider_ordering=True)],
)
evaluate(
    test_cases=[
        LLMTestCase(
            name="arguments",
            input="Find A-17.",
            actual_output="Done.",
            tools_called=called,
            expected_tools=[ToolCall(name="find_order", input_parameters={"order": "B-4"})],
        )
    ],
    metrics=[ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])],
)
