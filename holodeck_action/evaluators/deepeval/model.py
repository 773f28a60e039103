"""A judge as DeepEval's metrics want it: prompts in, instances of their schemas out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel

from holodeck_action.evaluators.deepeval.library import module
from holodeck_action.evaluators.deepeval.verdicts import VerdictError, json_object, read_verdict
from holodeck_action.evaluators.errors import EvaluationError
from holodeck_action.llm.judge import JudgeAnswer, JudgeModel

Problem = Callable[[BaseModel], str | None]
"""Says what is wrong with a verdict beyond its schema, None when nothing is."""


def deepeval_model(judge: JudgeModel, problem: Problem = lambda verdict: None) -> Any:
    """Return a `DeepEvalBaseLLM` that asks a judge.

    An answer that cannot be read is asked for once more, with the reason; then the evaluation fails (code
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

        def __init__(self, judge: JudgeModel, problem: Problem) -> None:
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
            return await _verdict(self, prompt, schema)

        async def a_generate_raw_response(self, prompt: str, top_logprobs: int) -> Any:
            if not self.judge.gives_probabilities:
                self.weighted = False
                # How DeepEval is told to ask for the score by schema.
                raise AttributeError("no log probabilities")
            schema = module("deepeval.metrics.g_eval.schema").ReasonScore
            answer = await self.judge.ask(prompt, top_logprobs=top_logprobs)
            if (wrong := _wrong(self, answer, schema)) is not None:
                answer = await self.judge.ask(_again(prompt, wrong), top_logprobs=top_logprobs)
                if (wrong := _wrong(self, answer, schema)) is not None:
                    raise _unreadable(self, wrong)
            self.weighted = _names_its_score(answer)
            return _completion(answer), None

    return Judge


async def _verdict(model: Any, prompt: str, schema: type[BaseModel]) -> BaseModel:
    wanted = _json_schema(schema)
    answer = await model.judge.ask(prompt, schema=wanted, schema_name=schema.__name__)
    try:
        return _read(model, answer, schema)
    except VerdictError as error:
        answer = await model.judge.ask(_again(prompt, str(error)), schema=wanted, schema_name=schema.__name__)
    try:
        return _read(model, answer, schema)
    except VerdictError as error:
        raise _unreadable(model, str(error)) from None


def _read(model: Any, answer: JudgeAnswer, schema: type[BaseModel]) -> BaseModel:
    if answer.truncated:
        raise VerdictError("it stops at the token limit; be brief")
    verdict = read_verdict(answer.text, schema)
    wrong = model.problem(verdict)
    if wrong is not None:
        raise VerdictError(wrong)
    return verdict


def _wrong(model: Any, answer: JudgeAnswer, schema: type[BaseModel]) -> str | None:
    try:
        _read(model, answer, schema)
    except VerdictError as error:
        return str(error)
    return None


def _again(prompt: str, wrong: str) -> str:
    return f"{prompt}\n\nAn earlier answer to this could not be used: {wrong}. Answer with the JSON object alone."


def _unreadable(model: Any, wrong: str) -> EvaluationError:
    return EvaluationError(
        f"the judge {model.judge.label} gave no usable verdict twice: {wrong}",
        code="bad_verdict",
        context={"judge": model.judge.label},
    )


def _names_its_score(answer: JudgeAnswer) -> bool:
    """Tell whether one token is the score: then DeepEval weights it by the alternatives of that token."""
    score = str(json_object(answer.text)["score"])
    return any(token.token == score for token in answer.tokens or ())


@cache
def _json_schema(schema: type[BaseModel]) -> Mapping[str, Any]:
    return schema.model_json_schema()


def _completion(answer: JudgeAnswer) -> SimpleNamespace:
    """Return an answer in the shape of OpenAI's chat completion, as far as G-Eval reads it."""
    content = [
        SimpleNamespace(
            token=token.token,
            logprob=token.logprob,
            top_logprobs=[SimpleNamespace(token=other, logprob=logprob) for other, logprob in token.alternatives],
        )
        for token in answer.tokens or ()
    ]
    logprobs = SimpleNamespace(content=content) if answer.tokens is not None else None
    message = SimpleNamespace(content=answer.text)
    return SimpleNamespace(choices=[SimpleNamespace(message=message, logprobs=logprobs)])
