"""`type: standard`: comparison of texts, and the legacy Azure AI metrics; text metrics as evaluators.

The formulas of BLEU, ROUGE, METEOR and token F1 are in `holodeck_action.metrics.text`. Source of names and
defaults: HoloDeck evaluation API, Standard NLP Metrics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import (
    BaseEvaluator,
    Building,
    DeterministicEvaluator,
    EvalParam,
    EvaluationResult,
    NLPMetricsError,
    ParamSpec,
    compared_texts,
)
from holodeck_action.metrics.params import one_of
from holodeck_action.metrics.result import check_threshold
from holodeck_action.suite.model.base import Flag, Integer, NonBlank, Number, given
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, NOTHING, JudgedMetric, Metric, Role
from holodeck_action.suite.model.patterns import RESPONSE_PATH
from holodeck_action.suite.model.providers import LLMProvider

StandardName = Literal[
    "groundedness",
    "relevance",
    "coherence",
    "fluency",
    "similarity",
    "bleu",
    "rouge",
    "meteor",
    "f1_score",
    "equality",
    "numeric",
]
AZURE_METRICS = ("groundedness", "relevance", "coherence", "fluency", "similarity")
AZURE_TOP = 5
"""Azure AI metrics are graded from 1 to this."""
MIGRATION = {
    "groundedness": "type rag with metric_type faithfulness",
    "relevance": "type rag with metric_type answer_relevancy",
    "coherence": "type geval with criteria for coherence",
    "fluency": "type geval with criteria for fluency",
    "similarity": "type geval with evaluation_params actual_output and expected_output",
}
"""What a legacy Azure metric becomes."""
_USED_BY = {
    **dict.fromkeys(("case_insensitive", "strip_whitespace", "strip_punctuation"), ("equality",)),
    **dict.fromkeys(
        ("absolute_tolerance", "relative_tolerance", "accept_percent", "accept_thousands_separators"), ("numeric",)
    ),
    **dict.fromkeys(("variant", "use_stemmer"), ("rouge",)),
    **dict.fromkeys(("custom_prompt", "model"), AZURE_METRICS),
}

ROUGE_VARIANTS = ("rouge1", "rouge2", "rougeL")


class StandardMetric(JudgedMetric):
    """`type: standard`: text comparison without a model, or a legacy Azure AI metric."""

    PLACE = 1
    TOLD_BY = "metric"
    SCHEMA_RULES = ({"if": given("scale"), "else": {"properties": {"threshold": {"maximum": 1}}}},)
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["standard"], Role.KIND] = "standard"
    metric: Annotated[StandardName, Role.KIND]
    """What is computed. Example: `rouge`."""
    threshold: Annotated[Annotated[Number, Field(ge=0.0)] | None, Role.PASS_MARK] = None
    """Lowest passing score, from 0 to `scale`. `equality` and `numeric` pass at 1 when absent, the others are
    informational. Example: `0.5`."""
    scale: Annotated[Annotated[Integer, Field(gt=0)] | None, Role.SCALE] = None
    """The threshold is written from 0 to this number; the score stays 0 to 1. Example: `5`."""
    custom_prompt: NonBlank | None = None
    """Of an Azure AI metric: the prompt, instead of the package's. Example: `Grade {{response}} from 1 to 5.`."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """Of an Azure AI metric: the judge, of provider `azure_openai`."""
    case_insensitive: Flag = False
    """Of `equality`: compare case-folded text."""
    strip_whitespace: Flag = False
    """Of `equality`: replace runs of white space by one space, and trim."""
    strip_punctuation: Flag = False
    """Of `equality`: delete ASCII punctuation."""
    absolute_tolerance: Annotated[Number, Field(ge=0.0)] = 1e-6
    """Of `numeric`: largest difference, inclusive."""
    relative_tolerance: Annotated[Number, Field(ge=0.0)] = 0.0
    """Of `numeric`: largest difference as a share of the expected number, inclusive."""
    accept_percent: Flag = False
    """Of `numeric`: a number that ends in `%` is divided by 100."""
    accept_thousands_separators: Flag = False
    """Of `numeric`: delete comma, underscore and narrow spaces."""
    response_path: Annotated[str, Field(pattern=RESPONSE_PATH)] | None = None
    """Compare this part of a JSON answer. Example: `result.items[0].total`."""
    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    """Of `rouge`: which of the three F-measures is the score."""
    use_stemmer: Flag = False
    """Of `rouge`: use the Porter stemmer."""

    @model_validator(mode="after")
    def _threshold_within_scale(self) -> StandardMetric:
        top = self.scale or 1
        if self.threshold is not None and self.threshold > top:
            raise PydanticCustomError(
                "threshold", "can never be reached: scores end at {top} (allowed: 0 to {top})", {"top": top}
            )
        return self

    @model_validator(mode="after")
    def _panels_are_of_models(self) -> StandardMetric:
        if self.judges is not None and not self._of_azure:
            raise PydanticCustomError(
                "judges", "grade nothing here: no model is asked for {metric}", {"metric": self.metric}
            )
        return self

    @property
    def title(self) -> str | None:
        """The title of a text metric."""
        evaluator = _TEXT_EVALUATORS.get(self.metric)
        return None if evaluator is None else evaluator.TITLE

    @property
    def _of_azure(self) -> bool:
        return self.metric in AZURE_METRICS

    @property
    def _yes_or_no(self) -> bool:
        return self.metric in ("equality", "numeric")

    @property
    def needs(self) -> frozenset[str]:
        """The text to compare with; of Azure's metrics similarity alone has one."""
        return NOTHING if self._of_azure and self.metric != "similarity" else GROUND_TRUTH

    @property
    def pass_mark(self) -> float | None:
        """The threshold from 0 to 1; a comparison passes or not without one."""
        if self.threshold is None:
            return 1.0 if self._yes_or_no else None
        if self._of_azure and self.scale == AZURE_TOP:
            # Their own scale, which begins at 1.
            return max(0.0, (self.threshold - 1) / (AZURE_TOP - 1))
        return self.threshold / (self.scale or 1)

    @property
    def measure(self) -> str:
        """The metric."""
        return self.metric

    @property
    def answer_path(self) -> str | None:
        """The part of a JSON answer that is compared."""
        return self.response_path

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself, if it is one of Azure's."""
        if self._of_azure:
            yield "", self

    @property
    def library(self) -> Literal["deepeval", "azure"] | None:
        """Azure's own package, for its metrics."""
        return "azure" if self._of_azure else None

    def settings_problem(self) -> str | None:
        """Return what is wrong with a metric of Azure's."""
        if not self._of_azure:
            return None
        if self.scale == AZURE_TOP and self.threshold is not None and self.threshold < 1:
            return (
                f"has a threshold of {self.threshold:g} on scale 5, where the lowest score is 1: every answer would "
                "pass"
            )
        if self.custom_prompt is None:
            return None
        from holodeck_action.extensions.azure.metrics import EVALUATORS

        return EVALUATORS[self.metric].prompt_problem(self.custom_prompt)

    @property
    def supported_providers(self) -> tuple[str, ...] | None:
        """Azure's package knows its own models alone."""
        from holodeck_action.extensions.azure.base import SUPPORTED_PROVIDERS

        return tuple(SUPPORTED_PROVIDERS)

    def unsupported_judge(self, shown: str) -> str:
        """Return why another provider's model cannot grade, and what can be done."""
        return (
            f"is graded by models of provider azure_openai alone, and {shown} is none: give it a `model` of that "
            f"provider, or migrate to {MIGRATION[self.metric]}"
        )

    def expected_value_problem(self, ground_truth: str) -> str | None:
        """Return why an expected value is no number where numbers are compared."""
        if self.metric != "numeric":
            return None
        from holodeck_action.metrics.deterministic import NumericEvaluator

        reader = NumericEvaluator(
            accept_percent=self.accept_percent, accept_thousands_separators=self.accept_thousands_separators
        )
        try:
            reader.parse(ground_truth)
        except ValueError as error:
            return str(error)
        return None

    def notices(self, place: str) -> Iterator[str]:
        """Yield that Azure's metrics are deprecated, and which settings have no effect."""
        if self._of_azure:
            yield f"{self.metric} is deprecated: migrate to {MIGRATION[self.metric]}"
        for name, metrics in _USED_BY.items():
            if name in self.model_fields_set and self.metric not in metrics and getattr(self, name) is not None:
                yield f"{place}: {name} has no effect on {self.metric}"

    def evaluator(self, building: Building) -> BaseEvaluator:
        """Return what scores."""
        if self._of_azure:
            from holodeck_action.extensions.azure.metrics import EVALUATORS

            return building.asking(
                self, EVALUATORS[self.metric], threshold=self.pass_mark, custom_prompt=self.custom_prompt
            )
        # Without a threshold of its own a comparison gives its own verdict, and a text metric none.
        threshold = None if self.threshold is None else self.pass_mark
        if self.metric == "rouge":
            return ROUGEEvaluator(threshold, self.variant, use_stemmer=self.use_stemmer, **building.options)
        if not self._yes_or_no:
            return _TEXT_EVALUATORS[self.metric](threshold, **building.options)
        from holodeck_action.metrics.deterministic import EqualityEvaluator, NumericEvaluator

        if self.metric == "equality":
            return EqualityEvaluator(
                case_insensitive=self.case_insensitive,
                strip_whitespace=self.strip_whitespace,
                strip_punctuation=self.strip_punctuation,
                threshold=threshold,
                **building.options,
            )
        return NumericEvaluator(
            absolute_tolerance=self.absolute_tolerance,
            relative_tolerance=self.relative_tolerance,
            accept_percent=self.accept_percent,
            accept_thousands_separators=self.accept_thousands_separators,
            threshold=threshold,
            **building.options,
        )


