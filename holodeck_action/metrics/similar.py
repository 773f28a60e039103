"""`type: similar`: the cosine similarity of the embeddings of the answer and an expected text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, Use
from holodeck_action.metrics.computed import Grader, ScoringMetric, require_texts
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.references import counted_result
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.metrics.text_checks import EMPTY, LONGEST_NAME
from holodeck_action.metrics.tools.matchers import format_text
from holodeck_action.suite.model.base import MaybeText, NonBlank, Number
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, NO_INPUTS, Embedding, JudgeCalls, Metric, Role

if TYPE_CHECKING:
    from collections.abc import Iterator


_DIGITS = 4
"""Decimals of a cosine."""


class SimilarMetric(ScoringMetric):
    """`type: similar`: the cosine of the embeddings of the answer and an expected text. An empty text scores 0."""

    PLACE = 29
    VERSION = "1.0.1"
    SHORT: ClassVar[str | None] = "value"
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["similar"], Role.KIND] = "similar"
    value: MaybeText = None
    """The expected text; `ground_truth` when absent. Example: `We open on Thursday.`."""
    embedding_model: NonBlank
    """The embedding model, served by the provider in `embedding_provider`, or by the provider in `model` if
    `embedding_provider` is absent. Example: `text-embedding-3-small`."""
    threshold: Annotated[Annotated[Number, Field(gt=0.0, le=1.0)], Role.PASS_MARK]
    """Lowest passing score. Example: `0.8`."""

    @property
    def spec(self) -> ParamSpec:
        """The inputs: the answer, and `ground_truth` unless `value` is set."""
        expected = frozenset({EvalParam.GROUND_TRUTH}) if self.value is None else frozenset[EvalParam]()
        return ParamSpec(required=frozenset({EvalParam.RESPONSE}) | expected)

    @property
    def needs(self) -> frozenset[str]:
        """`ground_truth`, unless `value` is set."""
        return GROUND_TRUTH if self.value is None else NO_INPUTS

    @property
    def embedding(self) -> Embedding:
        """The embedding model, and the text to compare with the answer (None: the turn's `ground_truth`)."""
        return Embedding(self.embedding_model, self.value)

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself."""
        yield "", self

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the call that embeds both texts."""
        yield JudgeCalls(self, 1)

    def base_name(self, k: int | None) -> str:
        """Return the type, followed by the expected text if `value` is set."""
        return self.type if self.value is None else " ".join((self.type, format_text(f'"{self.value}"', LONGEST_NAME)))

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Return the evaluator that calls the embedding model."""
        if building.embedder is None:
            raise EvaluationError("embedding models cannot be called here", code="no_judge")
        use = Use(embedder=building.embedder(self.embedding_model), expected_texts=building.expected_texts)
        return Grader(self, use, **building.options)

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Compare the embeddings of the answer and the expected text."""
        assert use.embedder is not None
        given = {**inputs, "ground_truth": self.value or inputs.get("ground_truth")}
        answer, expected = require_texts(self.evaluator_name, given, EvaluationError)
        references = inputs.get(EvalParam.GROUND_TRUTHS) if self.value is None else None
        [texts] = [[expected]] if references is None else references.values()
        plan = use.embedder.plan
        facts: dict[str, Any] = {"embedding_model": f"{plan.provider}/{plan.name}"}
        for text, problem in ((answer, EMPTY), (expected, "the expected text is empty")):
            if not text.strip():
                return self.result(0.0, problem, facts)
        rows = await use.embedder.embed([answer, *texts])
        first, *others = rows.tolist()
        if use.expected_texts is not None:
            # Those of one case resemble each other.
            use.expected_texts.add(facts["embedding_model"], self.threshold, texts[0], others[0])
        results = [self._compare(first, second, facts) for second in others]
        return results[0] if references is None else counted_result(references, results)

    def _compare(
        self, answer: Sequence[float], expected: Sequence[float], facts: Mapping[str, Any]
    ) -> EvaluationResult:
        # A score decides as it is shown.
        found = round(cosine(answer, expected), _DIGITS)
        reason = f"the embeddings of the answer and the expected text have the cosine {found:.{_DIGITS}f}"
        return self.result(max(0.0, found), reason, {**facts, "dimensions": len(answer)})


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors of equal length, from -1 to 1.

    If the numbers have 24 binary digits, as the numbers of an `Embedder` do, the result is the same on every processor:
    products are exact, and each sum is rounded once.
    """
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    squares = math.fsum(a * a for a in first) * math.fsum(b * b for b in second)
    return max(-1.0, min(1.0, product / math.sqrt(squares)))
