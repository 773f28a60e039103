"""Reads and writes judge cards, and compares them with the judges and verdicts of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import ValidationError

from holodeck_action.decide.agreement import cohen_kappa, corrected_rate, kappa_of_counts, wilson
from holodeck_action.record.judge_card import (
    CARD_VERSION,
    NO_ESTIMATE,
    PAIR_VERDICTS,
    CardSummary,
    Configuration,
    Estimate,
    JudgeCard,
    PairConfusion,
)
from holodeck_action.record.serialization import decode_problem, from_json, to_json
from holodeck_action.scoring.configurations import AppliedEvaluations
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.errors import Problem, SuiteError, quoted
from holodeck_action.suite.values import Suite
from holodeck_action.text.foreign import Foreign, ForeignError, RefusedFileError, read_file
from holodeck_action.text.given_paths import GivenPath

MOST_BYTES = 16 * 1024 * 1024
"""Size limit of a card file."""

_ALLOWED_PATH = "allowed: the path of a judge-card.json, relative to agent.yaml"
_REMEDY = "create it again with holodeck-action calibrate"
_NO_CONFIGURATION = "the card does not record how its verdicts were made"
_DIGESTS = {
    "addresses": "addresses of the judges",
    "model_settings": "settings of the judges",
    "panel": "how the verdicts of a panel are combined",
    "metric": "settings of the metric",
}


def suite_cards(suite: Suite) -> Mapping[str, JudgeCard]:
    """Return the judge cards that the policy file of a suite lists, by metric name.

    Raises:
        SuiteError: a file is outside the suite's folder, cannot be read or is not a judge card; or the metric of a card
            is not in the suite, is not graded by a model, or already has a card.
    """
    labels: dict[str, bool] = {}
    for case in suite.cases:
        for turn in case.turns:
            for spec in turn.metrics:
                labels[spec.label] = spec.config.needs_judge
    cards: dict[str, JudgeCard] = {}
    first: dict[str, int] = {}
    problems: list[Problem] = []
    for index, (name, mark) in enumerate(zip(suite.policy.judges.cards, suite.card_marks, strict=True)):
        try:
            card = _read_suite_card(suite.checkout, name)
            if card.metric not in labels:
                there = ", ".join(quoted(label) for label, judged in sorted(labels.items()) if judged) or "none"
                raise _CardError(
                    f"is about {quoted(card.metric)}, which is not a metric of this suite (allowed: {there})"
                )
            if not labels[card.metric]:
                raise _CardError(f"is about {quoted(card.metric)}, which is not graded by a model; remove it")
            if card.metric in first:
                raise _CardError(
                    f"is about {quoted(card.metric)}, as is judges.cards[{first[card.metric]}]: a metric can "
                    "have only one card"
                )
        except _CardError as error:
            problems.append(Problem(mark, f"judges.cards[{index}]", f"{quoted(name)} {error}"))
            continue
        first[card.metric] = index
        cards[card.metric] = card
    if problems:
        raise SuiteError(problems, suite.secrets, (mark.file for mark in suite.card_marks))
    return cards


def card_json(card: JudgeCard) -> bytes:
    """Return the bytes of judge-card.json."""
    return to_json(card, 1) + b"\n"


def read_card(path: GivenPath) -> JudgeCard:
    """Read a judge card from a path on the command line.

    Raises:
        ConfigurationError: the file cannot be read or is not a judge card.
    """
    try:
        return read_file(path, MOST_BYTES).parse(_parse_card, _CardError)
    except RefusedFileError as error:
        raise ConfigurationError([f"{path}: {error.clause}; give the judge-card.json of a calibration"]) from error
    except OSError as error:
        problem = f"{path}: cannot be read: {error.strerror}; give the judge-card.json of a calibration"
        raise ConfigurationError([problem]) from error
    except _CardError as error:
        raise ConfigurationError([f"{path}: {error}"]) from error


class _CardError(Exception):
    """A card cannot be used; the message is a predicate to which the caller adds the file name as subject."""


def _read_suite_card(checkout: Checkout, name: str) -> JudgeCard:
    folder = checkout.folder.resolve()
    try:
        if not checkout.resolve(name).is_relative_to(folder):
            raise _CardError("is outside the suite's folder (allowed: a path in this folder, relative to agent.yaml)")
        return checkout.read(name, MOST_BYTES).parse(_parse_card, _CardError)
    except FileNotFoundError:
        raise _CardError(f"does not exist ({_ALLOWED_PATH})") from None
    except IsADirectoryError:
        raise _CardError(f"is a folder ({_ALLOWED_PATH})") from None
    except RefusedFileError as error:
        raise _CardError(error.clause) from error
    except OSError as error:
        raise _CardError(f"cannot be read: {error.strerror or type(error).__name__}") from error


def _parse_card(content: bytes) -> JudgeCard:
    try:
        document = Foreign(content).json()
    except ForeignError as error:
        raise _CardError(f"is not a judge card: it is not valid JSON; {_REMEDY}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise _CardError(f"is not a judge card: it has no schema_version; {_REMEDY}")
    if version != CARD_VERSION:
        raise _CardError(
            f"has schema_version {quoted(json.dumps(version))}, but this version reads {CARD_VERSION}; {_REMEDY}"
        )
    try:
        card = from_json(content, JudgeCard)
        datetime.fromisoformat(card.created_at)
    except (ValidationError, RecursionError) as error:
        raise _CardError(f"is not a judge card: {decode_problem(error)}; {_REMEDY}") from error
    except ValueError as error:
        raise _CardError(f"is not a judge card: created_at is not a date; {_REMEDY}") from error
    wrong = next(_contradictions(card), None)
    if wrong is not None:
        raise _CardError(f"contradicts itself: {wrong} does not fit the rest of the card; {_REMEDY}")
    return card


def _contradictions(card: JudgeCard) -> Iterator[str]:
    """Yield the names of the fields that contradict the card's counts, which shows that the card was edited by hand."""
    table = card.verdicts
    if card.pairs is not None:
        yield from _pair_contradictions(card, card.pairs)
        return
    if min(table.true_pass, table.false_pass, table.false_fail, table.true_fail) < 0 or table.n != card.n:
        yield "n"
        return
    for name, found, expected in (
        ("agreement", card.judge.agreement, wilson(table.agreement_count, table.n)),
        ("kappa", card.judge.kappa, cohen_kappa(table)),
        ("sensitivity", card.sensitivity, wilson(table.true_pass, table.human_passes)),
        ("specificity", card.specificity, wilson(table.true_fail, table.human_fails)),
    ):
        if not _is_close(found, expected):
            yield name
    if not _is_possible(card.judge.alpha):
        yield "alpha"


