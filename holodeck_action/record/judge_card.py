"""The judge card: what a judge's verdicts are worth, and what of it a record keeps."""

from __future__ import annotations

from msgspec import Struct

CARD_VERSION = 1
CARD_FILE = "judge-card.json"


class Estimate(Struct, frozen=True):
    """A number with its two-sided 95 % interval; None where the labels cannot tell it."""

    value: float | None
    low: float | None = None
    high: float | None = None


NOTHING = Estimate(None)


class Confusion(Struct, frozen=True):
    """Answers by what the humans and the judge said.

    Attributes:
        true_pass: both say pass.
        false_pass: the judge passes what the humans fail.
        false_fail: the judge fails what the humans pass.
        true_fail: both say fail.
    """

    true_pass: int
    false_pass: int
    false_fail: int
    true_fail: int

    @property
    def n(self) -> int:
        """All answers."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """Answers that the humans pass."""
        return self.true_pass + self.false_fail

    @property
    def judge_passes(self) -> int:
        """Answers that the judge passes."""
        return self.true_pass + self.false_pass

    @property
    def human_fails(self) -> int:
        """Answers that the humans fail."""
        return self.false_pass + self.true_fail

    @property
    def agreed(self) -> int:
        """Answers on which they say the same."""
        return self.true_pass + self.true_fail


class Configuration(Struct, frozen=True):
    """What decides the scores of a metric that models grade; thresholds only decide what becomes of scores.

    Settings can hold texts and addresses of the suite: only their digests (SHA-256, hex) are kept, free of secrets.

    Attributes:
        judges: the models that grade, as `provider/name`; those of a panel in its order, then those that stand in.
        addresses: digest of where and by which version of their API they are asked.
        model_settings: digest of what they are asked with: temperature, limits, reasoning.
        panel: digest of how several verdicts become one.
        metric: digest of the metric's own settings, its threshold excluded.
        version: of the metric's formula, then of the package whose prompts the judges get.
    """

    judges: tuple[str, ...]
    addresses: str
    model_settings: str
    panel: str
    metric: str
    version: str


class Agreement(Struct, frozen=True):
    """How two raters agree on verdicts: share of equal ones, Cohen's κ and Krippendorff's nominal α, over n answers."""

    n: int
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate


class Scores(Struct, frozen=True):
    """How the judge's scores follow the humans': correlations, Krippendorff's interval α, mean absolute error."""

    n: int
    pearson: float | None
    spearman: float | None
    alpha: Estimate
    mean_absolute_error: float | None


class Humans(Struct, frozen=True):
    """How the humans agree with each other, which is the most that can be asked of a judge.

    `first_two` compares the first two of them over the answers that both labelled; `alpha` is Krippendorff's of all.
    """

    raters: int
    first_two: Agreement
    alpha: float | None


class PassRates(Struct, frozen=True):
    """Shares of answers that pass.

    `human` and `judge` are those of the labelled answers; `judged` is how many answers the judge graded in all,
    `of_judged` the share of them that it passes, and `corrected` what humans would pass of them. `corrected` has no
    value where all judged answers are labelled: `human` is the rate then.
    """

    human: Estimate
    judge: Estimate
    judged: int
    of_judged: Estimate
    corrected: Estimate


class Missing(Struct, frozen=True):
    """A labelled answer that the judge could not grade, and why."""

    line: int
    reason: str


class Disagreement(Struct, frozen=True):
    """A labelled answer on which human and judge differ; verdicts are True for a pass."""

    line: int
    human: bool
    judge: bool


class JudgeCard(Struct, frozen=True):
    """What a judge's verdicts are worth. It holds no text of cases or answers.

    Attributes:
        schema_version: of this document.
        metric: the metric's name.
        judges: the models that graded.
        configuration: what decides its scores; None where the record did not say, or no model grades.
        threshold: what decides whether a score passes; None where verdicts come without one, or it differs by case.
        source: `live`, or the digest of the record that held the verdicts.
        labels: SHA-256 of the file of labels.
        n: labelled answers that were compared.
        verdicts: answers by what both said.
        judge: how the judge agrees with the first human.
        sensitivity: share of the answers the human passes that the judge passes.
        specificity: share of the answers the human fails that the judge fails.
        pass_rates: shares of answers that pass.
        scores: where the labels are scores.
        humans: where several humans labelled.
        missing: labelled answers without a verdict of the judge.
        disagreements: in the order of the file.
        notices: what the reader should know, each one sentence.
        tool_version: version of holodeck-action.
        created_at: ISO 8601, UTC.
    """

    schema_version: int
    metric: str
    judges: tuple[str, ...]
    configuration: Configuration | None
    threshold: float | None
    source: str
    labels: str
    n: int
    verdicts: Confusion
    judge: Agreement
    sensitivity: Estimate
    specificity: Estimate
    pass_rates: PassRates
    scores: Scores | None
    humans: Humans | None
    missing: tuple[Missing, ...]
    disagreements: tuple[Disagreement, ...]
    notices: tuple[str, ...]
    tool_version: str
    created_at: str


class CardSummary(Struct, frozen=True):
    """What a record keeps of a judge card, and what it makes of the run's verdicts.

    Attributes:
        metric: the metric's name.
        made_on: day of the card, ISO 8601, UTC.
        labels: labelled answers that the judge graded.
        missing: labelled answers that it could not grade.
        agreement: share of equal verdicts of judge and human.
        kappa: Cohen's κ of the same.
        alpha: Krippendorff's nominal α of the same.
        sensitivity: share of the answers the human passes that the judge passes.
        specificity: share of the answers the human fails that the judge fails.
        judged: answers of this run with a verdict of the judge, over all finished trials.
        pass_rate: share of them that it passes.
        corrected: share of them that humans would pass (Rogan & Gladen); no value where the card is stale, where
            nothing was judged, or where the labels cannot tell.
        stale: what is not as it was when the card was made, one phrase each; empty where all is.
    """

    metric: str
    made_on: str
    labels: int
    missing: int
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate
    sensitivity: Estimate
    specificity: Estimate
    judged: int
    pass_rate: Estimate
    corrected: Estimate
    stale: tuple[str, ...]