class _TextEvaluator(DeterministicEvaluator):
    """A score of the response against the reference text.

    Without a threshold it has no verdict: `passed` is None. `VERSION` names the release of the library that gives the
    same score bit for bit, and the settings that decide it: the signature, as sacreBLEU calls it.
    """

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
    QUICK_ON_SHORT_TEXTS = True
    METRIC: ClassVar[str]
    TITLE: ClassVar[str]

    def __init__(self, threshold: float | None = None, timeout: float | None = 60.0, **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.threshold = check_threshold(threshold)

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return self.METRIC

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score `response` against `ground_truth`, both texts.

        Raises:
            NLPMetricsError: one of them is not a text (code `invalid_input`).
        """
        response, reference = compared_texts(self.name, kwargs, NLPMetricsError)
        score, extras = self._score(response, reference)
        return EvaluationResult(
            score=score,
            reasoning=self._reason(score, extras),
            metric_name=self.METRIC,
            threshold=self.threshold,
            metadata=extras,
        )

    @abstractmethod
    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        """Return the score and the extra scores."""

    def _reason(self, score: float, extras: Mapping[str, float]) -> str:
        # Both texts are beside it in every report.
        found = f"{self.TITLE} of the response against the ground truth is {score:.4f}"
        if not extras:
            return found
        return f"{found} ({', '.join(f'{name} {value:.4f}' for name, value in extras.items())})"


class BLEUEvaluator(_TextEvaluator):
    """Sentence BLEU as sacreBLEU computes it: exponential smoothing, effective order, tokeniser 13a, 0..1.

    Papineni et al. 2002; Post 2018; smoothing method 3 of Chen and Cherry 2014.
    """

    METRIC = "bleu"
    TITLE = "BLEU"
    VERSION = "sacrebleu 2.6.0 nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import bleu

        return bleu(response, reference), {}


class ROUGEEvaluator(_TextEvaluator):
    """ROUGE-1, ROUGE-2 and ROUGE-L F-measures as rouge-score computes them; `variant` is the score.

    Lin 2004.

    Raises:
        ValueError: `variant` is none of `ROUGE_VARIANTS`.
    """

    METRIC = "rouge"
    TITLE = "ROUGE"
    VERSION = "rouge-score 0.1.2 nrefs:1"

    def __init__(
        self,
        threshold: float | None = None,
        variant: str = "rougeL",
        timeout: float | None = 60.0,
        use_stemmer: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold=threshold, timeout=timeout, **kwargs)
        self.variant = one_of("variant", variant, ROUGE_VARIANTS)
        self.use_stemmer = use_stemmer

    @property
    def version(self) -> str:
        """The library that gives the same score, and the settings it gives it with."""
        return f"{self.VERSION}|type:{self.variant}|score:fmeasure|stem:{'porter' if self.use_stemmer else 'no'}"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import rouge

        scores = rouge(response, reference, use_stemmer=self.use_stemmer)
        return scores[self.variant], scores


class METEOREvaluator(_TextEvaluator):
    """METEOR as NLTK computes it (α 0.9, β 3, γ 0.5) with the synonyms of WordNet 3.0.

    Banerjee and Lavie 2005.
    """

    METRIC = "meteor"
    TITLE = "METEOR"
    VERSION = "nltk 3.10.4 nrefs:1|case:lower|tok:word_tokenize|stem:porter|wordnet:3.0|alpha:0.9|beta:3|gamma:0.5"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.meteor import meteor

        return meteor(response, reference), {}


class F1Evaluator(_TextEvaluator):
    """Token F1 in the manner of SQuAD: lower case, no punctuation, no English articles, multiset overlap.

    Rajpurkar et al. 2016.
    """

    METRIC = "f1_score"
    TITLE = "Token F1"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import token_f1

        return token_f1(response, reference), {}


_TEXT_EVALUATORS: Mapping[str, type[_TextEvaluator]] = {
    each.METRIC: each for each in (BLEUEvaluator, ROUGEEvaluator, METEOREvaluator, F1Evaluator)
}
