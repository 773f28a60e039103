"""Calls Azure AI Evaluation; imported only in the process for grading libraries (see `metrics.judging.libraries`)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

from holodeck_action.extensions.azure.base import HIGHEST, LOWEST
from holodeck_action.extensions.azure.prompts import JudgePrompt, library_prompt, suite_prompt
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.copied import Question, list_strings
from holodeck_action.metrics.judging.libraries import LibraryJudge
from holodeck_action.metrics.judging.verdicts import VerdictError, request_verdict, verdict_object
from holodeck_action.seam.extras import way_to_get

_UNUSED_CONFIG = {"azure_endpoint": "https://judge.invalid", "api_key": "not-used", "azure_deployment": "not-used"}
"""Placeholder settings that constructors of Azure AI Evaluation require; unused, because `_Flow` calls the judge."""

_JUDGE: ContextVar[LibraryJudge] = ContextVar("_JUDGE")
"""The judge of the current evaluation."""

_SETTINGS = ("temperature", "max_tokens", "top_p", "presence_penalty", "frequency_penalty")


def _import_package() -> Any:
    try:
        return importlib.import_module("azure.ai.evaluation")
    except ImportError as error:
        raise EvaluationError(
            f"Azure AI metrics need a package that is not installed ({error.name or error}); {way_to_get('azure')}",
            code="not_installed",
        ) from error
    # A package that calls `sys.exit` on import would end the process with its own exit code.
    except (Exception, SystemExit) as error:
        raise EvaluationError(
            f"Azure AI Evaluation, which the metric needs, cannot be imported: {type(error).__name__}: {error}",
            code="not_importable",
        ) from error


_PACKAGE = _import_package()


async def evaluate(request: Mapping[str, Any], judge: LibraryJudge) -> dict[str, Any]:
    """Run an evaluator of Azure AI Evaluation.

    Args:
        request: `{evaluator, inputs}`: name of the evaluator class, and its inputs by name. For metrics of
            `type: standard` also `{custom_prompt, seen}`: a prompt that replaces the default one (or null), and the
                names of all texts that the metric can use. For other metrics also `scale`: the lowest and the highest
                    score that the judge can give.
        judge: the judge to call.

    Returns:
        `{score, reason}`.
    """
    inputs = request["inputs"]
    evaluator = _build_evaluator(
        request["evaluator"],
        request.get("custom_prompt"),
        tuple(request.get("seen", ())),
        "query" in inputs,
        tuple(request.get("scale", (LOWEST, HIGHEST))),
    )
    token = _JUDGE.set(judge)
    try:
        found = await evaluator._to_async()(**inputs)
    finally:
        _JUDGE.reset(token)
    key = evaluator._result_key
    return {"score": found.get(key), "reason": found.get(f"{key}_reason")}


@cache
def _build_evaluator(
    name: str, custom_prompt: str | None, inputs: tuple[str, ...], with_query: bool, scale: tuple[int, int]
) -> Any:
    """Return an evaluator whose calls go to our judge; groundedness has a different prompt if `with_query`."""
    evaluator = getattr(_PACKAGE, name)(dict(_UNUSED_CONFIG))
    if with_query and name == "GroundednessEvaluator":
        evaluator._ensure_query_prompty_loaded()
    own = evaluator._flow
    if custom_prompt is None:
        prompt = library_prompt(own)
    else:
        prompt = suite_prompt(custom_prompt, [name for name in inputs if with_query or name != "query"])
    # The library accepts no client but its own.
    evaluator._flow = _Flow(prompt, _request_settings(own), scale, _defaults(own))
    return evaluator


class _Flow:
    """Replaces an `AsyncPrompty` of Azure AI Evaluation, which would call a model directly, and calls our judge.

    Args:
        prompt: the judge's prompt.
        settings: request settings that apply if the judge's model reference omits them; see `JudgeModel.ask`.
        scale: the lowest and the highest score of a verdict.
        defaults: default texts by input name, used for missing inputs.
    """

    def __init__(
        self, prompt: JudgePrompt, settings: Mapping[str, Any], scale: tuple[int, int], defaults: Mapping[str, str]
    ) -> None:
        self._prompt = prompt
        self._settings = settings
        self._scale = scale
        self._defaults = defaults

    async def __call__(self, **given: Any) -> dict[str, Any]:
        """Call the judge of the current evaluation; call it once more if its answer is not a valid verdict.

        Args:
            **given: the texts by input name; a `timeout` is ignored, since our evaluator limits the time itself.

        Returns:
            A dict with the verdict under the key `llm_output`, which Azure AI Evaluation reads.

        Raises:
            EvaluationError: both answers of the judge were invalid (code `bad_verdict`).
            ModelCallError: a call of the judge failed.
        """
        judge = _JUDGE.get()
        # The library's templates show lists as Python does.
        texts = {name: str(value) for name, value in given.items() if value is not None}
        system, user = self._prompt.fill({**self._defaults, **texts})
        ask = partial(judge.ask, system=system, defaults=self._settings)
        read = partial(_read_verdict, scale=self._scale)
        question = Question(user, (*texts.values(), *list_strings(given)), system)
        return {"llm_output": (await request_verdict(judge.label, question, ask, read))[1]}


def _defaults(flow: Any) -> dict[str, str]:
    """Return the default text of each input of a flow; an input without a default gets the text "None"."""
    return {name: str(described.get("default")) for name, described in flow._inputs.items()}


def _request_settings(flow: Any) -> dict[str, Any]:
    """Return the request settings of a flow as keyword arguments of `JudgeModel.ask`.

    Args:
        flow: an `AsyncPrompty`.
    """
    parameters: Mapping[str, Any] = flow._model.parameters
    settings: dict[str, Any] = {name: parameters[name] for name in _SETTINGS if name in parameters}
    if "max_completion_tokens" in parameters:
        settings["max_tokens"] = parameters["max_completion_tokens"]
    if "response_format" in parameters:
        settings["extra_body"] = {"response_format": parameters["response_format"]}
    return settings


def _read_verdict(text: str, scale: tuple[int, int]) -> dict[str, Any]:
    """Parse a judge's answer; return score and reason in the form that Azure AI Evaluation expects.

    Raises:
        VerdictError: the answer is not a JSON object, its status is `skipped`, or its score is not on the scale.
    """
    answer = verdict_object(text)
    if answer.get("status", "completed") == "skipped":
        raise VerdictError("its status is skipped, although every input is present")
    score, (low, high) = answer.get("score"), scale
    if isinstance(score, bool) or not isinstance(score, int | float) or not low <= score <= high:
        raise VerdictError(f"score: it must be a number from {low} to {high}")
    if high - low == 1 and score not in scale:
        raise VerdictError(f"score: it must be {low} or {high}")
    reason = answer.get("reason")
    return {"score": score, "reason": reason if isinstance(reason, str) else "", "status": "completed"}
