"""Evaluation parameters: their names in both conventions, and the parameters that an evaluator declares.

Source: HoloDeck evaluation API, Parameter Specification.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

Choice = TypeVar("Choice", bound=str)


class EvalParam(StrEnum):
    """Names of evaluation parameters.

    The first three are the names in the convention of Azure AI and NLP metrics; the next three are DeepEval's names for
    the same parameters. Both conventions share `context` and `retrieval_context`. Only this package has the other
    names.
    """

    RESPONSE = "response"
    QUERY = "query"
    GROUND_TRUTH = "ground_truth"
    ACTUAL_OUTPUT = "actual_output"
    INPUT = "input"
    EXPECTED_OUTPUT = "expected_output"
    CONTEXT = "context"
    RETRIEVAL_CONTEXT = "retrieval_context"
    TOOL_INVOCATIONS = "tool_invocations"
    EXPECTED_TOOLS = "expected_tools"
    EXPECTED_TRAJECTORY = "expected_trajectory"
    RETRIEVED_CHUNKS = "retrieved_chunks"
    GROUND_TRUTH_CHUNK_IDS = "ground_truth_chunk_ids"
    TURNS = "turns"
    SIMULATED_USER = "simulated_user"
    OTHER_RESPONSE = "other_response"
    METADATA = "metadata"
    GROUND_TRUTHS = "ground_truths"


REPORT_CALLS = "give tool_invocations with the reply, an empty list if no tool was called"
UNREPORTED = f"the target does not report tool calls: {REPORT_CALLS}"
"""Message about expectations on tool calls that cannot be checked because the calls are unknown."""
CONVERSATION_CALLS = "conversation_invocations"
"""Name of the parameter of composites with the tool calls of the whole conversation, not only of the turn."""
UNKNOWN_CALLS = "unknown"
"""Value of the parameter `conversation_invocations` if the target reported no tool calls in one of the turns."""

DEEPEVAL_PARAMS = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT})

_DEEPEVAL = {
    EvalParam.RESPONSE: EvalParam.ACTUAL_OUTPUT,
    EvalParam.QUERY: EvalParam.INPUT,
    EvalParam.GROUND_TRUTH: EvalParam.EXPECTED_OUTPUT,
}
OTHER_NAME: Mapping[EvalParam, EvalParam] = _DEEPEVAL | {deepeval: nlp for nlp, deepeval in _DEEPEVAL.items()}
"""For each parameter with two names, by either name, the name in the other convention."""


class ParamSpec(NamedTuple):
    """The parameters of an evaluator.

    Attributes:
        required: parameters without which the evaluator cannot evaluate.
        optional: parameters that the evaluator uses if they are given.
        uses_context: whether the evaluator receives the text of the case's files as `context`.
        uses_retrieval_context: whether the evaluator receives the retrieved context as `retrieval_context`.
        known: optional parameters that may be empty; in a run, it is an error if the target does not report them.
    """

    required: frozenset[EvalParam] = frozenset()
    optional: frozenset[EvalParam] = frozenset()
    uses_context: bool = False
    uses_retrieval_context: bool = False
    known: frozenset[EvalParam] = frozenset()

    def uses_deepeval_params(self) -> bool:
        """Return whether a declared parameter has a DeepEval name."""
        return bool((self.required | self.optional) & DEEPEVAL_PARAMS)


def aggregate_fields(required_fields: Iterable[set[str]], mode: str) -> set[str]:
    """Combine the required fields of several metrics.

    Args:
        required_fields: required field names per metric.
        mode: `union` (needed by any), `intersection` (needed by all), or `any` (an empty set: nothing is checked).

    Raises:
        ValueError: the mode is unknown.
    """
    sets = list(required_fields)
    if mode == "any" or (not sets and mode in ("union", "intersection")):
        return set()
    if mode == "union":
        return set().union(*sets)
    if mode == "intersection":
        return set.intersection(*sets)
    raise ValueError(f"mode must be one of any, union, intersection, not {mode!r:.40}")


@lru_cache(maxsize=256)
def declared_names(spec: ParamSpec) -> Mapping[str, str]:
    """Return a mapping from every name under which a parameter may be given to its declared name."""
    declared = spec.required | spec.optional
    names = {param.value: param.value for param in declared}
    for param in declared:
        other = OTHER_NAME.get(param)
        if other is not None:
            names.setdefault(other.value, param.value)
    return names


def require_choice(name: str, value: Choice, allowed: Sequence[str]) -> Choice:
    """Return `value` after checking that it is one of the allowed options.

    Raises:
        ValueError: the value is not allowed.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r:.80}")
    return value
