"""The judge card: the measured quality of a judge's verdicts, and its summary in a record."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

CARD_VERSION = 1
CARD_FILE = "judge-card.json"


class Estimate(Struct, frozen=True):
    """A number with its two-sided 95 % interval. All fields are None if the labels do not determine the number."""

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
    def agreement_count(self) -> int:
        """Number of answers for which label and verdict agree."""
        return self.true_pass + self.true_fail


PairVerdict = Literal["win", "tie", "loss"]
"""A verdict on two answers: `win` if the labelled `response` is better, `loss` if the other answer is better."""
PAIR_VERDICTS: tuple[PairVerdict, ...] = ("win", "tie", "loss")

PairCounts = tuple[int, int, int]


class PairConfusion(Struct, frozen=True):
    """Numbers of pairs of answers by human label and by the judge's verdict.

    Attributes:
        counts: a row for each label, in the order of `PAIR_VERDICTS`, with the number of pairs for each verdict.
        flipped: number of pairs whose verdict depends on the order of the answers, and is therefore a tie.
    """

    counts: tuple[PairCounts, PairCounts, PairCounts]
    flipped: int

    @property
    def n(self) -> int:
        """Number of all pairs."""
        return sum(map(sum, self.counts))

    @property
    def agreement_count(self) -> int:
        """Number of pairs for which label and verdict agree."""
        return sum(row[at] for at, row in enumerate(self.counts))

    @property
    def win_rates(self) -> tuple[float | None, float | None]:
        """(wins + ½ ties)/n by the labels and by the verdicts; None if there are no pairs."""
        labels, verdicts = [sum(row) for row in self.counts], [sum(column) for column in zip(*self.counts, strict=True)]
        human, judge = ((side[0] + side[1] / 2) / self.n if self.n else None for side in (labels, verdicts))
        return human, judge


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
    """The agreement of two raters' verdicts on n answers: proportion of equal verdicts, Cohen's κ and Krippendorff's α.

    α is nominal for passes and fails, and interval for pairs of answers (win = 1, tie = ½, loss = 0).
    """

    n: int
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate


class Scores(Struct, frozen=True):
    """The agreement of the judge's scores with human scores: correlations, Krippendorff's α for interval data, and mean
    absolute error."""

    n: int
    pearson: float | None
    spearman: float | None
    alpha: Estimate
    mean_absolute_error: float | None


class HumanAgreement(Struct, frozen=True):
    """The agreement of the human raters with each other, which limits the agreement that a judge can reach.

    `first_two` compares the first two raters on answers both labelled; `alpha` is Krippendorff's α of all raters.
    """

    raters: int
    first_two: Agreement
    alpha: float | None


class PassRates(Struct, frozen=True):
    """Pass rates of answers.

    `human` and `judge` are the pass rates of the labelled answers by label and by verdict. `judged` is the number of
    all answers that the judge graded. `of_judged` is the judge's pass rate of these answers; `corrected` estimates
    their pass rate by human labels. `corrected` has no value if all these answers are labelled: `human` is then the
    exact rate.
    """

    human: Estimate
    judge: Estimate
    judged: int
    of_judged: Estimate
    corrected: Estimate


class UngradedAnswer(Struct, frozen=True):
    """A labelled answer that the judge could not grade, and why."""

    line: int
    reason: str


class Disagreement(Struct, frozen=True, omit_defaults=True):
    """A labelled answer, or pair of answers, whose label and verdict differ; True is a pass.

    `annotator` and `comment` are the name and the comment of the human; None if the labels do not have them.
    """

    line: int
    human: bool | PairVerdict
    judge: bool | PairVerdict
    annotator: str | None = None
    comment: str | None = None


class JudgeCard(Struct, frozen=True, omit_defaults=True):
    """The quality of a judge's verdicts. It holds no text of cases or answers.

    If the labels compare two answers, `pairs` is set, and the fields about passes and fails have no values.

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
        pairs: numbers of pairs by label and verdict, if the labels compare two answers; else None.
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
    humans: HumanAgreement | None
    missing: tuple[UngradedAnswer, ...]
    disagreements: tuple[Disagreement, ...]
    notices: tuple[str, ...]
    tool_version: str
    created_at: str
    pairs: PairConfusion | None = None


class CardSummary(Struct, frozen=True, omit_defaults=True):
    """The part of a judge card that a record stores, and the card's estimate for the run's verdicts.

    Attributes:
        metric: the metric's name.
        made_on: day of the card, ISO 8601, UTC.
        labels: number of labelled answers that the judge graded.
        missing: number of labelled answers that the judge could not grade.
        agreement: proportion of labelled answers whose label and verdict are equal.
        kappa: Cohen's κ of the verdicts.
        alpha: Krippendorff's α of the verdicts: nominal, or interval over win = 1, tie = ½ and loss = 0.
        sensitivity: proportion of the answers labelled as passing whose verdict is a pass.
        specificity: proportion of the answers labelled as failing whose verdict is a fail.
        judged: number of answers of this run with a verdict of the judge, over all finished trials.
        pass_rate: pass rate of these answers.
        corrected: estimated pass rate of these answers if humans had labelled them (Rogan & Gladen); there is no value
            if the card is stale, if the judge graded no answer, or if the labels do not determine the value.
        stale: changes since the card was made, one phrase each; empty if there are none.
        of_pairs: whether the labels compare two answers; the fields about passes and fails then have no values.
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
    of_pairs: bool = False
