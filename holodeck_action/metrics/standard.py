"""BLEU, ROUGE, METEOR and token F1 as evaluators; the formulas are in `holodeck_action.metrics.text`.

Source: HoloDeck evaluation API, Standard NLP Metrics; evaluators reference §2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from holodeck_action.metrics.base import (
    DeterministicEvaluator,
    EvalParam,
    EvaluationResult,
    NLPMetricsError,
    ParamSpec,
    compared_texts,
)
from holodeck_action.metrics.options import one_of
from holodeck_action.metrics.result import check_threshold

ROUGE_VARIANTS = ("rouge1", "rouge2", "rougeL")


class _TextEvaluator(DeterministicEvaluator):
    """A score of the response against the reference text.

    Without a threshold it has no verdict: `passed` is None. `VERSION` names the release of the library that gives the
    same score bit for bit, and the settings that decide it: the signature, as sacreBLEU calls it.
    """

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
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
        # Both texts stand beside it in every report.
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
        from holodeck_action.metrics.text.bleu import bleu

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
        from holodeck_action.metrics.text.rouge import rouge

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
        from holodeck_action.metrics.text.token_f1 import token_f1

        return token_f1(response, reference), {}
