"""Argument matchers of expected tool calls (literal, fuzzy, regex), and the text of calls in messages."""

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
"""Maximum characters of a name, value or pattern in a message."""
LISTED = 10
"""Maximum items of a list in a message."""


def format_matcher(matcher: ArgumentMatcher) -> str:
    """Return a matcher as text: `60.94`, `"14%" (fuzzy)`, `/A-[0-9]+/`."""
    if matcher.kind == "regex":
        return format_pattern(matcher.value)
    return format_value(matcher.value) + (" (fuzzy)" if matcher.kind == "fuzzy" else "")


def format_pattern(pattern: str) -> str:
    """Return a pattern between slashes, shortened and on one line."""
    return f"/{format_text(pattern)}/"


def format_value(value: Any) -> str:
    """Return a JSON value as shortened JSON text on one line."""
    if isinstance(value, str):
        return f'"{format_text(value)}"'
    try:
        pieces = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
        return format_text("".join(islice(pieces, EXCERPT)))
    except (ValueError, RecursionError):
        return f"({type(value).__name__} too large to show)"


def format_text(text: str, limit: int = EXCERPT) -> str:
    """Return at most `limit` characters of an untrusted text, with unprintable characters escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:limit])
    return shown + ("..." if len(text) > limit else "")


def quote_name(name: str) -> str:
    """Return a name in quotes."""
    return excerpt(name, EXCERPT)


def format_entry(entry: ExpectedTool, *, is_single: bool = False) -> str:
    """Return an entry as text: `subtract(a=60.94)`, `search(q="x" (fuzzy)) at least 2 times`.

    `is_single` omits the counts.
    """
    arguments = [f"{format_text(name)}={format_matcher(matcher)}" for name, matcher in (entry.args or {}).items()]
    call = format_text(entry.name) + (f"({join_first(arguments)})" if arguments else "")
    if is_single or (entry.count == 1 and entry.max_count is None):
        return call
    if entry.max_count is None:
        return f"{call} at least {entry.count} times"
    times = f"{entry.count}" if entry.count == entry.max_count else f"{entry.count} to {entry.max_count}"
    return f"{call} {times} time{'' if times == '1' else 's'}"


def format_calls(calls: Sequence[ToolInvocation]) -> str:
    """Return the names of the calls in order, with their errors."""
    return f"calls: {join_first(map(_name_with_error, calls))}" if calls else "no tool was called"


def _name_with_error(call: ToolInvocation) -> str:
    name = format_text(call.name)
    return name if call.error is None else f"{name} (ended in an error: {format_text(call.error)})"


def describe_error(index: int, calls: Sequence[ToolInvocation]) -> str:
    """Return a sentence about the error of a call."""
    return f"call {index + 1} of {len(calls)} ended in an error: {format_text(calls[index].error or '')}"


def join_first(texts: Iterable[str]) -> str:
    """Join the first few strings, and add the number of further strings."""
    shown = list(texts)
    return ", ".join(shown[:LISTED]) + and_more(len(shown) - LISTED)


def and_more(number: int) -> str:
    """Return ` and n more`, or an empty string if `number` is not positive."""
    return f" and {number} more" if number > 0 else ""


def format_call(call: ToolInvocation) -> str:
    """Return a call as text: `subtract(a=60.94)`."""
    arguments = [f"{format_text(name)}={format_value(value)}" for name, value in islice(call.args.items(), LISTED)]
    rest = and_more(len(call.args) - LISTED)
    return format_text(call.name) + (f"({', '.join(arguments)}{rest})" if arguments else "")


def argument_mismatch(entry: ExpectedTool, argument: str, call: ToolInvocation) -> str:
    """Return a clause with the value of an argument in a call, and the value that `entry` expects."""
    assert entry.args is not None
    matcher = entry.args[argument]
    if argument not in call.args:
        return f"{format_text(argument)} is missing, expected {format_matcher(matcher)}"
    got, expected = format_value(call.args[argument]), format_matcher(matcher)
    differs = " that continues differently" if got == expected else ""
    return f"{format_text(argument)} is {got}, expected {expected}{differs}"


FUZZY_TOLERANCE = 1e-9
"""Absolute difference up to which two numbers are equal for the fuzzy matcher."""
PATTERN_SECONDS = 1.0
"""Maximum seconds for matching one pattern with one value."""
CHECK_SECONDS = 10.0
"""Maximum seconds for all patterns of one check together."""

_DELETED_BY_FUZZY = str.maketrans("", "", ",_\u202f")


class PatternError(EvaluationError):
    """A pattern does not compile (code `pattern_invalid`) or takes too long (code `pattern_timeout`)."""


class FuzzyText(NamedTuple):
    """A text normalised for the fuzzy matcher, and the number that it represents or None."""

    text: str
    number: float | None


class ArgumentValue:
    """A JSON value in a call; its text and fuzzy form are computed when first needed."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @cached_property
    def text(self) -> str | None:
        """`str(value)`, which patterns are matched against.

        None for the few values that Python cannot convert: integers with more than 4,300 digits, and nesting beyond the
        recursion limit. Such values match no pattern and no fuzzy text.
        """
        try:
            return str(self.value)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def fuzzy(self) -> FuzzyText | None:
        """The normalised form of `text` for the fuzzy matcher; None if `text` is None."""
        return None if self.text is None else fuzzy_form(self.text)


