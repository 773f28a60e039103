"""Declares, for each field in which a record stores its terms, which values are stricter.

`DECLARED` names every field of these types. A test fails for a field without a declaration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args

from msgspec import Struct

from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.suite.model.policy import (
    BOUNDS_OF_METRICS,
    GATES,
    Baseline,
    CaseReaction,
    GateMetric,
    Gates,
    GateSummary,
    QuarantineEntry,
    Reaction,
)

Direction = Literal["laxer", "stricter", "changed", "noted"]
"""The direction of a term's change; `changed` if it is unclear, `noted` if no reaction applies to it."""


class HigherIsStricter(Struct, frozen=True):
    """A number for which higher is stricter. The value None counts as `absent`; if `absent` is None, the value None
    switches the term off.
    """

    absent: float | None = None

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        return _compare_numbers(before, now, self.absent, higher=True)


class LowerIsStricter(Struct, frozen=True):
    """A number for which lower is stricter. The value None counts as `absent`; if `absent` is None, the value None
    switches the term off.
    """

    absent: float | None = None

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        return _compare_numbers(before, now, self.absent, higher=False)


class StrictnessOrder(Struct, frozen=True):
    """A term with a fixed set of values: `values` lists them from the least strict to the strictest."""

    values: tuple[Any, ...]

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        if before == now:
            return None
        return "laxer" if self.values.index(now) < self.values.index(before) else "stricter"


class FewerIsStricter(Struct, frozen=True):
    """A set that is stricter with fewer members; a change from or to None has no clear direction."""

    def compare(self, before: Collection[Any] | None, now: Collection[Any] | None) -> Direction | None:
        """Return the direction of the change; None if the set is unchanged."""
        if before is None or now is None:
            return None if before is now else "changed"
        old, new = set(before), set(now)
        if old == new:
            return None
        return "laxer" if new > old else "stricter" if new < old else "changed"


class PresenceIsStricter(Struct, frozen=True):
    """A term that is stricter with a value than without; values are not compared."""

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if both or neither have a value."""
        if (before is None) == (now is None):
            return None
        return "laxer" if now is None else "stricter"


class NoDirection(Struct, frozen=True):
    """A term whose change has no clear direction."""

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return `changed`, or None if the value is unchanged."""
        return None if before == now else "changed"


