"""Divides cases that fail only by scores into groups that share an answer, a tag, a file or a word of the title."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

from holodeck_action.reports.report_views import CaseView
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

Kind = Literal["answer", "tag", "file", "word"]

_MIN_CASES: dict[Kind, int] = {"answer": 2, "tag": 2, "file": 2, "word": 3}
"""Minimum number of cases that share a trait, for each kind of trait in the order of preference."""
_MIN_PROPORTION = 0.1
"""Minimum proportion of the cases that share a trait."""
_MIN_RATIO = 2.0
"""A trait counts if it is at least this many times as frequent in the failing cases as in the passing cases."""
_MAX_PASSING = 500
"""Maximum number of passing cases to look at."""
_MAX_TEXT = 300
_WORD = lazy_pattern(r"[^\W\d_]{4,40}")
_MAX_WORDS = 20


class Trait(NamedTuple):
    """A property that cases can share, such as `("tag", "refund")`."""

    kind: Kind
    value: str


class _HasTraits(Protocol):
    @property
    def traits(self) -> tuple[Trait, ...]: ...


_C = TypeVar("_C", bound=_HasTraits)


def traits_of(case: CaseView) -> tuple[Trait, ...]:
    """Return the traits of a case; its answer is the one in the turn that explains its outcome."""
    return tuple(_traits(case))


def split_by_trait(
    cases: Sequence[_C], passing_shares: Callable[[], Mapping[Trait, float] | None]
) -> Iterator[tuple[str, Sequence[_C]]]:
    """Divide cases into groups that share a trait.

    A shared answer is always used as a trait. Other traits are used only if they are at least twice as frequent in
    these cases as in the passing cases, so that a property of the whole suite is not taken for a cause; they are not
    used if no case passes. Larger groups are formed first.

    Args:
        cases: the cases.
        passing_shares: returns the proportion of the passing cases that have each trait; None if no case passes.

    Yields:
        A description of each trait, such as `tag "refund"`, with its cases; finally an empty string with the cases that
        share no such trait.
    """
    rest = list(cases)
    if not any(case.traits for case in cases):
        yield "", rest
        return
    elsewhere = passing_shares()
    for kind, fewest in _MIN_CASES.items():
        while found := _most_common(kind, rest, max(fewest, _MIN_PROPORTION * len(cases)), elsewhere):
            yield _trait_text(found), [case for case in rest if found in case.traits]
            rest = [case for case in rest if found not in case.traits]
    if rest:
        yield "", rest


def _trait_text(trait: Trait) -> str:
    value = one_line(trait.value, 80)
    match trait.kind:
        case "answer":
            return f'the same answer "{value}"'
        case "word":
            return f'"{value}" in the title'
        case _:
            return f'{trait.kind} "{value}"'


def _traits(case: CaseView) -> Iterator[Trait]:
    turn = case.turn_at_fault
    if turn is not None and turn.response and turn.response.strip():
        yield Trait("answer", " ".join(turn.response[:_MAX_TEXT].split()))
    yield from (Trait("tag", tag) for tag in case.tags)
    yield Trait("file", case.source.file)
    words = _WORD.findall(case.title[:_MAX_TEXT].casefold())
    yield from (Trait("word", word) for word in dict.fromkeys(words[:_MAX_WORDS]))


def trait_shares(passing: Sequence[CaseView]) -> Mapping[Trait, float] | None:
    """Return the proportion of the passing cases that have each trait; None if no case passes."""
    step = -(-len(passing) // _MAX_PASSING) or 1
    looked = range(0, len(passing), step)
    counts = Counter(trait for at in looked for trait in traits_of(passing[at]))
    return {trait: count / len(looked) for trait, count in counts.items()} if looked else None


def _most_common(
    kind: Kind, cases: Sequence[_HasTraits], min_cases: float, other_shares: Mapping[Trait, float] | None
) -> Trait | None:
    counts = Counter(trait for case in cases for trait in case.traits if trait.kind == kind)
    for trait, count in counts.most_common():
        if count < min_cases:
            return None
        if kind == "answer":
            return trait
        if other_shares is not None and count / len(cases) >= _MIN_RATIO * other_shares.get(trait, 0.0):
            return trait
    return None
