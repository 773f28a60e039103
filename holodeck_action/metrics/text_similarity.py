"""The text comparison metrics of `type: standard`, also as evaluators for use from Python.

The formulas of BLEU, ROUGE, METEOR and token F1 are in `holodeck_action.metrics.text`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from holodeck_action.metrics.computed import ComputedMetric, PythonEvaluator, require_texts
from holodeck_action.metrics.errors import NLPMetricsError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.metrics.standard import StandardMetric


class _TextMetric(StandardMetric, ComputedMetric):
    """Base class of metrics that compare the response with the reference text.

    If there is no threshold, `passed` is None. `VERSION` names the library release with bit-identical scores, and its
    settings (the signature in sacreBLEU).
    """

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
    QUICK_ON_SHORT_TEXTS = True

    @property
    def evaluator_name(self) -> str:
        """The name of HoloDeck's class of the metric, such as `BLEUEvaluator`."""
        return f"{str(self.title).split()[-1]}Evaluator"

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `response` against `ground_truth`, both strings.

        Raises:
            NLPMetricsError: one of them is not a string (code `invalid_input`).
        """
        score, extras = self._score(*require_texts(self.evaluator_name, given, NLPMetricsError))
        # The texts are not quoted, because every report shows them next to this.
        found = f"{self.title} of the response against the ground truth is {score:.4f}"
        if extras:
            found += f" ({', '.join(f'{name} {value:.4f}' for name, value in extras.items())})"
        return self.result(score, found, extras)

    @abstractmethod
    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        """Return the score and extra scores by name."""


class BleuMetric(_TextMetric):
    """Sentence BLEU as sacreBLEU computes it: exponential smoothing, effective order, tokeniser 13a, 0..1.

    Papineni et al. 2002; Post 2018; smoothing method 3 of Chen and Cherry 2014.
    """

    if TYPE_CHECKING:
        metric: Literal["bleu"] = "bleu"

    title = "BLEU"
    VERSION = "sacrebleu 2.6.0 nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import bleu

        return bleu(response, reference), {}


class RougeMetric(_TextMetric):
    """ROUGE-1, ROUGE-2 and ROUGE-L F-measures as rouge-score computes them; `variant` selects the score.

    Lin 2004.
    """

    if TYPE_CHECKING:
        metric: Literal["rouge"] = "rouge"

    title = "ROUGE"
    VERSION = "rouge-score 0.1.2 nrefs:1"

    @property
    def version(self) -> str:
        """The library release that gives identical scores, and its settings."""
        return f"{self.VERSION}|type:{self.variant}|score:fmeasure|stem:{'porter' if self.use_stemmer else 'no'}"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import rouge

        scores = rouge(response, reference, use_stemmer=self.use_stemmer)
        return scores[self.variant], scores


class MeteorMetric(_TextMetric):
    """METEOR as NLTK computes it (α 0.9, β 3, γ 0.5) with the synonyms of WordNet 3.0.

    Banerjee and Lavie 2005.
    """

    if TYPE_CHECKING:
        metric: Literal["meteor"] = "meteor"

    title = "METEOR"
    VERSION = "nltk 3.10.4 nrefs:1|case:lower|tok:word_tokenize|stem:porter|wordnet:3.0|alpha:0.9|beta:3|gamma:0.5"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.meteor import meteor

        return meteor(response, reference), {}


class F1Metric(_TextMetric):
    """Token F1 in the manner of SQuAD: lower case, no punctuation, no English articles, multiset overlap.

    Rajpurkar et al. 2016.
    """

    if TYPE_CHECKING:
        metric: Literal["f1_score"] = "f1_score"

    title = "Token F1"

    def _score(self, response: str, reference: str) -> tuple[float, Mapping[str, float]]:
        from holodeck_action.metrics.text.overlap import token_f1

        return token_f1(response, reference), {}


class BLEUEvaluator(PythonEvaluator, of=BleuMetric, metric="bleu", takes="threshold"):
    """The evaluator of BLEU, for use from Python."""


class ROUGEEvaluator(PythonEvaluator, of=RougeMetric, metric="rouge", takes="threshold variant timeout use_stemmer"):
    """The evaluator of ROUGE, for use from Python."""


class METEOREvaluator(PythonEvaluator, of=MeteorMetric, metric="meteor", takes="threshold"):
    """The evaluator of METEOR, for use from Python."""
