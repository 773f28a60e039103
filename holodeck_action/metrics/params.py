"""Evaluation parameters: their names in both conventions, and what an evaluator declares about them.

Source: HoloDeck evaluation API, Parameter Specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

Choice = TypeVar("Choice", bound=str)


class EvalParam(StrEnum):
    """Names of evaluation parameters.

    The first three are the Azure AI and NLP convention, the next three the DeepEval names of the same things; both
    share `context` and `retrieval_context`. The rest are ours.
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


REPORT_CALLS = "give tool_invocations with the reply, an empty list where no tool was called"
UNREPORTED = f"the target says nothing of tool calls: {REPORT_CALLS}"
"""Why what was expected of tool calls cannot be judged, and the way out."""
CONVERSATION = "conversation_invocations"
"""Name under which composites are given the tool calls of the whole conversation beside those of the turn."""
UNKNOWN = "unknown"
"""Stands for those calls where the target said nothing of them in one of the turns."""

DEEPEVAL_PARAMS = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT})

_SAME = {
    EvalParam.RESPONSE: EvalParam.ACTUAL_OUTPUT,
    EvalParam.QUERY: EvalParam.INPUT,
    EvalParam.GROUND_TRUTH: EvalParam.EXPECTED_OUTPUT,
}
OTHER_NAME: Mapping[EvalParam, EvalParam] = _SAME | {deepeval: nlp for nlp, deepeval in _SAME.items()}
"""The name of the same parameter in the other convention."""


class ParamSpec(NamedTuple):
    """What an evaluator needs.

    Attributes:
        required: parameters without which it cannot be evaluated.
        optional: parameters it uses when they are given.
        uses_context: the text of the case's files is passed as `context`.
        uses_retrieval_context: the retrieved context is passed as `retrieval_context`.
        known: optional parameters that may be none, but not unknown: what is graded depends on which.
    """

    required: frozenset[EvalParam] = frozenset()
    optional: frozenset[EvalParam] = frozenset()
    uses_context: bool = False
    uses_retrieval_context: bool = False
    known: frozenset[EvalParam] = frozenset()

    def uses_deepeval_params(self) -> bool:
        """Tell whether any declared parameter has a DeepEval name."""
        return bool((self.required | self.optional) & DEEPEVAL_PARAMS)


def aggregate_fields(required: Iterable[set[str]], mode: str) -> set[str]:
    """Combine the required fields of several metrics.

    Args:
        required: required field names per metric.
        mode: `union` (needed by any), `intersection` (needed by all), or `any` (the empty set: nothing is checked).

    Raises:
        ValueError: another mode.
    """
    sets = list(required)
    if mode == "any" or (not sets and mode in ("union", "intersection")):
        return set()
    if mode == "union":
        return set().union(*sets)
    if mode == "intersection":
        return set.intersection(*sets)
    raise ValueError(f"mode must be one of any, union, intersection, not {mode!r:.40}")


@lru_cache(maxsize=256)
def declared_names(spec: ParamSpec) -> Mapping[str, str]:
    """Return, for every name under which a declared parameter may be given, the name the evaluator declares."""
    declared = spec.required | spec.optional
    names = {param.value: param.value for param in declared}
    for param in declared:
        other = OTHER_NAME.get(param)
        if other is not None:
            names.setdefault(other.value, param.value)
    return names


def one_of(name: str, value: Choice, allowed: Sequence[str]) -> Choice:
    """Return an option that is one of the allowed ones.

    Raises:
        ValueError: it is not.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r:.80}")
    return value