class TimedPatterns:
    """Matches regular expressions; all patterns of a check share one time limit.

    Args:
        seconds: time limit for all patterns together.
    """

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._left = seconds

    def fullmatch(self, pattern: str, text: str) -> bool:
        """Return whether the whole of `text` matches `pattern`, case-sensitively.

        Raises:
            PatternError: the pattern does not compile or takes too long.
        """
        return self._match_in_time(pattern, lambda compiled, limit: compiled.fullmatch(text, timeout=limit)) is not None

    def search(self, pattern: str, text: str) -> tuple[int, int] | None:
        """Return (start, end) of the first match of `pattern` in `text`; None if nothing matches.

        Raises:
            PatternError: the pattern does not compile or takes too long.
        """
        found = self._match_in_time(pattern, lambda compiled, limit: compiled.search(text, timeout=limit))
        return None if found is None else found.span()

    def _match_in_time(
        self, pattern: str, match: Callable[[regex.Pattern[str], float], regex.Match[str] | None]
    ) -> regex.Match[str] | None:
        compiled = _compile_pattern(pattern)
        if self._left <= 0.0:
            raise self._timeout_error(pattern)
        start = perf_counter()
        try:
            found = match(compiled, min(PATTERN_SECONDS, self._left))
        except TimeoutError:
            self._left -= perf_counter() - start
            raise self._timeout_error(pattern) from None
        self._left -= perf_counter() - start
        return found

    def _timeout_error(self, pattern: str) -> PatternError:
        if self._left > 0.0:
            limit = f"it took longer than {PATTERN_SECONDS:g} s on one value"
        else:
            limit = f"the patterns of this check took {self._seconds:g} s in total"
        return PatternError(
            f"the pattern {format_pattern(pattern)} was stopped because {limit}: make it simpler, for instance without "
            "one repetition inside another",
            code="pattern_timeout",
        )


def compile_matcher(matcher: ArgumentMatcher, patterns: TimedPatterns) -> Callable[[ArgumentValue], bool]:
    """Return a predicate that tests whether a matcher accepts a value; it raises `PatternError` if a pattern fails."""
    if matcher.kind == "literal":
        expected = matcher.value
        return lambda actual: literal_equal(expected, actual.value)
    if matcher.kind == "fuzzy":
        wanted = fuzzy_form(matcher.value)
        return lambda actual: actual.fuzzy is not None and fuzzy_equal(wanted, actual.fuzzy)
    pattern: str = matcher.value
    return lambda actual: actual.text is not None and patterns.fullmatch(pattern, actual.text)


def literal_equal(expected: Any, actual: Any) -> bool:
    """Return whether two JSON values are equal by the literal rule.

    Numbers are equal by value without tolerance (two integers exactly, otherwise as floats). A boolean equals only a
    boolean, null only null, and a string only the same string; lists are compared element by element, objects key by
    key. NaN equals no number. Size and depth are not limited.
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
    """Return whether `value` is an integer or a float; booleans are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(number: float) -> float:
    """Return a number as a float; NaN, which equals no float, for an integer beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.nan


def fuzzy_form(text: str) -> FuzzyText:
    """Normalise a text for the fuzzy matcher.

    The text is stripped and lower-cased, `,`, `_` and U+202F are removed, and white space is collapsed. The number is
    parsed without inner spaces; a trailing `%` divides it by 100.
    """
    normal = " ".join(text.lower().translate(_DELETED_BY_FUZZY).split())
    return FuzzyText(normal, _parse_number(normal))


def _parse_number(normal: str) -> float | None:
    digits = normal.replace(" ", "")
    percent = digits.endswith("%")
    try:
        number = float(digits.removesuffix("%"))
    except ValueError:
        return None
    # Different numbers beyond the range of floats must not become equal as infinity.
    if math.isinf(number) and "inf" not in digits:
        return None
    return number / 100 if percent else number


def fuzzy_equal(left: FuzzyText, right: FuzzyText) -> bool:
    """Return whether normalised texts are equal: numbers within 1e-9 (NaN equals no number), others exactly."""
    if left.number is None or right.number is None:
        return left.text == right.text
    return left.number == right.number or abs(left.number - right.number) <= FUZZY_TOLERANCE


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> regex.Pattern[str]:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        reason = str(error).partition("\n")[0] or "it is too deeply nested"
        raise PatternError(
            f"the pattern {format_pattern(pattern)} does not compile: {reason}", code="pattern_invalid"
        ) from None