def _pair_contradictions(card: JudgeCard, pairs: PairConfusion) -> Iterator[str]:
    cells = [count for row in pairs.counts for count in row]
    if min(cells) < 0 or pairs.n != card.n or card.verdicts.n:
        yield "n"
        return
    if not 0 <= pairs.flipped <= sum(row[PAIR_VERDICTS.index("tie")] for row in pairs.counts):
        yield "flipped"
    if not _is_close(card.judge.agreement, wilson(pairs.agreement_count, pairs.n)):
        yield "agreement"
    if not _is_close(card.judge.kappa, kappa_of_counts(pairs.counts)):
        yield "kappa"
    if not _is_possible(card.judge.alpha):
        yield "alpha"


def _is_possible(alpha: Estimate) -> bool:
    numbers = (alpha.value, alpha.low, alpha.high)
    return all(number is None or (math.isfinite(number) and number <= 1) for number in numbers)


def _is_close(first: Estimate, second: Estimate) -> bool:
    pairs = ((first.value, second.value), (first.low, second.low), (first.high, second.high))
    # The last digits of sums differ between Python versions.
    return all(a is b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in pairs)


def summarise_card(
    card: JudgeCard, metric: str, configuration: Configuration, applied: AppliedEvaluations
) -> CardSummary:
    """Return the summary of a card for a run's record; `applied` must cover all of the run's evaluations."""
    stale = tuple(_differences(card, configuration, applied.thresholds))
    passes, judged = applied.outcomes["passed"], applied.outcomes["passed"] + applied.outcomes["failed"]
    return CardSummary(
        metric=metric,
        made_on=datetime.fromisoformat(card.created_at).date().isoformat(),
        labels=card.n,
        missing=len(card.missing),
        agreement=card.judge.agreement,
        kappa=card.judge.kappa,
        alpha=card.judge.alpha,
        sensitivity=card.sensitivity,
        specificity=card.specificity,
        judged=judged,
        pass_rate=wilson(passes, judged),
        corrected=NO_ESTIMATE if stale else corrected_rate(passes, judged, card.verdicts),
        stale=stale,
        of_pairs=card.pairs is not None,
    )


def _differences(card: JudgeCard, now: Configuration, thresholds: set[float | None]) -> Iterator[str]:
    """Yield a phrase for each difference between a card's configuration or thresholds and the current ones."""
    then = card.configuration
    if then is None:
        yield _NO_CONFIGURATION
    else:
        if then.judges != now.judges:
            yield f"judges (were {_judges_text(then.judges)}, are {_judges_text(now.judges)})"
        yield from (what for name, what in _DIGESTS.items() if getattr(then, name) != getattr(now, name))
        if then.version != now.version:
            yield f"versions (were {then.version}, are {now.version})"
    if len(thresholds) > 1:
        yield "threshold (differs by case)"
    elif thresholds and thresholds != {card.threshold}:
        yield f"threshold (was {_threshold_text(card.threshold)}, is {_threshold_text(next(iter(thresholds)))})"


def _judges_text(judges: Sequence[str]) -> str:
    return ", ".join(judges) or "none"


def _threshold_text(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"
