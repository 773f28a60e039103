"""Azure AI Evaluation at work, in the process of the libraries (see `metrics.judging.libraries`) and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

from holodeck_action.extensions.azure.base import HIGHEST, LOWEST
from holodeck_action.extensions.azure.prompts import JudgePrompt, library_prompt, suite_prompt
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.libraries import AskedJudge
from holodeck_action.metrics.judging.verdicts import VerdictError, asked_for_verdict, verdict_object

_NOBODY = {"azure_endpoint": "https://judge.invalid", "api_key": "not-used", "azure_deployment": "not-used"}
"""What the library's evaluators insist on; nothing is ever sent there, because their flow is replaced."""

_ASKED: ContextVar[AskedJudge] = ContextVar("_ASKED")
"""The judge of the evaluation under way."""

_SETTINGS = ("temperature", "max_tokens", "top_p", "presence_penalty", "frequency_penalty")


def _package() -> Any:
    try:
        return importlib.import_module("azure.ai.evaluation")
    except ImportError as error:
        raise EvaluationError(
            f"Azure AI metrics need a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[azure]'",
            code="not_installed",
        ) from error
    # A package that ends the program would end it with its own exit code.
    except (Exception, SystemExit) as error:
        raise EvaluationError(
            f"Azure AI Evaluation, which the metric needs, cannot be imported: {type(error).__name__}: {error}",
            code="not_importable",
        ) from error


_PACKAGE = _package()


async def evaluate(request: Mapping[str, Any], judge: AskedJudge) -> dict[str, Any]:
    """Evaluate by an evaluator of the library.

    Args:
        request: `{evaluator, metric, inputs, custom_prompt, seen}`: the library's class, the key of its result, texts
            by name, what is asked instead of the library's prompt or null, and the names of all texts it could see.
        judge: who grades.

    Returns:
        `{score, reason}`.
    """
    inputs, metric = request["inputs"], request["metric"]
    evaluator = _evaluator(request["evaluator"], request["custom_prompt"], tuple(request["seen"]), "query" in inputs)
    token = _ASKED.set(judge)
    try:
        found = await evaluator._to_async()(**inputs)
    finally:
        _ASKED.reset(token)
    return {"score": found.get(metric), "reason": found.get(f"{metric}_reason")}


@cache
def _evaluator(name: str, custom_prompt: str | None, seen: tuple[str, ...], with_query: bool) -> Any:
    """Return the library's evaluator with our flow; groundedness has another prompt where there is a query."""
    evaluator = getattr(_PACKAGE, name)(dict(_NOBODY))
    if with_query and name == "GroundednessEvaluator":
        evaluator._ensure_query_prompty_loaded()
    own = evaluator._flow
    if custom_prompt is None:
        prompt = library_prompt(own)
    else:
        prompt = suite_prompt(custom_prompt, [name for name in seen if with_query or name != "query"])
    # The library takes no other client than its own.
    evaluator._flow = _Flow(prompt, _settings_of(own))
    return evaluator


class _Flow:
    """Stands in for an `AsyncPrompty` of the library.

    Args:
        prompt: what is asked.
        settings: request settings where the judge's reference has none of its own; see `JudgeModel.ask`.
    """

    def __init__(self, prompt: JudgePrompt, settings: Mapping[str, Any]) -> None:
        self._prompt = prompt
        self._settings = settings

    async def __call__(self, **given: Any) -> dict[str, Any]:
        """Ask the judge of the evaluation under way, and once more where its answer is no verdict.

        Args:
            **given: the texts; the library's time limit is not used, the evaluator's own counts.

        Returns:
            The verdict as the library reads it, below `llm_output`.

        Raises:
            EvaluationError: no usable verdict came twice (code `bad_verdict`).
            ModelCallError: no answer came.
        """
        judge = _ASKED.get()
        system, user = self._prompt.filled(given)
        ask = partial(judge.ask, system=system, defaults=self._settings)
        return {"llm_output": (await asked_for_verdict(judge.label, user, ask, _verdict))[1]}


def _settings_of(flow: Any) -> dict[str, Any]:
    """Return the request settings of a flow of the library, under the names of `JudgeModel.ask`.

    Args:
        flow: an `AsyncPrompty`.
    """
    parameters: Mapping[str, Any] = flow._model.parameters
    settings: dict[str, Any] = {name: parameters[name] for name in _SETTINGS if name in parameters}
    if "response_format" in parameters:
        settings["extra_body"] = {"response_format": parameters["response_format"]}
    return settings


def _verdict(text: str) -> dict[str, Any]:
    """Read an answer.

    Raises:
        VerdictError: it is no JSON object, says that nothing was graded, or its score is not on the scale.
    """
    told = verdict_object(text)
    if told.get("status", "completed") == "skipped":
        raise VerdictError("its status is skipped, but everything that is to be graded is there")
    score = told.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not LOWEST <= score <= HIGHEST:
        raise VerdictError(f"score: it must be a number from {LOWEST} to {HIGHEST}")
    reason = told.get("reason")
    return {"score": score, "reason": reason if isinstance(reason, str) else "", "status": "completed"}
