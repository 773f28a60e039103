"""Determines which metrics of two runs can be compared. Scores are not comparable if judges or settings differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter

from msgspec import Struct

from holodeck_action.decide.compare.pairing import SameCase, gives_same_verdicts
from holodeck_action.record.evaluation import PREFERENCE, Criteria, Evaluation, Polarity
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import Record

_DIGEST_REASONS = {
    "addresses": "its judges are called at another address",
    "model_settings": "its judges have other settings",
    "panel": "the verdicts of its panel are combined in another way",
    "metric": "it has other settings",
}
_EMBEDDING_DIGEST_REASONS = {
    **_DIGEST_REASONS,
    "addresses": "its embedding model is called at another address",
    "model_settings": "its embedding model has other settings",
}


class ComparableMetrics(Struct, frozen=True):
    """The metrics of two runs that can be compared.

    Attributes:
        polarities: polarity of every metric of both runs, by name; the head's, or the base's if the head lacks the
            metric.
        incomparable: for each metric whose scores cannot be compared, the reason, by name.
        informational: metrics that do not decide whether a case passes: incomparable ones, and metrics that give their
            own verdicts and have another threshold on the base.
        asserting: metrics that can fail a case.
        paired: metrics of the head that compare the head's answers with the base's.
        notices: differences in the criteria, one sentence each.
    """

    polarities: Mapping[str, Polarity]
    incomparable: Mapping[str, str]
    informational: frozenset[str]
    asserting: frozenset[str]
    paired: frozenset[str]
    notices: tuple[str, ...]


class MetricsTally:
    """The data that decides which metrics of two runs can be compared, gathered case by case."""

    def __init__(self, base: Record, head: Record) -> None:
        """Start without cases."""
        self._base, self._head = base, head
        self._of_base, self._of_head = _first_criteria(base), _first_criteria(head)
        self._measured: dict[str, str] = {}
        self._own_verdicts: set[str] = set()
        self._thresholds: dict[str, Counter[str]] = {}
        self._one_sided: Counter[str] = Counter()
        self._changed: dict[str, str] = {}

    def add(self, case_pair: SameCase) -> None:
        """Add a case of both runs, in the head's order."""
        if case_pair.base.trials and case_pair.head.trials:
            self._one_sided.update(
                {name for _, name in case_pair.base_evaluations.keys() ^ case_pair.head_evaluations.keys()}
            )
            for old, new in _replaced_metrics(case_pair):
                self._changed.setdefault(old, f"the check changed, and is {new} now")
                self._changed.setdefault(new, f"the check changed, and was {old} on the base")
        for (_, name), before, now in case_pair.common_evaluations:
            if name not in self._measured:
                reason = _measure_difference(before, now)
                if reason:
                    self._measured[name] = reason
            if not gives_same_verdicts(before.criteria, now.criteria):
                self._thresholds.setdefault(name, Counter())[_criteria_change(before, now)] += 1
                if any(isinstance(each.metadata.get("passed"), bool) and _is_graded(each) for each in (before, now)):
                    self._own_verdicts.add(name)

    def _configuration_differences(self, name: str) -> Iterator[str]:
        """Yield a sentence about the first difference in a metric's configuration; nothing if there is no
        difference."""
        then, now = self._base.configurations.get(name), self._head.configurations.get(name)
        if (then is None) != (now is None):
            yield "only one of the runs records which models grade it"
        elif then is not None and now is not None and then != now:
            embeds = "embedding_model" in self._of_head[name].settings
            yield _configuration_difference(then, now, embeds=embeds)

    @property
    def result(self) -> ComparableMetrics:
        """The metrics that can be compared."""
        of_base, of_head = self._of_base, self._of_head
        asserting = frozenset(name for found in (of_base, of_head) for name, by in found.items() if by.asserts)
        both = of_base.keys() & of_head.keys()
        paired = frozenset(name for name, by in of_head.items() if by.kind == PREFERENCE)
        incomparable = {
            **self._measured,
            **{name: self._changed.get(name, "only the base has it") for name in of_base.keys() - both},
            **{name: self._changed.get(name, "the base does not have it") for name in of_head.keys() - both},
            **{name: reason for name in both for reason in self._configuration_differences(name)},
            **dict.fromkeys(paired, "no pair of answers was judged"),
        }
        one_sided = {name: count for name, count in self._one_sided.items() if name in both}
        own_verdicts = self._own_verdicts
        return ComparableMetrics(
            polarities={name: by.polarity for name, by in sorted((of_base | of_head).items(), key=itemgetter(0))},
            incomparable=incomparable,
            informational=frozenset(incomparable) | own_verdicts,
            asserting=asserting,
            paired=paired,
            notices=tuple(_notices(incomparable, asserting, own_verdicts, self._thresholds, one_sided)),
        )