class Surrounding(Struct, frozen=True):
    """A term of the run's surroundings, to whose change no reaction applies."""

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return `noted`, or None if the value is unchanged."""
        return None if before == now else "noted"


class TermContainer(Struct, frozen=True):
    """A field whose value contains further terms. If the value is None or an entry is missing, its terms are off."""


class ComparedSeparately(Struct, frozen=True):
    """A term that is compared together with other fields, by separate code; `why` is the reason."""

    why: str


class NotATerm(Struct, frozen=True):
    """A field that is not a term; `why` is the reason."""

    why: str


Compared = (
    HigherIsStricter
    | LowerIsStricter
    | StrictnessOrder
    | FewerIsStricter
    | PresenceIsStricter
    | NoDirection
    | Surrounding
)
Term = Compared | TermContainer | ComparedSeparately | NotATerm
EXPIRES = LowerIsStricter()
"""The last day of a quarantine, for which earlier is stricter."""
REACTIONS = StrictnessOrder(tuple(reversed(get_args(Reaction))))
"""`fail` is stricter than `warn`, which is stricter than `ignore`."""

DECLARED: Mapping[type, Mapping[str, Term]] = {
    Record: {
        "gates": TermContainer(),
        "quarantine": TermContainer(),
        "cases": TermContainer(),
        "configurations": TermContainer(),
        "stop_when_decided": StrictnessOrder((True, False)),
        "consistent": StrictnessOrder(("report", "require")),
        "baseline": PresenceIsStricter(),
        "own": ComparedSeparately("terms that take the place of these"),
        "marks": NotATerm("places of terms"),
        "schema_version": NotATerm("how the file is written"),
        "suite": NotATerm("which suite it is"),
        "provenance": ComparedSeparately("filters leave out cases"),
        "chosen": ComparedSeparately("which cases there are"),
        "run": NotATerm("when and how long"),
        "stopped": NotATerm("what happened"),
        "certain": NotATerm("what happened"),
        "notices": NotATerm("what happened"),
        "summary": NotATerm("a result; `gates.summary` names the function"),
        "probes": ComparedSeparately("whether judges are probed"),
        "cards": NotATerm("measured agreement of judges with labels"),
    },
    Gates: {
        **{
            name: HigherIsStricter(gate.absent) if gate.stricter == "higher" else LowerIsStricter(gate.absent)
            for name, gate in GATES.items()
        },
        "metrics": TermContainer(),
        "summary": TermContainer(),
    },
    GateMetric: {
        **{lowest: HigherIsStricter() for lowest, _ in BOUNDS_OF_METRICS},
        **{highest: LowerIsStricter() for _, highest in BOUNDS_OF_METRICS},
    },
    GateSummary: {
        "method": NoDirection(),
        "weights": NoDirection(),
        "function": NoDirection(),
        "min": HigherIsStricter(),
    },
    Baseline: {
        "source": NotATerm("where results come from; `Record.baseline` says whether they are compared"),
        "on_missing": StrictnessOrder(("warn", "fail")),
        "margin": LowerIsStricter(),
        "on_regressed": REACTIONS,
        "on_inconclusive": REACTIONS,
        "on_case_regression": StrictnessOrder(tuple(reversed(get_args(CaseReaction)))),
        "confirm": NoDirection(),
        "on_loosened": REACTIONS,
    },
    QuarantineEntry: {
        "case": NotATerm("which case it is"),
        "reason": NotATerm("for readers"),
        "owner": NotATerm("for readers"),
        "expires": EXPIRES,
    },
    CaseRecord: {
        "id": NotATerm("which case it is"),
        "name": NotATerm("for readers"),
        "content_hash": ComparedSeparately("questions and expectations"),
        "source": NotATerm("a place"),
        "last": NotATerm("a place"),
        "multi_turn": NotATerm("a part of `content_hash`"),
        "user": NotATerm("a part of `content_hash`"),
        "repeat": ComparedSeparately("trials: how many must pass, and how many may fail"),
        "min_pass": ComparedSeparately("trials: how many must pass, and how many may fail"),
        "planned_evaluations": NotATerm("follows from the metrics"),
        "not_applicable": NotATerm("follows from the metrics"),
        "asserting": StrictnessOrder((False, True)),
        "tags": NotATerm("they only choose cases"),
        "weight": NoDirection(),
        "trials": ComparedSeparately("criteria of the metrics on each turn"),
        "confirmation": NotATerm("results"),
    },
    Criteria: {
        "kind": NoDirection(),
        "metric": NoDirection(),
        "threshold": ComparedSeparately("`polarity` determines which way is stricter"),
        "asserts": StrictnessOrder((False, True)),
        "polarity": NoDirection(),
        "fail_on_error": StrictnessOrder((False, True)),
        "settings": NoDirection(),
        "pass_values": FewerIsStricter(),
        "source": NotATerm("a place"),
        "title": NotATerm("for readers"),
    },
    Configuration: {
        "judges": NoDirection(),
        "addresses": NoDirection(),
        "model_settings": NoDirection(),
        "panel": NoDirection(),
        "metric": NoDirection(),
        "version": Surrounding(),
    },
}
"""For each type in which a record stores its terms, how each field is compared."""


@cache
def comparison_rules(kind: type) -> Sequence[tuple[str, Compared]]:
    """Return (name, rule) for each field of `kind` that is compared by a single rule, in the order of `DECLARED`."""
    return [
        (name, term)
        for name, term in DECLARED[kind].items()
        if not isinstance(term, TermContainer | ComparedSeparately | NotATerm)
    ]


def compare_trials(before: tuple[int, int], now: tuple[int, int]) -> Direction | None:
    """Return the direction of the change of a case's trials (repeat, min_pass); None if it is unchanged.

    Fewer required passes are laxer, and so are more allowed failures (repeat − min_pass). The direction is `changed` if
    passes and failures both rise or both fall.
    """
    if before == now:
        return None
    needed, allowed = now[1] - before[1], (now[0] - now[1]) - (before[0] - before[1])
    if needed * allowed > 0:
        return "changed"
    return "stricter" if needed > 0 or allowed < 0 else "laxer"


def compare_thresholds(before: Criteria, now: Criteria) -> Direction | None:
    """Return the direction of the change of an asserting metric's threshold; None if it is unchanged."""
    if before.threshold == now.threshold:
        return None
    if before.threshold is None:
        # The metric had its own verdict.
        return "changed"
    if before.polarity == "neutral":
        return "changed"
    term: HigherIsStricter | LowerIsStricter = (
        HigherIsStricter() if before.polarity == "maximize" else LowerIsStricter()
    )
    return term.compare(before.threshold, now.threshold)


def _compare_numbers(before: Any, now: Any, default: float | None, *, higher: bool) -> Direction | None:
    before, now = (default if value is None else value for value in (before, now))
    if before == now:
        return None
    if before is None or now is None:
        return "laxer" if now is None else "stricter"
    return "laxer" if (now < before) is higher else "stricter"
