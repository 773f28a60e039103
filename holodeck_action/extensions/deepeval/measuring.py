"""DeepEval at work, in the process of the libraries (see `metrics.judging.libraries`) and nowhere else."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from holodeck_action.extensions.deepeval import rag
from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
from holodeck_action.extensions.deepeval.library import module
from holodeck_action.extensions.deepeval.rubric import Level
from holodeck_action.extensions.deepeval.stand_ins import stand_ins
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.libraries import AskedJudge


def _imported() -> tuple[Any, Any]:
    """Import DeepEval without the clients of models that are never used here, else with them.

    Raises:
        EvaluationError: it cannot be imported.
    """
    made: list[str] = []
    try:
        with stand_ins("aiohttp", "anthropic", "openai") as made:
            return module("deepeval.metrics"), module("deepeval.test_case")
    except EvaluationError:
        if not made:
            raise
        # A version that needs more of them than their names.
        for name in [name for name in sys.modules if name.split(".")[0] == "deepeval"]:
            del sys.modules[name]
        return module("deepeval.metrics"), module("deepeval.test_case")


_metrics, _cases = _imported()

_EVALUATORS: Mapping[str, type[DeepEvalBaseEvaluator]] = {
    kind.__name__: kind
    for kind in (
        GEvalEvaluator,
        rag.AnswerRelevancyEvaluator,
        rag.ContextualPrecisionEvaluator,
        rag.ContextualRecallEvaluator,
        rag.ContextualRelevancyEvaluator,
        rag.FaithfulnessEvaluator,
    )
}


async def evaluate(request: Mapping[str, Any], judge: AskedJudge) -> Any:
    """Evaluate by a metric of DeepEval.

    Args:
        request: `{evaluator, arguments, case, steps}`: the class, what it is built with, the fields of the test case,
            and the steps of a G-Eval. Without a case its judge is to write the steps. `{calls, …}` is for tool
            correctness, which needs no judge: see `_tool_correctness`.
        judge: who grades.

    Returns:
        Fields of `EvaluationResult`; the steps; or what `_tool_correctness` returns.
    """
    if "calls" in request:
        # Other evaluations go on meanwhile.
        return await asyncio.to_thread(_tool_correctness, request)
    evaluator = _copy(request)
    if "case" not in request:
        assert isinstance(evaluator, GEvalEvaluator)
        return await evaluator.write_steps(judge)
    result = await evaluator.measured(request["case"], judge)
    return {
        "score": result.score,
        "reasoning": result.reasoning,
        "raw_score": result.raw_score,
        "evaluation_steps": result.evaluation_steps,
        "metadata": dict(result.metadata),
    }


def _copy(request: Mapping[str, Any]) -> DeepEvalBaseEvaluator:
    arguments = dict(request["arguments"])
    if arguments.get("rubric") is not None:
        arguments["rubric"] = [Level(**level) for level in arguments["rubric"]]
    evaluator = _EVALUATORS[request["evaluator"]](**arguments)
    if isinstance(evaluator, GEvalEvaluator) and request["steps"] is not None:
        evaluator.follow(request["steps"])
    return evaluator


def _tool_correctness(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare tool calls.

    Args:
        request: `{calls, expected, evaluation_params, options}`: calls as `{name, args, shown}`, and settings of
            DeepEval's class.

    Returns:
        `{score, reason}`.
    """
    metric = _metrics.ToolCorrectnessMetric(
        evaluation_params=[_cases.ToolCallParams(name) for name in request["evaluation_params"]],
        model=_Nobody(),
        async_mode=False,
        **request["options"],
    )
    metric.measure(
        _cases.LLMTestCase(
            input="",
            tools_called=[_call(**call) for call in request["calls"]],
            expected_tools=[_call(**call) for call in request["expected"]],
        ),
        _show_indicator=False,
    )
    return {"score": float(metric.score), "reason": metric.reason}


class _Call(_cases.ToolCall):  # type: ignore[misc,name-defined]
    """A tool call that reasons show on one line and list in the same order in every process."""

    _digest: int = 0
    _shown: str = ""

    def __hash__(self) -> int:
        return self._digest

    def __repr__(self) -> str:
        return self._shown


def _call(name: str, args: Mapping[str, Any] | None, shown: str) -> _Call:
    call = _Call(name=name, input_parameters=args)
    call._digest = zlib.crc32(f"{name!r} {_token(args or {})}".encode("utf-8", "surrogatepass"))
    call._shown = shown
    return call


def _token(value: Any) -> str:
    """Return a text that is the same for values that Python holds to be equal."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{name!r}:{_token(item)}" for name, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_token, value)) + "]"
    if isinstance(value, int | float):
        # 1, 1.0 and True are equal; that of a number is the same in every process, but not that of NaN.
        return "nan" if value != value else str(hash(value))
    return repr(value)


class _Nobody(module("deepeval.models").DeepEvalBaseLLM):  # type: ignore[misc]
    """A model that is never asked: without one DeepEval looks for the key of its own."""

    def load_model(self) -> Any:
        return self

    def get_model_name(self) -> str:
        return "no model"

    def generate(self, prompt: str, schema: Any = None) -> Any:
        raise EvaluationError("tool correctness asks no model", code="judge_failed")

    async def a_generate(self, prompt: str, schema: Any = None) -> Any:
        return self.generate(prompt, schema)
