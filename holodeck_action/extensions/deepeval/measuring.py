"""Calls DeepEval; imported only in the process for grading libraries (see `metrics.judging.libraries`)."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from holodeck_action.extensions.deepeval import rag
from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator
from holodeck_action.extensions.deepeval.conversation import ConversationEvaluator
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.extensions.deepeval.rubric import RubricLevel
from holodeck_action.extensions.deepeval.stand_ins import stand_ins
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.libraries import LibraryJudge


def _import_deepeval() -> tuple[Any, Any]:
    """Import DeepEval without the packages of its unused model clients; if that fails, import it with them.

    Raises:
        EvaluationError: DeepEval cannot be imported.
    """
    imported: list[str] = []
    try:
        with stand_ins("aiohttp", "anthropic", "openai") as imported:
            return load_module("deepeval.metrics"), load_module("deepeval.test_case")
    except EvaluationError:
        if not imported:
            raise
        # A version of DeepEval that uses the clients on import.
        for name in [name for name in sys.modules if name.split(".")[0] == "deepeval"]:
            del sys.modules[name]
        return load_module("deepeval.metrics"), load_module("deepeval.test_case")


_metrics, _cases = _import_deepeval()

_EVALUATORS: Mapping[str, type[DeepEvalBaseEvaluator]] = {
    kind.__name__: kind
    for kind in (
        ClassEvaluator,
        ConversationEvaluator,
        GEvalEvaluator,
        rag.AnswerRelevancyEvaluator,
        rag.ContextualPrecisionEvaluator,
        rag.ContextualRecallEvaluator,
        rag.ContextualRelevancyEvaluator,
        rag.FaithfulnessEvaluator,
    )
}


async def evaluate(request: Mapping[str, Any], judge: LibraryJudge) -> Any:
    """Run a metric of DeepEval.

    Args:
        request: `{evaluator, arguments, case, steps}`: name and constructor arguments of our evaluator class, the
            fields of the test case, and the steps of a G-Eval; if `case` is missing, the judge only writes the steps.
            For tool correctness, which needs no judge, `{calls, …}`; see `_compare_tool_calls`.
        judge: the judge to call.

    Returns:
        Fields of `EvaluationResult`, the steps, or the result of `_compare_tool_calls`.
    """
    if "calls" in request:
        # A thread, so that other evaluations continue.
        return await asyncio.to_thread(_compare_tool_calls, request)
    evaluator = _build_evaluator(request)
    if "case" not in request:
        assert isinstance(evaluator, GEvalEvaluator)
        return await evaluator.write_steps(judge)
    result = await evaluator.measure_case(request["case"], judge)
    return {
        "score": result.score,
        "reasoning": result.reasoning,
        "raw_score": result.raw_score,
        "evaluation_steps": result.evaluation_steps,
        "metadata": dict(result.metadata),
    }


def _build_evaluator(request: Mapping[str, Any]) -> DeepEvalBaseEvaluator:
    arguments = dict(request["arguments"])
    if arguments.get("rubric") is not None:
        arguments["rubric"] = [RubricLevel(**level) for level in arguments["rubric"]]
    evaluator = _EVALUATORS[request["evaluator"]](**arguments)
    if isinstance(evaluator, GEvalEvaluator) and request["steps"] is not None:
        evaluator.use_steps(request["steps"])
    return evaluator


def _compare_tool_calls(request: Mapping[str, Any]) -> dict[str, Any]:
    """Score tool calls against expected calls with DeepEval's tool correctness.

    Args:
        request: `{calls, expected, evaluation_params, options}`: tool calls as `{name, args, shown}`, with `shown` as
            their description in the reason; and settings of DeepEval's class.

    Returns:
        `{score, reason}`.
    """
    metric = _metrics.ToolCorrectnessMetric(
        evaluation_params=[_cases.ToolCallParams(name) for name in request["evaluation_params"]],
        model=_UnusedModel(),
        async_mode=False,
        **request["options"],
    )
    metric.measure(
        _cases.LLMTestCase(
            input="",
            tools_called=[_build_call(**call) for call in request["calls"]],
            expected_tools=[_build_call(**call) for call in request["expected"]],
        ),
        _show_indicator=False,
    )
    return {"score": float(metric.score), "reason": metric.reason}


class _Call(_cases.ToolCall):  # type: ignore[misc,name-defined]
    """A tool call for DeepEval, with a one-line description and a hash that is the same in every process."""

    _digest: int = 0
    _shown: str = ""

    def __hash__(self) -> int:
        return self._digest

    def __repr__(self) -> str:
        return self._shown


def _build_call(name: str, args: Mapping[str, Any] | None, label: str) -> _Call:
    call = _Call(name=name, input_parameters=args)
    call._digest = zlib.crc32(f"{name!r} {_canonical_text(args or {})}".encode("utf-8", "surrogatepass"))
    call._shown = label
    return call


def _canonical_text(value: Any) -> str:
    """Return a string that is the same for all values that are equal in Python."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{name!r}:{_canonical_text(item)}" for name, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical_text, value)) + "]"
    if isinstance(value, int | float):
        # 1, 1.0 and True are equal. Hashes of numbers are the same in every process, except that of NaN.
        return "nan" if value != value else str(hash(value))
    return repr(value)


class _UnusedModel(load_module("deepeval.models").DeepEvalBaseLLM):  # type: ignore[misc]
    """A model that is never called. If DeepEval got no model, it would look for an API key."""

    def load_model(self) -> Any:
        return self

    def get_model_name(self) -> str:
        return "no model"

    def generate(self, prompt: str, schema: Any = None) -> Any:
        raise EvaluationError("tool correctness calls no model", code="judge_failed")

    async def a_generate(self, prompt: str, schema: Any = None) -> Any:
        return self.generate(prompt, schema)
