"""What the library's evaluators ask instead of a client of their own: our judge, over our wire."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.azure.prompts import JudgePrompt
from holodeck_action.metrics.judging.verdicts import VerdictError, asked_for_verdict, verdict_object

LOWEST, HIGHEST = 1, 5
"""The library's scale."""

ASKED: ContextVar[JudgeModel] = ContextVar("ASKED")
"""The judge of the evaluation under way."""

_SETTINGS = ("temperature", "max_tokens", "top_p", "presence_penalty", "frequency_penalty")


class Flow:
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
        judge = ASKED.get()
        system, user = self._prompt.filled(given)
        ask = partial(judge.ask, system=system, defaults=self._settings)
        return {"llm_output": (await asked_for_verdict(judge.label, user, ask, _verdict))[1]}


def settings_of(flow: Any) -> dict[str, Any]:
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
