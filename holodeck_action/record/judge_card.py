"""The judge card: the measured quality of a judge's verdicts, and its summary in a record."""

from __future__ import annotations

from msgspec import Struct

CARD_VERSION = 1
CARD_FILE = "judge-card.json"


class Estimate(Struct, frozen=True):
    """A number with its two-sided 95 % interval; None if the labels do not determine it."""

    value: float | None
    low: float | None = None
    high: float | None = None


NO_ESTIMATE = Estimate(None)


class Confusion(Struct, frozen=True):
    """Numbers of answers by human label and by verdict of the judge.

    Attributes:
        true_pass: labelled as passing, and the judge agrees.
        false_pass: labelled as failing, but the judge's verdict is a pass.
        false_fail: labelled as passing, but the judge's verdict is a fail.
        true_fail: labelled as failing, and the judge agrees.
    """

    true_pass: int
    false_pass: int
    false_fail: int
    true_fail: int

    @property
    def n(self) -> int:
        """Number of all answers."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """Number of answers that human labels mark as passing."""
        return self.true_pass + self.false_fail

    @property
    def judge_passes(self) -> int:
        """Number of answers with a passing verdict of the judge."""
        return self.true_pass + self.false_pass

    @property
    def human_fails(self) -> int:
        """Number of answers that human labels mark as failing."""
        return self.false_pass + self.true_fail

    @property
    def agreed(self) -> int:
        """Number of answers for which label and verdict agree."""
        return self.true_pass + self.true_fail


class Configuration(Struct, frozen=True):
    """Everything that decides the scores of a judged metric. The threshold is excluded: it only decides which scores
    pass.

    Settings can contain texts and URLs of the suite, so only their digests (SHA-256, hex) are stored, without secrets.

    Attributes:
        judges: the models that grade, as `provider/name`; the panel in its order, then the fallback models.
        addresses: digest of the URLs and API versions of the models.
        model_settings: digest of the models' settings: temperature, limits, reasoning.
        panel: digest of the settings by which several verdicts are combined.
        metric: digest of the metric's own settings, its threshold excluded.
        version: version of the metric's formula, then of the package with the judges' prompts.
    """

    judges: tuple[str, ...]
    addresses: str
    model_settings: str
    panel: str
    metric: str
    version: str


class Agreement(Struct, frozen=True):
    """How two raters agree on verdicts over n answers: proportion of equal verdicts, Cohen's κ and Krippendorff's
    nominal α."""

    n: int
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate


class Scores(Struct, frozen=True):
    """How the judge's scores agree with human scores: correlations, Krippendorff's interval α, mean absolute error."""

    n: int
    pearson: float | None
    spearman: float | None
    alpha: Estimate
    mean_absolute_error: float | None


class Humans(Struct, frozen=True):
    """How the human raters agree with each other, which limits how well a judge can agree with them.

    `first_two` compares the first two raters over the answers that both labelled; `alpha` is Krippendorff's α of all.
    """

    raters: int
    first_two: Agreement
    alpha: float | None


class PassRates(Struct, frozen=True):
    """Pass rates of answers.

    `human` and `judge` are the pass rates of the labelled answers by label and by verdict. `judged` is the number of
    all answers that the judge graded, `of_judged` their pass rate, and `corrected` the estimated pass rate if humans
    had labelled them. `corrected` has no value if all of them are labelled, because `human` is then the exact rate.
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


class Disagreement(Struct, frozen=True, omit_defaults=True):
    """A labelled answer whose label and verdict differ; True is a pass.

    `annotator` and `comment` are the name and the comment of the human; None if the labels do not have them.
    """

    line: int
    human: bool
    judge: bool
    annotator: str | None = None
    comment: str | None = None


class JudgeCard(Struct, frozen=True):
    """The quality of a judge's verdicts. It holds no text of cases or answers.

    Attributes:
        schema_version: version of this document's schema.
        metric: the metric's name.
        judges: the models that graded.
        configuration: everything that decides the scores; None if the record lacks it, or no model grades.
        threshold: threshold of the scores; None if verdicts do not depend on one, or it differs by case.
        source: `live`, or the digest of the record that held the verdicts.
        labels: SHA-256 of the file of labels.
        n: number of labelled answers that were compared.
        verdicts: numbers of answers by label and verdict.
        judge: how the judge agrees with the first human rater.
        sensitivity: proportion of the answers labelled as passing whose verdict is a pass.
        specificity: proportion of the answers labelled as failing whose verdict is a fail.
        pass_rates: pass rates by label and by verdict.
        scores: agreement of the scores, if the labels are scores.
        humans: agreement of the human raters, if there are several.
        missing: labelled answers without a verdict of the judge.
        disagreements: answers whose label and verdict differ, in the order of the file.
        notices: warnings for the reader, each one sentence.
        tool_version: version of holodeck-action.
        created_at: time of creation, ISO 8601, UTC.
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
    """The part of a judge card in a record, and its estimate for the run's verdicts.

    Attributes:
        metric: the metric's name.
        made_on: day of the card, ISO 8601, UTC.
        labels: number of labelled answers that the judge graded.
        missing: number of labelled answers that it could not grade.
        agreement: proportion of labelled answers whose label and verdict are equal.
        kappa: Cohen's κ of the verdicts.
        alpha: Krippendorff's nominal α of the verdicts.
        sensitivity: proportion of the answers labelled as passing whose verdict is a pass.
        specificity: proportion of the answers labelled as failing whose verdict is a fail.
        judged: number of answers of this run with a verdict of the judge, over all finished trials.
        pass_rate: pass rate of these answers.
        corrected: estimated pass rate of these answers if humans had labelled them (Rogan & Gladen); no value if the
            card is stale, if the judge graded no answer, or if the labels do not determine it.
        stale: changes since the card was made, one phrase each; empty if there are none.
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
