"""Computes a run's win rate against its base from the verdicts on pairs of answers, with interval and p-value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import MetricComparison, Preference
from holodeck_action.decide.compare.differences import PairedValues, difference
from holodeck_action.decide.compare.paired_statistics import score_interval_of
from holodeck_action.decide.statistics import MIN_SAMPLE, WeightedValues, wilson_lower_bound
from holodeck_action.record.evaluation import PREFERENCE, Evaluation
from holodeck_action.record.pair_texts import compared_text, compares_conversations, digest_of_text, sees_of
from holodeck_action.record.record import CaseRecord, TrialRecord

_MAKERS = {
    "OpenAI": r"gpt|chatgpt|o[1-9]\b|davinci",
    "Anthropic": r"claude",
    "Google": r"gemini|gemma|palm",
    "Meta": r"llama",
    "Mistral": r"mistral|mixtral|ministral|magistral|codestral",
    "Alibaba": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "xAI": r"grok",
    "Cohere": r"command|aya\b",
    "Microsoft": r"phi\b",
    "Amazon": r"nova\b|titan",
}
"""Patterns for the start of model names, by the maker of the models."""


def summarise(
    cases: Iterable[tuple[CaseRecord, CaseRecord]], targets: tuple[str, str], margin: float, *, gates: bool
) -> Mapping[str, tuple[MetricComparison, Preference]]:
    """Return the comparison of the runs and the verdict counts of each metric with judged pairs, by metric name.

    Verdicts that compare with another base run are not counted.

    Args:
        cases: pairs (base, head) of the same case, with equal questions and expectations and not quarantined.
        targets: the targets of base and head.
        margin: largest tolerated loss, as a difference of scores from 0 to 1.
        gates: whether a regression of the metrics can fail the run.
    """
    found: dict[str, _Tally] = {}
    models: tuple[set[str], set[str]] = ({targets[0]}, {targets[1]})
    for base, head in cases:
        for side, case in zip(models, (base, head), strict=True):
            side.update(turn.model for turn in case.turns if turn.model is not None)
        by_name: dict[str, list[tuple[TrialRecord, Evaluation]]] = {}
        for trial in head.trials:
            for each in trial.turns[-1].evaluations if trial.turns else ():
                if each.criteria.kind == PREFERENCE and each.status != "skipped":
                    by_name.setdefault(each.evaluator_name, []).append((trial, each))
        for name, judged in by_name.items():
            found.setdefault(name, _Tally()).add(base, head, judged)
    return {
        name: tally.result(name, margin, models, gates=gates) for name, tally in sorted(found.items()) if tally.pairs
    }


class _Tally:
    """Accumulates the verdicts of one metric case by case."""

    def __init__(self) -> None:
        self.values = PairedValues()
        self.pairs = self.identical = self.flipped = self.missing = self.unequal = self.longer = 0
        self.outcomes = {1: 0, 0: 0, -1: 0}
        self.cases_unequal = 0
        self.judges: set[str] = set()

    def add(self, base: CaseRecord, head: CaseRecord, judged: list[tuple[TrialRecord, Evaluation]]) -> None:
        """Add the verdicts on a case's trials."""
        values: list[int] = []
        unequal = self.unequal
        texts = {trial.index: trial for trial in base.trials}
        for trial, each in judged:
            facts = each.metadata.get(PREFERENCE)
            if each.status != "completed" or facts is None or not _is_of(facts, each, base, texts.get(trial.index)):
                self.missing += 1
                continue
            values.append(facts["value"])
            self._count(facts)
            self.judges.update(_judges_of(each))
        self.cases_unequal += self.unequal > unequal
        if values:
            mean = sum(values) / len(values)
            self.values.add((1 - mean) / 2, (1 + mean) / 2, head.weight, None, len(values))

    def _count(self, facts: Mapping[str, Any]) -> None:
        value, (before, now) = facts["value"], facts["lengths"]
        self.pairs += 1
        self.outcomes[value] += 1
        self.identical += facts["identical"]
        self.flipped += facts["flipped"]
        if value and before != now:
            self.unequal += 1
            self.longer += (value > 0) == (now > before)

    def result(
        self, name: str, margin: float, side_models: tuple[set[str], set[str]], *, gates: bool
    ) -> tuple[MetricComparison, Preference]:
        """Return the comparison of the runs by the metric, before p-values are adjusted, and the verdict counts."""
        change = difference(self.values, margin)
        low = high = None
        if change.pairs >= MIN_SAMPLE:
            changes = WeightedValues()
            for (before, weight), (now, _) in zip(self.values.base, self.values.head, strict=True):
                changes.add(now - before, weight)
            change = replace(change, **dict(zip(("low", "high"), score_interval_of(changes), strict=True)))
            assert change.low is not None
            assert change.high is not None
            low, high = (1 + change.low) / 2, (1 + change.high) / 2
        share = self.longer / self.unequal if self.unequal else 0.0
        # Trials of a case are not independent, so that the interval counts cases.
        enough = self.cases_unequal >= MIN_SAMPLE
        return MetricComparison(name, "maximize", change, "", gates), Preference(
            metric=name,
            cases=change.pairs,
            pairs=self.pairs,
            wins=self.outcomes[1],
            ties=self.outcomes[0],
            losses=self.outcomes[-1],
            identical=self.identical,
            flipped=self.flipped,
            missing=self.missing,
            win_rate=change.head,
            low=low,
            high=high,
            p_value=change.p_value,
            unequal=self.unequal,
            longer=self.longer,
            longer_low=wilson_lower_bound(share, self.cases_unequal) if enough else None,
            longer_high=1 - wilson_lower_bound(1 - share, self.cases_unequal) if enough else None,
            notices=tuple(_maker_notices(self.judges, side_models)),
        )


def _is_of(facts: Mapping[str, Any], evaluation: Evaluation, case: CaseRecord, base: TrialRecord | None) -> bool:
    """Return whether a verdict compares with the answer in `base`; `case` is from the base run."""
    whole = compares_conversations(case, sees=sees_of(evaluation))
    text = None if base is None else compared_text(base, conversation=whole)
    return text is not None and digest_of_text(text) == facts["base_digest"]


def _judges_of(evaluation: Evaluation) -> Iterator[str]:
    judge, panel = evaluation.metadata.get("judge"), evaluation.metadata.get("panel") or {}
    if judge is not None:
        yield judge
    yield from (verdict["model"] for verdict in panel.get("verdicts", ()))


def _maker_notices(judges: Iterable[str], side_models: tuple[set[str], set[str]]) -> Iterator[str]:
    """Yield a notice for each maker of a judge that is also the maker of a model in only one of the two runs."""
    sides = [{maker_of(model) for model in side} - {None} for side in side_models]
    for maker in sorted({maker for judge in judges if (maker := maker_of(judge)) is not None}):
        there = [maker in side for side in sides]
        if there[0] != there[1]:
            side = "the base" if there[0] else "this run"
            yield f"A judge and the model of {side} are both of {maker}; judges tend to prefer answers of their maker."


def maker_of(model: str) -> str | None:
    """Return the maker of a model by its name, such as `model:openai/gpt-6.1-sol`; None if unknown."""
    words = re.split(r"[/:]", model.lower())
    named = (maker for maker, start in _MAKERS.items() if any(re.match(start, word) for word in words))
    return next(named, None)
