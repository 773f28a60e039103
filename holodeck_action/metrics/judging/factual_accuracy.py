"""`type: factual_accuracy`: the factual claims of an answer, each checked by a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holodeck_action.metrics.base import EvalParam, ParamSpec
from holodeck_action.metrics.judging.dimensions import (
    CONFIDENCE,
    MATERIAL,
    DimensionMetric,
    DimensionVerdict,
    Share,
    Text,
)
from holodeck_action.suite.model.base import NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.model.probing import Exam

_FACTUAL_ACCURACY = """\
Check the facts in an assistant's answer to a request.

List every factual claim of the answer: each statement about the world that can be true or false, one fact each, and
none twice. Opinions, questions, greetings and statements about the assistant itself are no claims. A claim holds when
{basis}. A claim that cannot be checked in that way does not hold.

List every citation of the answer, too: each source, document, link or person that it names as evidence. A citation
holds when the source exists, as far as can be told, and says what it is cited for.

The answer hallucinates when a claim or a citation that does not hold is made up: it is no mere mistake or outdated
figure, but something that nothing supports.

{material}

{texts}

Answer with a JSON object of five fields: "reason", one or two sentences that sum up what was found; "claims", a list
of objects with "claim", "reason", "verdict" ("yes" when it holds, else "no"), "correct_value" (what would be right, or
null), "confidence" (a number from 0 to 1, or null) and "sources" (a list of what bears it out or refutes it: titles of
the reference texts, else the works you know it from; empty when there are none), empty when there are no claims;
"citations", a list of objects with "citation" and "verdict" ("yes" or "no"), empty when there are none;
"hallucination_detected", true or false; and {confidence}."""

_BY_REFERENCE = "the reference texts below say so or it follows from them; the request itself is no reference"
_BY_SOURCES = "{sources} say so or it follows from what they say, as far as you know that for certain"
_BY_KNOWLEDGE = "it agrees with what is generally known, as far as you know it for certain"


class Claim(BaseModel):
    """A factual claim, and whether it holds."""

    model_config = ConfigDict(defer_build=True)

    claim: Text
    reason: str
    verdict: Literal["yes", "no"]
    correct_value: str | None = None
    confidence: Share | None = None
    sources: list[Text] = []

    def require_confidence(self, minimum: float) -> Self:
        """Return the claim, marked as not holding if its confidence is below `minimum` or unknown."""
        if self.verdict == "no" or (self.confidence is not None and self.confidence >= minimum):
            return self
        why = "confidence unknown" if self.confidence is None else f"confidence below {minimum:g}"
        return self.model_copy(update={"verdict": "no", "reason": f"{self.reason} ({why})"})

    def data(self) -> dict[str, Any]:
        """Return the claim as an entry of `factual_claims` in the record."""
        found: dict[str, Any] = {"claim": self.claim, "verified": self.verdict == "yes", "reason": self.reason}
        found["sources"] = self.sources
        further = {"correct_value": self.correct_value, "confidence": self.confidence}
        return found | {name: value for name, value in further.items() if value is not None}


class Citation(BaseModel):
    """A citation, and whether what it cites says what it is cited for."""

    model_config = ConfigDict(defer_build=True)

    citation: Text
    verdict: Literal["yes", "no"]


class FactualAccuracyVerdict(DimensionVerdict):
    """The factual claims and citations of an answer."""

    claims: list[Claim]
    citations: list[Citation]
    hallucination_detected: bool

    @model_validator(mode="after")
    def _check_hallucinations(self) -> Self:
        verdicts = [*(claim.verdict for claim in self.claims), *(citation.verdict for citation in self.citations)]
        if self.hallucination_detected and "no" not in verdicts:
            raise ValueError("hallucination_detected is true, but no claim and no citation has the verdict no")
        return self

    def require_confidence(self, minimum: float) -> Self:
        """Return the verdict after applying `Claim.require_confidence` to every claim."""
        return self.model_copy(update={"claims": [claim.require_confidence(minimum) for claim in self.claims]})

    @property
    def score(self) -> float | None:
        """The proportion of true claims; None if there are no claims."""
        return _share_of_yes([claim.verdict for claim in self.claims])

    def facts(self) -> dict[str, Any]:
        """Return `factual_claims`, `hallucination_detected` and `citation_accuracy` (None if the answer cites
        nothing)."""
        return {
            "factual_claims": [claim.data() for claim in self.claims],
            "citation_accuracy": _share_of_yes([citation.verdict for citation in self.citations]),
            "hallucination_detected": self.hallucination_detected,
        }

    def explanation(self) -> str:
        """Return the number of true claims, followed by the reason."""
        if not self.claims:
            return f"the answer makes no factual claim, so there is nothing to grade: {self.reason}"
        held = sum(claim.verdict == "yes" for claim in self.claims)
        return f"{held} of {len(self.claims)} claims hold: {self.reason}"


def _share_of_yes(verdicts: Sequence[str]) -> float | None:
    return sum(verdict == "yes" for verdict in verdicts) / len(verdicts) if verdicts else None


class FactualAccuracyMetric(DimensionMetric):
    """`type: factual_accuracy`: the share of the answer's factual claims that are true."""

    PLACE = 18
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT}),
        optional=frozenset({EvalParam.EXPECTED_OUTPUT, EvalParam.RETRIEVAL_CONTEXT, EvalParam.CONTEXT}),
        uses_context=True,
        uses_retrieval_context=True,
    )
    QUESTION = _FACTUAL_ACCURACY
    VERDICT = FactualAccuracyVerdict
    VERSION = "1.1.0"
    EMPTY: ClassVar[Mapping[str, Any]] = {"claims": [], "citations": [], "hallucination_detected": False}

    type: Annotated[Literal["factual_accuracy"], Role.KIND] = "factual_accuracy"
    reference_sources: Annotated[list[NonBlank], Field(min_length=1)] | None = None
    """Works with which the judge compares claims, from its own knowledge, if the case has no reference texts. Example:
    `[Wikipedia]`."""
    min_confidence: UnitInterval | None = None
    """A claim does not hold if the confidence of the judge is lower or unknown. Example: `0.8`."""

    @property
    def own_exam(self) -> Exam:
        """A true claim, and a false one."""
        shared = {"query": "What is the capital of France?"}
        return Exam(
            {**shared, "response": "The capital of France is Paris."},
            {**shared, "response": "The capital of France is Tokyo."},
        )

    def apply_settings(self, verdict: DimensionVerdict) -> DimensionVerdict:
        """Return the verdict after `min_confidence` is applied."""
        if self.min_confidence is None:
            return verdict
        assert isinstance(verdict, FactualAccuracyVerdict)
        return verdict.require_confidence(self.min_confidence)

    def _question(self, references: Mapping[str, Mapping[str, str]], texts: str) -> str:
        basis = _BY_REFERENCE if references else _BY_KNOWLEDGE
        if not references and self.reference_sources:
            basis = _BY_SOURCES.format(sources=", ".join(self.reference_sources))
        return self.QUESTION.format(material=MATERIAL, texts=texts, confidence=CONFIDENCE, basis=basis)
