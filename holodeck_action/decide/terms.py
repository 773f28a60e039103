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

Direction = Literal["laxer", "stricter", "changed"]
"""The direction of a term's change; `changed` if it is unclear."""


class Higher(Struct, frozen=True):
    """A number for which higher is stricter. None means `absent`, or that the term is off if `absent` is None."""

    absent: float | None = None

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        return _compare_numbers(before, now, self.absent, higher=True)


class Lower(Struct, frozen=True):
    """A number for which lower is stricter. None means `absent`, or that the term is off if `absent` is None."""

    absent: float | None = None

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        return _compare_numbers(before, now, self.absent, higher=False)


class Ordered(Struct, frozen=True):
    """One of several values, listed from the least strict to the strictest."""

    values: tuple[Any, ...]

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if the value is unchanged."""
        if before == now:
            return None
        return "laxer" if self.values.index(now) < self.values.index(before) else "stricter"


class Fewer(Struct, frozen=True):
    """A set that is stricter with fewer members; a change from or to None has no clear direction."""

    def compare(self, before: Collection[Any] | None, now: Collection[Any] | None) -> Direction | None:
        """Return the direction of the change; None if the set is unchanged."""
        if before is None or now is None:
            return None if before is now else "changed"
        old, new = set(before), set(now)
        if old == new:
            return None
        return "laxer" if new > old else "stricter" if new < old else "changed"


class Given(Struct, frozen=True):
    """A term that is stricter with a value than without; values are not compared."""

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return the direction of the change; None if both or neither have a value."""
        if (before is None) == (now is None):
            return None
        return "laxer" if now is None else "stricter"


class Other(Struct, frozen=True):
    """A term whose change has no clear direction."""

    def compare(self, before: Any, now: Any) -> Direction | None:
        """Return `changed`, or None if the value is unchanged."""
        return None if before == now else "changed"


class Parts(Struct, frozen=True):
    """A container of values with their own terms; None or a missing entry switches its terms off."""


class Joint(Struct, frozen=True):
    """A term that is compared together with other fields, by separate code; `why` is the reason."""

    why: str


class NoTerm(Struct, frozen=True):
    """A field that is not a term; `why` is the reason."""

    why: str


Term = Higher | Lower | Ordered | Fewer | Given | Other | Parts | Joint | NoTerm
Compared = Higher | Lower | Ordered | Fewer | Given | Other
EXPIRES = Lower()
"""The last day of a quarantine, for which earlier is stricter."""
REACTIONS = Ordered(tuple(reversed(get_args(Reaction))))
"""`fail` is stricter than `warn`, which is stricter than `ignore`."""

DECLARED: Mapping[type, Mapping[str, Term]] = {
    Record: {
        "gates": Parts(),
        "quarantine": Parts(),
        "cases": Parts(),
        "configurations": Parts(),
        "stop_when_decided": Ordered((True, False)),
        "baseline": Given(),
        "own": Joint("terms that take the place of these"),
        "marks": NoTerm("places of terms"),
        "schema_version": NoTerm("how the file is written"),
        "suite": NoTerm("which suite it is"),
        "provenance": Joint("filters leave out cases"),
        "chosen": Joint("which cases there are"),
        "run": NoTerm("when and how long"),
        "stopped": NoTerm("what happened"),
        "certain": NoTerm("what happened"),
        "notices": NoTerm("what happened"),
        "summary": NoTerm("a result; `gates.summary` names the function"),
        "cards": NoTerm("measured agreement of judges with labels"),
    },
    Gates: {
        **{
            name: Higher(gate.absent) if gate.stricter == "higher" else Lower(gate.absent)
            for name, gate in GATES.items()
        },
        "metrics": Parts(),
        "summary": Parts(),
    },
    GateMetric: {
        **{lowest: Higher() for lowest, _ in BOUNDS_OF_METRICS},
        **{highest: Lower() for _, highest in BOUNDS_OF_METRICS},
    },
    GateSummary: {"method": Other(), "weights": Other(), "function": Other(), "min": Higher()},
    Baseline: {
        "source": NoTerm("where results come from; `Record.baseline` says whether they are compared"),
        "on_missing": Ordered(("warn", "fail")),
        "margin": Lower(),
        "on_regressed": REACTIONS,
        "on_inconclusive": REACTIONS,
        "on_case_regression": Ordered(tuple(reversed(get_args(CaseReaction)))),
        "confirm": Other(),
        "on_loosened": REACTIONS,
    },
    QuarantineEntry: {
        "case": NoTerm("which case it is"),
        "reason": NoTerm("for readers"),
        "owner": NoTerm("for readers"),
        "expires": EXPIRES,
    },
    CaseRecord: {
        "id": NoTerm("which case it is"),
        "name": NoTerm("for readers"),
        "content_hash": Joint("questions and expectations"),
        "source": NoTerm("a place"),
        "last": NoTerm("a place"),
        "multi_turn": NoTerm("a part of `content_hash`"),
        "user": NoTerm("a part of `content_hash`"),
        "repeat": Joint("trials: how many must pass, and how many may fail"),
        "min_pass": Joint("trials: how many must pass, and how many may fail"),
        "planned_evaluations": NoTerm("follows from the metrics"),
        "not_applicable": NoTerm("follows from the metrics"),
        "asserting": Ordered((False, True)),
        "tags": NoTerm("they only choose cases"),
        "weight": Other(),
        "trials": Joint("criteria of the metrics on each turn"),
        "confirmation": NoTerm("results"),
    },
    Criteria: {
        "kind": Other(),
        "metric": Other(),
        "threshold": Joint("`polarity` determines which way is stricter"),
        "asserts": Ordered((False, True)),
        "polarity": Other(),
        "fail_on_error": Ordered((False, True)),
        "settings": Other(),
        "pass_values": Fewer(),
        "source": NoTerm("a place"),
        "title": NoTerm("for readers"),
    },
    Configuration: {
        "judges": Other(),
        "addresses": Other(),
        "model_settings": Other(),
        "panel": Other(),
        "metric": Other(),
        "version": Other(),
    },
}
"""For each type in which a record stores its terms, how each field is compared."""


@cache
def comparison_rules(kind: type) -> Sequence[tuple[str, Compared]]:
    """Return the name and the comparison rule of each field of a type that is compared on its own, in the order of
    `DECLARED`."""
    return [(name, term) for name, term in DECLARED[kind].items() if not isinstance(term, Parts | Joint | NoTerm)]


def compare_trials(before: tuple[int, int], now: tuple[int, int]) -> Direction | None:
    """Return the direction of the change of a case's trials (repeat, min_pass); None if it is unchanged.

    Fewer required passes are laxer, and so are more allowed failures (repeat − min_pass). If both numbers rise or both
    fall, the change is `changed`.
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
    term: Higher | Lower = Higher() if before.polarity == "maximize" else Lower()
    return term.compare(before.threshold, now.threshold)


def _compare_numbers(before: Any, now: Any, absent: float | None, *, higher: bool) -> Direction | None:
    before, now = (absent if value is None else value for value in (before, now))
    if before == now:
        return None
    if before is None or now is None:
        return "laxer" if now is None else "stricter"
    return "laxer" if (now < before) is higher else "stricter"
