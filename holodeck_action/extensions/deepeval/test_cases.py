"""Builds DeepEval's test cases and metrics, in the libraries' process and in workers.

Workers run in the suite's Python, which has DeepEval but may lack the packages of holodeck-action.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def build_test_case(case: Mapping[str, Any], is_traced: bool) -> Any:
    """Return DeepEval's test case.

    Args:
        case: fields of `LLMTestCase`, with the tool calls as `calls`; or of `ConversationalTestCase`, with the turns as
            `{input, response, calls, texts}`. A call is `{name, args, result, error}`.
        is_traced: whether the test case gets a trace of its calls.
    """
    from deepeval import test_case

    fields = dict(case)
    if "turns" in fields:
        turns = []
        for turn in fields.pop("turns"):
            turns += [
                test_case.Turn(role="user", content=turn["input"]),
                test_case.Turn(
                    role="assistant",
                    content=turn["response"],
                    tools_called=None if turn["calls"] is None else list(map(_tool_call, turn["calls"])),
                    retrieval_context=turn["texts"],
                ),
            ]
        return test_case.ConversationalTestCase(turns=turns, **fields)
    calls = fields.pop("calls", None)
    if calls is not None:
        fields["tools_called"] = list(map(_tool_call, calls))
    made = test_case.LLMTestCase(**fields)
    if is_traced:
        made._trace_dict = _agent_trace(made, calls or ())
    return made


def _tool_call(call: Mapping[str, Any]) -> Any:
    from deepeval.test_case import ToolCall

    return ToolCall(name=call["name"], input_parameters=call["args"], output=call["result"])


def _agent_trace(test_case: Any, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the trace that DeepEval's `@observe` records for an agent that makes these calls and then answers."""
    children = []
    for call in calls:
        span = {"name": call["name"], "type": "tool", "input": call["args"]}
        ended = {"error": call["error"]} if call["error"] is not None else {"output": call["result"]}
        span.update((name, value) for name, value in ended.items() if value is not None)
        children.append({**span, "children": []})
    return {
        "name": "agent",
        "type": "agent",
        "input": {"input": test_case.input},
        "output": test_case.actual_output,
        **({"tools_called": test_case.tools_called} if calls else {}),
        "available_tools": [],
        "agent_handoffs": [],
        "children": children,
    }


def build_metric(
    kind: Any, options: Mapping[str, Any], text_options: Collection[str], threshold: float | None, **more: Any
) -> Any:
    """Return a metric.

    Args:
        kind: the metric's class.
        options: arguments of its constructor as JSON values; they are converted to the types that it declares, such as
            enums.
        text_options: names of the arguments that are not converted.
        threshold: the threshold, which is an argument of most constructors.
        **more: arguments that are not JSON values, such as the model.
    """
    import inspect
    from typing import get_type_hints

    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        hints = get_type_hints(kind.__init__)
    except NameError:
        # A type that is imported for type checkers alone.
        hints = {}
    given = dict(more)
    for name, value in options.items():
        try:
            given[name] = (
                value if name in text_options or name not in hints else TypeAdapter(hints[name]).validate_python(value)
            )
        except PydanticSchemaGenerationError:
            given[name] = value
    takes_threshold = "threshold" in inspect.signature(kind.__init__).parameters
    made = kind(**given, **({"threshold": threshold} if takes_threshold else {}))
    if not takes_threshold:
        made.threshold = threshold
    return made
