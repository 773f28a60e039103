"""Adapts judges to DeepEval's model class, which takes prompts and returns instances of schemas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel

from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.llm.judge import JudgeAnswer
from holodeck_action.llm.messages import TokenProbability
from holodeck_action.metrics.base import describe
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.copied import Question, list_strings
from holodeck_action.metrics.judging.libraries import LibraryJudge, NoProbabilitiesError
from holodeck_action.metrics.judging.verdicts import (
    VerdictError,
    read_verdict,
    request_text,
    request_verdict,
    schema_of,
    verdict_object,
)

_LEAST = math.log(0.01)
"""The lowest log probability at which DeepEval still uses a token."""

Problem = Callable[[BaseModel], str | None]
"""A function that returns the defect of a verdict that fits its schema; None if the verdict has no defect."""


def deepeval_model(judge: LibraryJudge, problem: Problem, filled: list[str]) -> Any:
    """Return a `DeepEvalBaseLLM` that calls a judge.

    After an invalid or copied answer the judge is called once more, with the reason; a second one fails the evaluation
    (code `bad_verdict`).

    Args:
        judge: the judge to call.
        problem: function that checks a verdict after its schema was checked; returns a description of a defect, or
            None.
        filled: texts of the case and the suite, which prompts are filled with; answers of the judge are added.

    Raises:
        EvaluationError: DeepEval is not installed.
    """
    return _model_class()(judge, problem, filled)


@cache
def _model_class() -> type[Any]:
    base: Any = load_module("deepeval.models").DeepEvalBaseLLM

    class Judge(base):  # type: ignore[misc]
        """Calls a judge."""

        def __init__(self, judge: LibraryJudge, problem: Problem, filled: list[str]) -> None:
            self.judge = judge
            self.problem = problem
            self.filled = filled
            self.weighted: bool | None = None
            super().__init__(judge.label)

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return self.judge.label

        def generate(self, prompt: str, schema: type[BaseModel] | None = None) -> Any:
            raise EvaluationError("judges are called in an event loop: use a_measure", code="judge_failed")

        async def a_generate(self, prompt: str, schema: type[BaseModel] | None = None) -> Any:
            if schema is None:
                return await request_text(self.judge.label, _question(self, prompt), self.judge.ask)
            with _prevent_fallback():
                return await _ask_for_verdict(self, prompt, schema)

        async def a_generate_raw_response(self, prompt: str, top_logprobs: int) -> Any:
            try:
                if not self.judge.gives_probabilities:
                    raise NoProbabilitiesError
                with _prevent_fallback():
                    return await _ask_for_score(self, prompt, top_logprobs), None
            except NoProbabilitiesError:
                self.weighted = False
                # On this error DeepEval asks for the score by schema.
                raise AttributeError("no log probabilities") from None

    return Judge


@contextmanager
def _prevent_fallback() -> Iterator[None]:
    """Prevent DeepEval from repeating a call without a schema after an unrelated error."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        raise EvaluationError(f"the judge could not be called: {describe(error)}", code="judge_failed") from error


def _question(model: Any, prompt: str) -> Question:
    return Question(prompt, tuple(model.filled))


async def _ask_for_verdict(model: Any, prompt: str, schema: type[BaseModel]) -> BaseModel:
    wanted = schema_of(schema)

    async def ask(prompt: str) -> JudgeAnswer:
        answer: JudgeAnswer = await model.judge.ask(prompt, schema=wanted, schema_name=schema.__name__)
        return answer

    read = _verdict_reader(model, schema)
    _, verdict = await request_verdict(model.judge.label, _question(model, prompt), ask, read)
    # Later prompts contain it.
    model.filled.extend(list_strings(verdict.model_dump(mode="json")))
    return verdict


async def _ask_for_score(model: Any, prompt: str, top_logprobs: int) -> SimpleNamespace:
    asked = False

    async def ask(prompt: str) -> JudgeAnswer:
        nonlocal asked
        first, asked = not asked, True
        answer: JudgeAnswer = await model.judge.ask(prompt, top_logprobs=top_logprobs, needs_probabilities=first)
        return answer

    read = _verdict_reader(model, load_module("deepeval.metrics.g_eval.schema").ReasonScore)
    answer, _ = await request_verdict(model.judge.label, _question(model, prompt), ask, read)
    verdict = verdict_object(answer.text)
    named = str(verdict["score"])
    tokens = [_keep_valid_scores(model, token) if token.token == named else token for token in answer.tokens or ()]
    model.weighted = any(token.token == named and token.alternatives for token in tokens)
    return _chat_completion(verdict, tokens)


def _verdict_reader(model: Any, schema: type[BaseModel]) -> Callable[[str], BaseModel]:
    def read(text: str) -> BaseModel:
        verdict = read_verdict(text, schema)
        wrong = model.problem(verdict)
        if wrong is not None:
            raise VerdictError(wrong)
        return verdict

    return read


def _keep_valid_scores(model: Any, token: TokenProbability) -> TokenProbability:
    """Return a token's probabilities with only those alternatives that are valid scores."""
    schema = load_module("deepeval.metrics.g_eval.schema").ReasonScore
    kept = tuple(
        (other, logprob)
        for other, logprob in token.alternatives
        if logprob >= _LEAST and other.isdecimal() and model.problem(schema(reason="", score=int(other))) is None
    )
    return replace(token, alternatives=kept)


def _chat_completion(verdict: Mapping[str, Any], tokens: Sequence[TokenProbability]) -> SimpleNamespace:
    """Return an answer in the form of OpenAI's chat completion, with the fields that G-Eval reads."""
    content = [
        SimpleNamespace(
            token=token.token,
            logprob=token.logprob,
            top_logprobs=[SimpleNamespace(token=other, logprob=logprob) for other, logprob in token.alternatives],
        )
        for token in tokens
    ]
    message = SimpleNamespace(content=json.dumps(verdict))
    logprobs = SimpleNamespace(content=content) if tokens else None
    return SimpleNamespace(choices=[SimpleNamespace(message=message, logprobs=logprobs)])
