"""`TermsChanges`: the changes of a run's terms since its base, as phrases with positions in files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from holodeck_action.suite.errors import SourceMark, quoted
from holodeck_action.suite.model.policy import Reaction
from holodeck_action.text.lazy_patterns import lazy_pattern

Way = Literal["laxer", "changed", "unknown", "noted"]
"""The direction of a change: `changed` if it is unclear, `unknown` if the base does not have the term, `noted` if no
reaction applies to it."""
Topic = Literal["removed cases", "gates", "quarantine", "grading code", "evidence", "questions", "surroundings"]
"""The subject of a change, in the order in which reports name them."""
_ORDER: tuple[Topic, ...] = get_args(Topic)
_ALWAYS_NAMED: tuple[Topic, ...] = ("removed cases", "gates", "quarantine", "grading code", "evidence")
_WITHOUT_DIRECTION: tuple[Topic, ...] = ("grading code", "evidence")
"""Subjects whose changes have their own reaction."""
_PLAIN = lazy_pattern(r"\w[\w./-]{0,59}", re.ASCII)
_CASES_NAMED = 3
MAX_CASES_NAMED = 20
"""Maximum number of cases that a long message names."""
MOST_CHANGES = 4
"""Maximum number of changes that the first line of a report names."""


class ChangedPlace(Struct, frozen=True, omit_defaults=True):
    """The place of a change: a case, a metric of a case, or a key of the policy file.

    Attributes:
        name: the case's name, or its id if it has no name; empty for a key.
        source: the position in a file; None if unknown.
        of_base: whether the position is in the base's file, because the run no longer has this case, metric or key.
    """

    name: str
    source: SourceMark | None = None
    of_base: bool = False

    def __str__(self) -> str:
        """Return the position as a string; empty if unknown."""
        if self.source is None:
            return ""
        return f"{self.source.short} on the base" if self.of_base else self.source.short


class TermsChange(Struct, frozen=True, omit_defaults=True):
    """A term that differs from the base's, such as a lower `min_pass_rate`.

    Attributes:
        way: `laxer`; `changed` if the direction is unclear; `unknown` if the base does not have the term; `noted` if no
            reaction applies.
        said: the change as a phrase with a verb, such as `lowers min_pass_rate from 1 to 0.5`; names of cases can be
            appended.
        places: the changed cases, metrics or keys.
        topic: the subject.
    """

    way: Way
    said: str
    places: tuple[ChangedPlace, ...]
    topic: Topic = "questions"

    @property
    def without_direction(self) -> bool:
        """Whether it is a change of grading code or evidence, which is neither stricter nor less strict."""
        return self.topic in _WITHOUT_DIRECTION

    @property
    def text(self) -> str:
        """The phrase with the first cases and the first position: plain text with untrusted names."""
        return change_phrase(self, _CASES_NAMED)


class TermsChanges(Struct, frozen=True):
    """All changes of the terms.

    Attributes:
        reaction: the stricter one of the base's and the run's `baseline.on_loosened`.
        changes: the changes (see `sort_changes`).
        on_changed_code: the workflow's reaction to other grading code and evidence; None if it is `reaction`.
    """

    reaction: Reaction
    changes: tuple[TermsChange, ...]
    on_changed_code: Reaction | None = None

    def reaction_to(self, change: TermsChange) -> Reaction:
        """Return the reaction to a change."""
        if change.way == "noted":
            return "ignore"
        own = self.on_changed_code if change.without_direction else None
        return self.reaction if own is None else own

    @property
    def reported_changes(self) -> tuple[TermsChange, ...]:
        """The changes that the first lines of reports name: those with a reaction other than `ignore`."""
        return tuple(change for change in self.changes if self.reaction_to(change) != "ignore")

    @property
    def listed_changes(self) -> tuple[TermsChange, ...]:
        """The changes that reports list: those of `reported_changes`, then those without a reaction."""
        return (*self.reported_changes, *(change for change in self.changes if change.way == "noted"))

    @property
    def failing_changes(self) -> tuple[TermsChange, ...]:
        """The changes with the reaction `fail`, unknown ones included."""
        return tuple(change for change in self.changes if self.reaction_to(change) == "fail")


def change_phrase(change: TermsChange, max_cases: int) -> str:
    """Return a change with its first `max_cases` cases and the first position: plain text with untrusted names."""
    names = [plain_name(place.name) for place in change.places[:max_cases] if place.name]
    more = len(change.places) - len(names)
    listed = join_phrases(names + ([f"{more:,} more"] if names and more > 0 else []))
    where = str(next(iter(change.places), ""))
    return change.said + (f" {listed}" if names else "") + (f" at {where}" if where else "")


def changes_clause(
    changes: Sequence[TermsChange],
    max_changes: int = MOST_CHANGES,
    format_phrase: Callable[[str], str] = lambda text: text,
) -> str:
    """Return the first `max_changes` changes as the end of a sentence, such as `removes c11 and quarantines c3`;
    `format_phrase` escapes each phrase. Removed cases, gates, quarantine, grading code and evidence are always named.
    """
    named = [change for at, change in enumerate(changes) if at < max_changes or change.topic in _ALWAYS_NAMED]
    phrases = [format_phrase(change.text) for change in named]
    if len(changes) > len(named):
        phrases.append(f"{len(changes) - len(named):,} more")
    return join_phrases(phrases)


def join_phrases(phrases: Sequence[str]) -> str:
    """Join phrases with commas and `and`."""
    return " and ".join(filter(None, (", ".join(phrases[:-1]), *phrases[-1:])))


def plain_name(name: str) -> str:
    """Return an untrusted name for plain text: one word unchanged, otherwise shortened and in quotation marks."""
    if _PLAIN.fullmatch(name):
        return name
    text = quoted(name)
    return text if '"' not in name or "'" in name else f"'{text[1:-1]}'".replace('\\"', '"')


def sort_changes(changes: Iterable[TermsChange]) -> tuple[TermsChange, ...]:
    """Return the changes sorted: removed cases first, then gates, quarantine and the rest; unknown and noted ones last.
    Within a subject, laxer ones are first."""
    ways = get_args(Way)

    def rank(change: TermsChange) -> tuple[bool, int, int]:
        way = ways.index(change.way)
        return way >= ways.index("unknown"), _ORDER.index(change.topic), way

    return tuple(sorted(changes, key=rank))
