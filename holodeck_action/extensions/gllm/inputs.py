"""Translates inputs from their names in gllm-evals to this package's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import DEEPEVAL_PARAMS, OTHER_NAME, EvalParam
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool
from holodeck_action.text.json_values import parse_json

MetricInput = Mapping[str, Any]
_NAMES: Mapping[str, EvalParam] = {
    "retrieved_context": EvalParam.RETRIEVAL_CONTEXT,
    "agent_trajectory": EvalParam.TOOL_INVOCATIONS,
    "tools_called": EvalParam.TOOL_INVOCATIONS,
    "expected_agent_trajectory": EvalParam.EXPECTED_TRAJECTORY,
}
_GLLM_NAMES: Mapping[EvalParam, str] = {
    **{OTHER_NAME[param]: param.value for param in DEEPEVAL_PARAMS},
    # Of two names of an input, the first.
    **{param: name for name, param in reversed([*_NAMES.items()])},
}
_ARGUMENTS = ("args", "arguments", "input_parameters")
_RESULTS = ("result", "output")


class RetrievalData(TypedDict):
    """Inputs for retrieval metrics: retrieved ids (ranked, or `{id: score}`) and relevant ids (or `{id: gain}`)."""

    retrieved_chunks: Mapping[str, float] | Sequence[str]
    ground_truth_chunk_ids: Mapping[str, float] | Sequence[str]


class _AnswerData(TypedDict):
    input: str
    actual_output: str


class RAGData(_AnswerData, total=False):
    """Inputs for an answer, optionally with the expected answer and retrieved texts."""

    expected_output: str
    retrieved_context: str | Sequence[str]


class _ExpectedAnswerData(_AnswerData):
    expected_output: str


class GenerationData(_ExpectedAnswerData, total=False):
    """An answer and its expected answer, optionally with retrieved texts."""

    retrieved_context: str | Sequence[str]


class RetrievedData(TypedDict):
    """Inputs for retrieved texts, with the answer that they should support."""

    input: str
    expected_output: str
    retrieved_context: str | Sequence[str]


class AgentData(RAGData, total=False):
    """Inputs for an agent's answer and tool calls: messages with `tool_calls`, or mappings with `name` and `args`."""

    agent_trajectory: Sequence[Mapping[str, Any]]
    expected_agent_trajectory: Sequence[Mapping[str, Any]]


def gllm_name(param: EvalParam) -> str:
    """Return gllm-evals' name for an input of an evaluation."""
    return _GLLM_NAMES.get(param, param.value)


def normalize_inputs(data: object) -> dict[str, Any]:
    """Return the inputs of one item under this package's names.

    Args:
        data: a mapping, or an object with attributes such as DeepEval's `LLMTestCase`.

    Raises:
        EvaluationError: a trajectory is not a list of calls (code `invalid_input`).
    """
    given: dict[str, Any] = {}
    for name, value in _named_values(data):
        if value is None:
            continue
        param = _NAMES.get(name)
        if param is EvalParam.TOOL_INVOCATIONS:
            value = [ToolInvocation(call, args or {}, result) for call, args, result in _parse_calls(value, name)]
        elif param is EvalParam.EXPECTED_TRAJECTORY or name == EvalParam.EXPECTED_TOOLS:
            value = [_expected_tool(call, args) for call, args, _ in _parse_calls(value, name)]
        elif param is EvalParam.RETRIEVAL_CONTEXT and isinstance(value, str):
            value = [value]
        given[name if param is None else param.value] = value
    return given


def _named_values(data: object) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        yield from data.items()
        return
    for name in (*_NAMES, *(param.value for param in EvalParam)):
        if hasattr(data, name):
            yield name, getattr(data, name)


def _expected_tool(name: str, args: Mapping[str, Any] | None) -> ExpectedTool:
    literal = None if args is None else {key: ArgumentMatcher("literal", value) for key, value in args.items()}
    return ExpectedTool(name, literal, match="exact")


def _parse_calls(trajectory: Any, field: str) -> list[tuple[str, dict[str, Any] | None, Any]]:
    """Return name, arguments and result of each call, in order; a result may be in a message with the role `tool`."""
    if isinstance(trajectory, str | Mapping) or not isinstance(trajectory, Sequence):
        raise _trajectory_error(field, f"it is of type {type(trajectory).__name__}")
    results = {
        entry.get("tool_call_id"): entry.get("content")
        for entry in trajectory
        if isinstance(entry, Mapping) and entry.get("role") == "tool"
    }
    found = []
    for entry in trajectory:
        if isinstance(entry, Mapping) and ("role" in entry or "tool_calls" in entry):
            for call in entry.get("tool_calls") or ():
                name, args, result = _parse_call(call, field)
                found.append((name, args, results.get(call.get("id")) if result is None else result))
        else:
            found.append(_parse_call(entry, field))
    return found


def _parse_call(call: Any, field: str) -> tuple[str, dict[str, Any] | None, Any]:
    if isinstance(call, str):
        return call, None, None

    def get(key: str) -> Any:
        return call.get(key) if isinstance(call, Mapping) else getattr(call, key, None)

    inner = get("function")
    function = inner if isinstance(inner, Mapping) else {"name": get("name")}
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise _trajectory_error(field, "a call has no name")
    args = next((value for key in _ARGUMENTS if (value := function.get(key, get(key))) is not None), None)
    if isinstance(args, str):
        try:
            args = parse_json(args, constants=True) if args.strip() else {}
        except ValueError:
            raise _trajectory_error(field, f"the arguments of {name:.80} are not JSON") from None
    if args is not None and not isinstance(args, Mapping):
        raise _trajectory_error(field, f"the arguments of {name:.80} are not a mapping")
    result = next((value for key in _RESULTS if (value := get(key)) is not None), None)
    return name, None if args is None else dict(args), result


def _trajectory_error(field: str, reason: str) -> EvaluationError:
    return EvaluationError(
        f"{field} must be a list of messages with tool_calls, or of calls with a name and args: {reason}",
        code="invalid_input",
    )


def has_input(inputs: Mapping[str, Any], param: EvalParam) -> bool:
    """Return whether inputs contain a parameter, under this package's or gllm-evals' name."""
    return param.value in inputs or OTHER_NAME.get(param, param).value in inputs
