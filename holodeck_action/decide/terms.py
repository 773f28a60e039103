"""Which way each term of a run is stricter: declared once for each field of what a record keeps of its terms.

`DECLARED` names every field of those values. A field that is in no declaration fails a test.
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
    GateMetric,
    Gates,
    GateSummary,
    QuarantineEntry,
    Reaction,
)

Way = Literal["laxer", "stricter", "changed"]
"""What became of a term; `changed` where nobody can tell which way."""


class Higher(Struct, frozen=True):
    """Higher is stricter. None switches it off, or is `absent`."""

    absent: float | None = None

    def way(self, before: Any, now: Any) -> Way | None:
        """Tell what became of a value; None if nothing did."""
        return _by_number(before, now, self.absent, higher=True)


class Lower(Struct, frozen=True):
    """Lower is stricter. None switches it off, or is `absent`."""

    absent: float | None = None

    def way(self, before: Any, now: Any) -> Way | None:
        """Tell what became of a value; None if nothing did."""
        return _by_number(before, now, self.absent, higher=False)


class Ordered(Struct, frozen=True):
    """One of some values, from the least strict to the strictest."""

    values: tuple[Any, ...]

    def way(self, before: Any, now: Any) -> Way | None:
        """Tell what became of a value; None if nothing did."""
        if before == now:
            return None
        return "laxer" if self.values.index(now) < self.values.index(before) else "stricter"


class Fewer(Struct, frozen=True):
    """A set that is stricter with fewer members; None is another kind of term."""

    def way(self, before: Collection[Any] | None, now: Collection[Any] | None) -> Way | None:
        """Tell what became of a set; None if nothing did."""
        if before is None or now is None:
            return None if before is now else "changed"
        old, new = set(before), set(now)
        if old == new:
            return None
        return "laxer" if new > old else "stricter" if new < old else "changed"


class Given(Struct, frozen=True):
    """Stricter if there is one; another one is not compared here."""

    def way(self, before: Any, now: Any) -> Way | None:
        """Tell what became of a value; None if there is one before and now, or none."""
        if (before is None) == (now is None):
            return None
        return "laxer" if now is None else "stricter"


class Other(Struct, frozen=True):
    """Another one is a change of which nobody can tell which way it goes."""

    def way(self, before: Any, now: Any) -> Way | None:
        """Tell what became of a value; None if nothing did."""
        return None if before == now else "changed"


class Parts(Struct, frozen=True):
    """Values with terms of their own; None, or one that is missing, switches all of them off."""


class Joint(Struct, frozen=True):
    """A term together with other fields, which `holodeck_action.decide.exam_cases` compares."""

    why: str


class Aside(Struct, frozen=True):
    """No term, and why."""

    why: str


Term = Higher | Lower | Ordered | Fewer | Given | Other | Parts | Joint | Aside
Compared = Higher | Lower | Ordered | Fewer | Given | Other
EXPIRES = Lower()
"""The last day of a quarantine: an earlier one is stricter."""
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
        "marks": Aside("places of terms"),
        "schema_version": Aside("how the file is written"),
        "suite": Aside("which suite it is"),
        "provenance": Joint("filters leave out cases"),
        "chosen": Joint("which cases there are"),
        "run": Aside("when and how long"),
        "stopped": Aside("what happened"),
        "notices": Aside("what happened"),
        "summary": Aside("what was scored; which function it is, `gates.summary` says"),
        "cards": Aside("what judges were measured to be worth"),
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
        "source": Aside("where results come from; whether they are compared at all, the record says"),
        "on_missing": Ordered(("warn", "fail")),
        "margin": Lower(),
        "on_regressed": REACTIONS,
        "on_inconclusive": REACTIONS,
        "on_case_regression": REACTIONS,
        "on_loosened": REACTIONS,
    },
    QuarantineEntry: {
        "case": Aside("which case it is"),
        "reason": Aside("for readers"),
        "owner": Aside("for readers"),
        "expires": EXPIRES,
    },
    CaseRecord: {
        "id": Aside("which case it is"),
        "name": Aside("for readers"),
        "content_hash": Joint("questions and expectations"),
        "source": Aside("a place"),
        "last": Aside("a place"),
        "multi_turn": Aside("a part of `content_hash`"),
        "repeat": Joint("trials: how many must pass, and how many may fail"),
        "min_pass": Joint("trials: how many must pass, and how many may fail"),
        "planned_evaluations": Aside("follows from the metrics"),
        "not_applicable": Aside("follows from the metrics"),
        "asserting": Ordered((False, True)),
        "tags": Aside("they only choose cases"),
        "weight": Other(),
        "trials": Joint("criteria of the metrics on each turn"),
    },
    Criteria: {
        "kind": Other(),
        "metric": Other(),
        "threshold": Joint("`polarity` says which way it is stricter"),
        "asserts": Ordered((False, True)),
        "polarity": Other(),
        "fail_on_error": Ordered((False, True)),
        "settings": Other(),
        "pass_values": Fewer(),
        "source": Aside("a place"),
        "title": Aside("for readers"),
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
"""Each field of what a record keeps of its terms."""


@cache
def compared_fields(kind: type) -> Sequence[tuple[str, Compared]]:
    """Return the fields of a kind that are compared one by one, in the order of their declaration."""
    return [(name, term) for name, term in DECLARED[kind].items() if not isinstance(term, Parts | Joint | Aside)]


def trials_way(before: tuple[int, int], now: tuple[int, int]) -> Way | None:
    """Tell what became of the trials of a case: how often it is asked, and how many must pass.

    Asking n + 1 times with k + 1 passes needed is stricter than n and k: of the same trials more must pass. So fewer
    needed passes and more allowed failures are both laxer, whatever the agent is. None if nothing changed.
    """
    if before == now:
        return None
    needed, allowed = now[1] - before[1], (now[0] - now[1]) - (before[0] - before[1])
    if needed * allowed > 0:
        return "changed"
    return "stricter" if needed > 0 or allowed < 0 else "laxer"


def threshold_way(before: Criteria, now: Criteria) -> Way | None:
    """Tell what became of the threshold of a metric that could fail its case; None if nothing did."""
    if before.threshold == now.threshold:
        return None
    if before.threshold is None:
        # The metric had a verdict of its own.
        return "changed"
    if before.polarity == "neutral":
        return "changed"
    term: Higher | Lower = Higher() if before.polarity == "maximize" else Lower()
    return term.way(before.threshold, now.threshold)


def _by_number(before: Any, now: Any, absent: float | None, *, higher: bool) -> Way | None:
    before, now = (absent if value is None else value for value in (before, now))
    if before == now:
        return None
    if before is None or now is None:
        return "laxer" if now is None else "stricter"
    return "laxer" if (now < before) is higher else "stricter"
