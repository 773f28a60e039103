"""Which metrics of two runs measure the same: a score of another judge, or with other settings, shows no change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from holodeck_action.decide.compare.pairing import SameCase, decides_alike
from holodeck_action.record.evaluation import Criteria, Evaluation, Polarity
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import CaseRecord, Record

_DIGESTS = {
    "addresses": "its judges are asked at another address",
    "model_settings": "its judges have other settings",
    "panel": "several verdicts become one in another way",
    "metric": "it has other settings",
}


class ComparableMetrics(Struct, frozen=True):
    """What can be compared of the metrics of two runs.

    Attributes:
        polarities: whether high or low scores are good, by the head, or by the base where the head lacks the metric;
            every metric of both runs, by name.
        incomparable: why the scores of a metric cannot be compared.
        silent: metrics that decide nothing about whether a case passes: incomparable ones, and those whose own
            verdicts followed different thresholds.
        asserting: metrics that can fail a case.
        notices: what differs in the criteria, each one sentence.
    """

    polarities: Mapping[str, Polarity]
    incomparable: Mapping[str, str]
    silent: frozenset[str]
    asserting: frozenset[str]
    notices: tuple[str, ...]


class MetricsTally:
    """What is known of the metrics of two runs, from their cases one by one."""

    def __init__(self, base: Record, head: Record) -> None:
        """Take both runs, of whose cases nothing is read."""
        self._base, self._head = base, head
        self._of_base: dict[str, tuple[int, Criteria]] = {}
        self._of_head: dict[str, tuple[int, Criteria]] = {}
        self._measured: dict[str, str] = {}
        self._own_verdicts: set[str] = set()
        self._thresholds: dict[str, Counter[str]] = {}
        self._lonely: Counter[str] = Counter()

    def add_base(self, case: CaseRecord, place: int) -> None:
        """Add a case of the base, which has it at a place; the order of cases does not matter."""
        _add_asked(self._of_base, case, place)

    def add_head(self, case: CaseRecord, place: int) -> None:
        """Add a case of the head likewise."""
        _add_asked(self._of_head, case, place)

    def add_same(self, same: SameCase) -> None:
        """Add a case that both have, in the head's order; `add_base` and `add_head` are for what each of them asks."""
        if same.base.trials and same.head.trials:
            self._lonely.update({name for _, name in same.base_asked.keys() ^ same.head_asked.keys()})
        for (_, name), before, now in same.common:
            if name not in self._measured:
                reason = _measured_otherwise(before, now)
                if reason:
                    self._measured[name] = reason
            if not decides_alike(before.criteria, now.criteria):
                self._thresholds.setdefault(name, Counter())[_change(before, now)] += 1
                if any(isinstance(each.metadata.get("passed"), bool) and _graded(each) for each in (before, now)):
                    self._own_verdicts.add(name)

    @property
    def found(self) -> ComparableMetrics:
        """Which metrics can be compared."""
        of_base, of_head = self._of_base, self._of_head
        asserting = frozenset(name for found in (of_base, of_head) for name, (_, by) in found.items() if by.asserts)
        both = of_base.keys() & of_head.keys()
        incomparable = {
            **self._measured,
            **dict.fromkeys(of_base.keys() - both, "only the base has it"),
            **dict.fromkeys(of_head.keys() - both, "the base does not have it"),
            **{name: reason for name in both for reason in _judged_otherwise(name, self._base, self._head)},
        }
        lonely = {name: count for name, count in self._lonely.items() if name in both}
        own_verdicts = self._own_verdicts
        return ComparableMetrics(
            polarities={name: by.polarity for name, (_, by) in sorted((of_base | of_head).items())},
            incomparable=incomparable,
            silent=frozenset(incomparable) | own_verdicts,
            asserting=asserting,
            notices=tuple(_notices(incomparable, asserting, own_verdicts, self._thresholds, lonely)),
        )


def _add_asked(found: dict[str, tuple[int, Criteria]], case: CaseRecord, place: int) -> None:
    """Take note of the criteria of each metric: asserting ones where there are any, of these the first ones."""
    for turn in case.turns:
        for each in turn.evaluations:
            by = each.criteria
            known = found.get(each.evaluator_name)
            if known is None or (not by.asserts, place) < (not known[1].asserts, known[0]):
                found[each.evaluator_name] = place, by


def _judged_otherwise(name: str, base: Record, head: Record) -> Iterator[str]:
    """Say what differs in what decides the scores of a metric that models grade; at most one sentence."""
    then, now = base.configurations.get(name), head.configurations.get(name)
    if (then is None) != (now is None):
        yield "only one of the runs says which models grade it"
    elif then is not None and now is not None and then != now:
        yield _difference(then, now)


def _difference(then: Configuration, now: Configuration) -> str:
    if then.judges != now.judges:
        return f"its judge is {', '.join(now.judges)}, and was {', '.join(then.judges)} on the base"
    if then.version != now.version:
        return f"its version is {now.version}, and was {then.version} on the base"
    return next(what for name, what in _DIGESTS.items() if getattr(then, name) != getattr(now, name))


def _measured_otherwise(before: Evaluation, now: Evaluation) -> str:
    """Say what makes two scores of a metric different measures; empty where nothing does."""
    then, here = before.criteria, now.criteria
    if (then.kind, then.metric) != (here.kind, here.metric):
        return f"it is another metric on the base ({then.kind} {then.metric})"
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
        return f"its version is {versions[1]}, and was {versions[0]} on the base"
    return ""


def _graded(evaluation: Evaluation) -> bool:
    return evaluation.score is not None and not isinstance(evaluation.score, bool)


def _change(before: Evaluation, now: Evaluation) -> str:
    then, here = before.criteria, now.criteria
    if then.asserts != here.asserts:
        return "asserts now, and did not on the base" if here.asserts else "asserts nothing now, and did on the base"
    if then.threshold != here.threshold:
        return f"has the threshold {_figure(here.threshold)}, and had {_figure(then.threshold)} on the base"
    return "has other criteria than on the base"


def _figure(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"


def _notices(
    incomparable: Mapping[str, str],
    asserting: frozenset[str],
    own_verdicts: set[str],
    thresholds: Mapping[str, Counter[str]],
    lonely: Mapping[str, int],
) -> Iterator[str]:
    for name, reason in sorted(incomparable.items()):
        if name in asserting:
            yield f"{name} decides nothing about which cases pass here: {reason}."
    for name, changes in sorted(thresholds.items()):
        if name in incomparable:
            continue
        what = "; ".join(f"{name} {change}" for change in sorted(changes))
        if name in own_verdicts:
            yield f"{what}; its verdicts cannot be repeated, so it decides nothing about which cases pass here."
        else:
            yield f"{what}; both runs are judged by the criteria of this one."
    for name, count in sorted(lonely.items()):
        if name not in incomparable:
            yield f"{name} is asked on one side only in {count} case{'s' * (count > 1)}, where it does not count."
