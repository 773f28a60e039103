"""Argument matchers of expected tool calls (literal, fuzzy, regex), and how messages show calls."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import excerpt
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool

if TYPE_CHECKING:
    import regex


EXCERPT = 80
"""Characters of a name, value or pattern that a message shows."""
LISTED = 10
"""Items of a list that a message shows."""


def shown_matcher(matcher: ArgumentMatcher) -> str:
    """Return a readable form of what a matcher expects: `60.94`, `"14%" (fuzzy)`, `/A-[0-9]+/`."""
    if matcher.kind == "regex":
        return shown_pattern(matcher.value)
    return shown_value(matcher.value) + (" (fuzzy)" if matcher.kind == "fuzzy" else "")


def shown_pattern(pattern: str) -> str:
    """Return a pattern between slashes, bounded and on one line."""
    return f"/{shown_text(pattern)}/"


def shown_value(value: Any) -> str:
    """Return a JSON value as bounded JSON text on one line."""
    if isinstance(value, str):
        return f'"{shown_text(value)}"'
    try:
        pieces = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
        return shown_text("".join(islice(pieces, EXCERPT)))
    except (ValueError, RecursionError):
        return f"({type(value).__name__} too large to show)"


def shown_text(text: str, limit: int = EXCERPT) -> str:
    """Return at most `limit` characters of a text that may be hostile, everything unprintable escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:limit])
    return shown + ("..." if len(text) > limit else "")


def quoted(name: str) -> str:
    """Return a name in quotes."""
    return excerpt(name, EXCERPT)


def shown_entry(entry: ExpectedTool, *, once: bool = False) -> str:
    """Return an entry in readable form: `subtract(a=60.94)`, `search(q="x" (fuzzy)) at least 2 times`.

    `once` leaves the counts out.
    """
    arguments = [f"{shown_text(name)}={shown_matcher(matcher)}" for name, matcher in (entry.args or {}).items()]
    call = shown_text(entry.name) + (f"({listed(arguments)})" if arguments else "")
    if once or (entry.count == 1 and entry.max_count is None):
        return call
    if entry.max_count is None:
        return f"{call} at least {entry.count} times"
    times = f"{entry.count}" if entry.count == entry.max_count else f"{entry.count} to {entry.max_count}"
    return f"{call} {times} time{'' if times == '1' else 's'}"


def listed_calls(calls: Sequence[ToolInvocation]) -> str:
    """Return the names of the calls, in the order they were made, with the errors in which they ended."""
    return f"calls: {listed(map(_with_error, calls))}" if calls else "no tool was called"


def _with_error(call: ToolInvocation) -> str:
    name = shown_text(call.name)
    return name if call.error is None else f"{name} (ended in an error: {shown_text(call.error)})"


def shown_error(index: int, calls: Sequence[ToolInvocation]) -> str:
    """Say in which error a call ended."""
    return f"call {index + 1} of {len(calls)} ended in an error: {shown_text(calls[index].error or '')}"


def listed(texts: Iterable[str]) -> str:
    """Return the first texts of a list and how many more there are."""
    shown = list(texts)
    return ", ".join(shown[:LISTED]) + more(len(shown) - LISTED)


def more(count: int) -> str:
    """Return ` and n more`, nothing when nothing is left."""
    return f" and {count} more" if count > 0 else ""


def shown_call(call: ToolInvocation) -> str:
    """Return an actual call in readable form: `subtract(a=60.94)`."""
    arguments = [f"{shown_text(name)}={shown_value(value)}" for name, value in islice(call.args.items(), LISTED)]
    rest = more(len(call.args) - LISTED)
    return shown_text(call.name) + (f"({', '.join(arguments)}{rest})" if arguments else "")


def argument_mismatch(entry: ExpectedTool, argument: str, call: ToolInvocation) -> str:
    """Say what a call passed for an argument, and what `entry` expects there."""
    assert entry.args is not None
    matcher = entry.args[argument]
    if argument not in call.args:
        return f"{shown_text(argument)} is missing, expected {shown_matcher(matcher)}"
    got, expected = shown_value(call.args[argument]), shown_matcher(matcher)
    differs = " that goes on otherwise" if got == expected else ""
    return f"{shown_text(argument)} is {got}, expected {expected}{differs}"


FUZZY_TOLERANCE = 1e-9
"""Absolute difference up to which two numbers are fuzzily equal."""
PATTERN_SECONDS = 1.0
"""Longest time one pattern may work on one value."""
CHECK_SECONDS = 10.0
"""Longest time all patterns of one check may take together."""

_DELETED_BY_FUZZY = str.maketrans("", "", ",_\u202f")


class PatternError(EvaluationError):
    """A pattern does not compile (code `pattern_invalid`) or took longer than it may (code `pattern_timeout`)."""


class FuzzyText(NamedTuple):
    """A text as the fuzzy matcher sees it, and the number it stands for, if any."""

    text: str
    number: float | None


