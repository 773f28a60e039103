"""Scores of DeepEval's metrics over our wire: those of hand computation, and those of DeepEval's own model class."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from fractions import Fraction
from typing import Any

import pytest

from holodeck_action.extensions.deepeval import rag
from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.suite.model.providers import ProviderEnum
from tests.extensions.deepeval.native import STEPS
from tests.llm.bare_library import run_bare
from tests.llm.judging import Judge, Truth, some_truths
from tests.llm.models import KEY, FakeModels, serve_models
from tests.llm.wiring import opened

TRUTHS = some_truths(20)
pytestmark = [pytest.mark.full, pytest.mark.models(answer=Judge(*TRUTHS))]


def config(models: FakeModels) -> DeepEvalModelConfig:
    return DeepEvalModelConfig(
        provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key=KEY, endpoint=models.openai_url
    )


def share(verdicts: tuple[str, ...], good: str, empty: int) -> Fraction:
    if not verdicts:
        return Fraction(empty)
    return Fraction(sum(verdict in good.split() for verdict in verdicts), len(verdicts))


def precision(truth: Truth) -> Fraction:
    relevant = [rank for rank, verdict in enumerate(truth.chunk_verdicts, 1) if verdict == "yes"]
    found = [Fraction(hits, rank) for hits, rank in enumerate(relevant, 1)]
    return sum(found, Fraction(0)) / len(found) if found else Fraction(0)


def weighted(truth: Truth) -> float:
    """The mean score by probability; alternatives below one percent do not count."""
    counted = {int(token): share for token, share in truth.alternatives.items() if share >= 0.01}
    return sum(score * share for score, share in counted.items()) / sum(counted.values()) / 10


BY_HAND: dict[str, Callable[[Truth], float]] = {
    "GEval": weighted,
    "AnswerRelevancy": lambda truth: float(share(truth.statement_verdicts, "yes borderline", 1)),
    "Faithfulness": lambda truth: float(share(truth.claim_verdicts, "yes borderline", 1)),
    "ContextualRelevancy": lambda truth: float(
        share(tuple(verdict for chunk in truth.chunk_statements for verdict in chunk), "yes", 0)
    ),
    "ContextualPrecision": lambda truth: float(precision(truth)),
    "ContextualRecall": lambda truth: float(share(truth.sentence_verdicts, "yes", 0)),
}


def evaluator(name: str, judge: JudgeModel) -> DeepEvalBaseEvaluator:
    if name == "GEval":
        return GEvalEvaluator("Quality", "Is it good?", evaluation_steps=STEPS, judge=judge)
    found: type[rag.RagEvaluator] = getattr(rag, f"{name}Evaluator")
    return found(judge=judge)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """What DeepEval's own client gets."""
    with serve_models(answer=Judge(*TRUTHS)) as models:
        arguments = (models.openai_url, KEY, str(len(TRUTHS)))
        scores: dict[str, list[float]] = run_bare(
            "tests.extensions.deepeval.native", *arguments, folder=tmp_path_factory.mktemp("native")
        )
    return scores


async def in_turn(work: list[Coroutine[Any, Any, Any]], at_once: int = 10) -> list[Any]:
    gate = asyncio.Semaphore(at_once)

    async def one(each: Coroutine[Any, Any, Any]) -> Any:
        async with gate:
            return await each

    return await asyncio.gather(*map(one, work))


@pytest.mark.full
@pytest.mark.parametrize("name", BY_HAND)
def test_scores_are_those_of_deepeval_and_of_hand_computation(
    name: str, models: FakeModels, native: dict[str, list[float]]
) -> None:
    async def scores() -> list[float]:
        async with opened() as wire:
            asked = evaluator(name, JudgeModel(config(models).plan({}), wire))
            results = await in_turn([asked.evaluate(**truth.case) for truth in TRUTHS])
        return [result.score for result in results]

    ours = asyncio.run(scores())
    assert ours == native[name]
    expected = [BY_HAND[name](truth) for truth in TRUTHS]
    assert all(math.isclose(score, right, abs_tol=1e-9) for score, right in zip(ours, expected, strict=True))
    assert len(set(ours)) > 5, "the truths are too much alike to tell anything"
