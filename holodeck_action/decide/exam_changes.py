"""`ExamChanges`: how the terms of a run differ from those of its base, each as a phrase with its places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.suite.errors import SourceMark, quoted
from holodeck_action.suite.model.policy import Reaction

Way = Literal["laxer", "changed", "unknown"]
"""Which way a term changed: `changed` where nobody can tell, `unknown` where the base does not tell its term."""
_PLAIN = re.compile(r"\w[\w./-]{0,59}", re.ASCII)
_NAMED = 3
MOST_NAMED = 20
"""Cases that a message with room names."""
MOST_CHANGES = 4
"""Changes that a first line names."""


class ChangedPlace(Struct, frozen=True, omit_defaults=True):
    """A case, a metric on it, or a key that a change is about.

    Attributes:
        name: the case's name, or its id without one; empty where it is not about a case.
        source: where it stands in the files; None where that is not known.
        of_base: whether that is a file of the base: the run no longer has it.
    """

    name: str
    source: SourceMark | None = None
    of_base: bool = False

    def __str__(self) -> str:
        """Say where it stands; empty where that is not known."""
        if self.source is None:
            return ""
        where = f"{self.source.file}:{self.source.line}" if self.source.column else str(self.source)
        return f"{where} on the base" if self.of_base else where


class ExamChange(Struct, frozen=True):
    """A change of the terms.

    Attributes:
        way: `laxer`; `changed` where nobody can tell which way; `unknown` where the base does not tell its term.
        said: a phrase with a verb, such as `lowers min_pass_rate from 1 to 0.5`, before the names of cases.
        places: what it is about.
    """

    way: Way
    said: str
    places: tuple[ChangedPlace, ...]

    @property
    def text(self) -> str:
        """The phrase with the first cases and the first place: plain text, with names that are not ours."""
        return phrase(self, _NAMED)


class ExamChanges(Struct, frozen=True):
    """All changes of the terms.

    Attributes:
        reaction: what they do: the stricter word of `baseline.on_loosened` of base and run.
        changes: laxer ones first, then those without a direction, then what is not known.
    """

    reaction: Reaction
    changes: tuple[ExamChange, ...]

    @property
    def shown(self) -> tuple[ExamChange, ...]:
        """The changes that reports show: none where they are to be ignored."""
        return () if self.reaction == "ignore" else self.changes

    @property
    def definite(self) -> int:
        """How many are known to be changes."""
        return sum(change.way != "unknown" for change in self.changes)


def phrase(change: ExamChange, most: int) -> str:
    """Return a change with its first cases, and where the first stands: plain text, with names that are not ours."""
    names = [plain_name(place.name) for place in change.places[:most] if place.name]
    more = len(change.places) - len(names)
    listed = listing(names + ([f"{more:,} more"] if names and more > 0 else []))
    where = str(next(iter(change.places), ""))
    return change.said + (f" {listed}" if names else "") + (f" at {where}" if where else "")


def sentence(
    changes: Sequence[ExamChange], most: int = MOST_CHANGES, shown: Callable[[str], str] = lambda text: text
) -> str:
    """Return changes as the end of a sentence, such as `removes c11 and quarantines c3`; `shown` escapes each."""
    phrases = [shown(change.text) for change in changes[:most]]
    if len(changes) > most:
        phrases.append(f"{len(changes) - most:,} more")
    return listing(phrases)


def listing(parts: Sequence[str]) -> str:
    """Join parts with commas and `and`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def plain_name(name: str) -> str:
    """Return a name from a suite: a word as it is, anything else in quotes, cut."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def in_order(changes: Iterable[ExamChange]) -> tuple[ExamChange, ...]:
    """Return laxer changes first, what is not known last."""
    order = ("laxer", "changed", "unknown")
    return tuple(sorted(changes, key=lambda change: order.index(change.way)))
