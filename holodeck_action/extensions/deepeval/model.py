"""A judge as DeepEval's metrics want it: prompts in, instances of their schemas out."""

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

from holodeck_action.extensions.deepeval.library import module
from holodeck_action.llm.judge import JudgeAnswer
from holodeck_action.llm.messages import TokenProbability
from holodeck_action.metrics.base import describe
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.libraries import AskedJudge, NoProbabilitiesError
from holodeck_action.metrics.judging.verdicts import (
    VerdictError,
    asked_for_verdict,
    read_verdict,
    schema_of,
    verdict_object,
)

_LEAST = math.log(0.01)
"""DeepEval weights nothing in that is less probable."""

Problem = Callable[[BaseModel], str | None]
"""Says what is wrong with a verdict beyond its schema, None when nothing is."""


def deepeval_model(judge: AskedJudge, problem: Problem = lambda verdict: None) -> Any:
    """Return a `DeepEvalBaseLLM` that asks a judge.

    An answer that cannot be read is requested once more, with the reason; then the evaluation fails (code
    `bad_verdict`).

    Args:
        judge: who is asked.
        problem: looks at every verdict that fits its schema.

    Raises:
        EvaluationError: DeepEval is not installed.
    """
    return _model_class()(judge, problem)


@cache
def _model_class() -> type[Any]:
    base: Any = module("deepeval.models").DeepEvalBaseLLM

    class Judge(base):  # type: ignore[misc]
        """Asks a judge over the wire."""

        def __init__(self, judge: AskedJudge, problem: Problem) -> None:
            self.judge = judge
            self.problem = problem
            self.weighted: bool | None = None
            super().__init__(judge.label)

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return self.judge.label

        def generate(self, prompt: str, schema: type[BaseModel] | None = None) -> Any:
            raise EvaluationError("judges are asked in an event loop: use a_measure", code="judge_failed")

        async def a_generate(self, prompt: str, schema: type[BaseModel] | None = None) -> Any:
            if schema is None:
                return (await self.judge.ask(prompt)).text
            with _never_repeated():
                return await _verdict(self, prompt, schema)

        async def a_generate_raw_response(self, prompt: str, top_logprobs: int) -> Any:
            try:
                if not self.judge.gives_probabilities:
                    raise NoProbabilitiesError
                with _never_repeated():
                    return await _scored(self, prompt, top_logprobs), None
            except NoProbabilitiesError:
                self.weighted = False
                # How DeepEval is told to ask for the score by schema.
                raise AttributeError("no log probabilities") from None

    return Judge


@contextmanager
def _never_repeated() -> Iterator[None]:
    """Keep DeepEval from asking again in another way, unchecked, because of an error that is not about the way."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        raise EvaluationError(f"the judge could not be asked: {describe(error)}", code="judge_failed") from error


async def _verdict(model: Any, prompt: str, schema: type[BaseModel]) -> BaseModel:
    wanted = schema_of(schema)

    async def ask(prompt: str) -> JudgeAnswer:
        answer: JudgeAnswer = await model.judge.ask(prompt, schema=wanted, schema_name=schema.__name__)
        return answer

    return (await asked_for_verdict(model.judge.label, prompt, ask, _reader(model, schema)))[1]


async def _scored(model: Any, prompt: str, top_logprobs: int) -> SimpleNamespace:
    asked = False

    async def ask(prompt: str) -> JudgeAnswer:
        nonlocal asked
        first, asked = not asked, True
        answer: JudgeAnswer = await model.judge.ask(prompt, top_logprobs=top_logprobs, needs_probabilities=first)
        return answer

    read = _reader(model, module("deepeval.metrics.g_eval.schema").ReasonScore)
    answer, _ = await asked_for_verdict(model.judge.label, prompt, ask, read)
    told = verdict_object(answer.text)
    named = str(told["score"])
    tokens = [_offered(model, token) if token.token == named else token for token in answer.tokens or ()]
    model.weighted = any(token.token == named and token.alternatives for token in tokens)
    return _completion(told, tokens)


def _reader(model: Any, schema: type[BaseModel]) -> Callable[[str], BaseModel]:
    def read(text: str) -> BaseModel:
        verdict = read_verdict(text, schema)
        wrong = model.problem(verdict)
        if wrong is not None:
            raise VerdictError(wrong)
        return verdict

    return read


def _offered(model: Any, token: TokenProbability) -> TokenProbability:
    """Return a token with those alternatives that could be a score: none is weighted in that was not offered."""
    schema = module("deepeval.metrics.g_eval.schema").ReasonScore
    kept = tuple(
        (other, logprob)
        for other, logprob in token.alternatives
        if logprob >= _LEAST and other.isdecimal() and model.problem(schema(reason="", score=int(other))) is None
    )
    return replace(token, alternatives=kept)


def _completion(told: Mapping[str, Any], tokens: Sequence[TokenProbability]) -> SimpleNamespace:
    """Return an answer in the shape of OpenAI's chat completion, as far as G-Eval reads it."""
    content = [
        SimpleNamespace(
            token=token.token,
            logprob=token.logprob,
            top_logprobs=[SimpleNamespace(token=other, logprob=logprob) for other, logprob in token.alternatives],
        )
        for token in tokens
    ]
    message = SimpleNamespace(content=json.dumps(told))
    logprobs = SimpleNamespace(content=content) if tokens else None
    return SimpleNamespace(choices=[SimpleNamespace(message=message, logprobs=logprobs)])