class ArgumentValue:
    """A JSON value an agent passed; its text and its fuzzy form are made once, when a matcher first asks."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @cached_property
    def text(self) -> str | None:
        """`str(value)`, which patterns see.

        None for the few values without a text, which match no pattern and no fuzzy text: whole numbers beyond Python's
        limit of 4,300 digits, and nesting beyond its recursion limit.
        """
        try:
            return str(self.value)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def fuzzy(self) -> FuzzyText | None:
        """The fuzzy form of `text`."""
        return None if self.text is None else fuzzy_form(self.text)


class PatternClock:
    """The time that the patterns of one check may take together.

    Args:
        seconds: how long.
    """

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._left = seconds

    def fullmatch(self, pattern: str, text: str) -> bool:
        """Tell whether the whole of `text` matches `pattern`, case-sensitively.

        Raises:
            PatternError: the pattern does not compile, or time ran out.
        """
        compiled = _compiled(pattern)
        if self._left <= 0.0:
            raise self._too_slow(pattern)
        start = perf_counter()
        try:
            matched = compiled.fullmatch(text, timeout=min(PATTERN_SECONDS, self._left))
        except TimeoutError:
            self._left -= perf_counter() - start
            raise self._too_slow(pattern) from None
        self._left -= perf_counter() - start
        return matched is not None

    def _too_slow(self, pattern: str) -> PatternError:
        if self._left > 0.0:
            limit = f"it took longer than {PATTERN_SECONDS:g} s on one value"
        else:
            limit = f"the patterns of this check took {self._seconds:g} s together"
        return PatternError(
            f"the pattern {shown_pattern(pattern)} was stopped because {limit}: make it simpler, for instance without "
            "one repetition inside another",
            code="pattern_timeout",
        )


def compile_matcher(matcher: ArgumentMatcher, clock: PatternClock) -> Callable[[ArgumentValue], bool]:
    """Make the test that `matcher` stands for; the test raises `PatternError` when a pattern cannot be decided."""
    if matcher.kind == "literal":
        expected = matcher.value
        return lambda actual: literal_equal(expected, actual.value)
    if matcher.kind == "fuzzy":
        wanted = fuzzy_form(matcher.value)
        return lambda actual: actual.fuzzy is not None and fuzzy_equal(wanted, actual.fuzzy)
    pattern: str = matcher.value
    return lambda actual: actual.text is not None and clock.fullmatch(pattern, actual.text)


def literal_equal(expected: Any, actual: Any) -> bool:
    """Compare two JSON values by the literal rule.

    Numbers are equal by value without tolerance (two integers exactly, otherwise as floats); a boolean equals only a
    boolean, null only null, a string only the same string; lists element by element, objects key by key. NaN equals
    nothing. Any size and depth is allowed.
    """
    pending = [(expected, actual)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, Mapping):
            if not isinstance(right, Mapping) or left.keys() != right.keys():
                return False
            pending.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list | tuple):
            if not isinstance(right, list | tuple) or len(left) != len(right):
                return False
            pending.extend(zip(left, right, strict=True))
        elif not _scalar_equal(left, right):
            return False
    return True


def _scalar_equal(left: Any, right: Any) -> bool:
    if not (is_number(left) and is_number(right)):
        return type(left) is type(right) and bool(left == right)
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return as_float(left) == as_float(right)


def is_number(value: Any) -> bool:
    """Tell whether `value` is an integer or a float; booleans are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(number: float) -> float:
    """Return the float value of a number; NaN for integers beyond the range of floats, which equal no float."""
    try:
        return float(number)
    except OverflowError:
        return math.nan


def fuzzy_form(text: str) -> FuzzyText:
    """Normalise a text for the fuzzy rule.

    Stripped, lower-cased, without `,`, `_` and U+202F, white space collapsed; as a number it is read without inner
    spaces, a trailing `%` dividing by 100.
    """
    normal = " ".join(text.lower().translate(_DELETED_BY_FUZZY).split())
    return FuzzyText(normal, _number_in(normal))


def _number_in(normal: str) -> float | None:
    digits = normal.replace(" ", "")
    percent = digits.endswith("%")
    try:
        number = float(digits.removesuffix("%"))
    except ValueError:
        return None
    # Two different numbers beyond the range of floats must not meet at infinity.
    if math.isinf(number) and "inf" not in digits:
        return None
    return number / 100 if percent else number


def fuzzy_equal(left: FuzzyText, right: FuzzyText) -> bool:
    """Compare two normalised texts: as numbers within 1e-9 when both are numbers (NaN equals nothing), else exactly."""
    if left.number is None or right.number is None:
        return left.text == right.text
    return left.number == right.number or abs(left.number - right.number) <= FUZZY_TOLERANCE


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        reason = str(error).partition("\n")[0] or "it is too deeply nested"
        raise PatternError(
            f"the pattern {shown_pattern(pattern)} does not compile: {reason}", code="pattern_invalid"
        ) from None