def _first_criteria(record: Record) -> dict[str, Criteria]:
    """Return, by name, each metric's first criteria that assert, or else its first criteria."""
    found: dict[str, Criteria] = {}
    for each in record.evaluations:
        known = found.get(each.evaluator_name)
        if known is None or (each.criteria.asserts and not known.asserts):
            found[each.evaluator_name] = each.criteria
    return found


def _replaced_metrics(case_pair: SameCase) -> Iterator[tuple[str, str]]:
    """Yield (old name, new name) for each metric of the base that another one replaces in this run.

    On each turn, the new metrics of a type replace the missing metrics of the same type, in order.
    """
    before, now = (
        [(turn, each.criteria.kind, name) for (turn, name), each in ours.items() if (turn, name) not in theirs]
        for ours, theirs in (
            (case_pair.base_evaluations, case_pair.head_evaluations),
            (case_pair.head_evaluations, case_pair.base_evaluations),
        )
    )
    kinds = {(turn, kind) for turn, kind, _ in before}
    for place in sorted(kinds):
        yield from zip(
            (name for *at, name in before if tuple(at) == place),
            (name for *at, name in now if tuple(at) == place),
            strict=False,
        )


def _configuration_difference(before: Configuration, now: Configuration, *, embeds: bool) -> str:
    if before.judges != now.judges:
        model = "embedding model" if embeds else "judge"
        return f"its {model} is {', '.join(now.judges)} now, but was {', '.join(before.judges)} on the base"
    if before.version != now.version:
        return f"its version is {now.version} now, but was {before.version} on the base"
    reasons = _EMBEDDING_DIGEST_REASONS if embeds else _DIGEST_REASONS
    return next(what for name, what in reasons.items() if getattr(before, name) != getattr(now, name))


def _measure_difference(before: Evaluation, now: Evaluation) -> str:
    """Return the reason why two evaluations of a metric are not comparable, such as different judges; an empty string
    if they are comparable.
    """
    then, here = before.criteria, now.criteria
    if (then.kind, then.metric) != (here.kind, here.metric):
        return f"the base has another metric under this name ({then.kind} {then.metric})"
    if then.polarity != here.polarity:
        return "low scores are good on one side, high ones on the other"
    if here.polarity == "neutral":
        return "neither high nor low scores are good"
    if then.settings != here.settings:
        names = sorted(
            name
            for name in then.settings.keys() | here.settings.keys()
            if then.settings.get(name) != here.settings.get(name)
        )
        return f"it has other settings: {', '.join(names)}"
    versions = (before.evaluator_version, now.evaluator_version)
    if before.status == now.status == "completed" and versions[0] != versions[1]:
        return f"its version is {versions[1]} now, but was {versions[0]} on the base"
    return ""


def _is_graded(evaluation: Evaluation) -> bool:
    return evaluation.score is not None and not isinstance(evaluation.score, bool)


def _criteria_change(before: Evaluation, now: Evaluation) -> str:
    then, here = before.criteria, now.criteria
    if then.asserts != here.asserts:
        return "asserts now, but did not on the base" if here.asserts else "asserts nothing now, but did on the base"
    if then.threshold != here.threshold:
        old, new = (_threshold_text(each.threshold) for each in (then, here))
        return f"has the threshold {new}, but had {old} on the base"
    return "has other criteria than on the base"


def _threshold_text(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"


def _notices(
    incomparable: Mapping[str, str],
    asserting_metrics: frozenset[str],
    own_verdicts: set[str],
    thresholds: Mapping[str, Counter[str]],
    one_sided: Mapping[str, int],
) -> Iterator[str]:
    for name, reason in sorted(incomparable.items()):
        if name in asserting_metrics:
            yield f"{name} does not affect which cases pass here: {reason}."
    for name, changes in sorted(thresholds.items()):
        if name in incomparable:
            continue
        what = "; ".join(f"{name} {change}" for change in sorted(changes))
        if name in own_verdicts:
            yield f"{what}; its verdicts cannot be repeated, so it does not affect which cases pass here."
        else:
            yield f"{what}; both runs are judged by the criteria of this one."
    for name, count in sorted(one_sided.items()):
        if name not in incomparable:
            yield f"{name} is used on only one side in {count} case{'s' * (count > 1)}, so it does not count there."
