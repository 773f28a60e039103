"""Checks of a suite's regular expressions: whether they compile, and fast enough."""

import re

from holodeck_action.text.lazy_patterns import lazy_pattern

_SEGMENT = r"[A-Za-z_][\w-]*(?:\[[0-9]{1,9}\])*"
RESPONSE_PATH = rf"^{_SEGMENT}(?:\.{_SEGMENT})*$"
"""Grammar of `response_path`."""

MOST_PARTS = 50_000
"""Maximum number of parts of a pattern after its repetitions are expanded; compiling them takes about a second."""

_TOKEN = lazy_pattern(r"\(\?#[^)]*\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|[()*+?]|.", re.DOTALL)
_PLAIN_TOKEN = lazy_pattern(r"\\.|\{(\d+)(?:,\d*)?\}|[()*+?]|.", re.DOTALL)
"""Like `_TOKEN`, but without brackets and comments, so that nothing can hide inside them."""


def pattern_problem(pattern: str) -> str | None:
    """Return a clause about why a pattern cannot be used; None if the pattern is valid."""
    if max(_count_parts(pattern, _TOKEN), _count_parts(pattern, _PLAIN_TOKEN)) > MOST_PARTS:
        return f"its nested repetitions expand to more than {MOST_PARTS:,} parts"
    # Imported only for suites with patterns.
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        return str(error).partition("\n")[0] or "it is too deeply nested"
    return None


def _count_parts(pattern: str, token: re.Pattern[str]) -> int:
    """Return an estimate of the number of parts of a pattern with its repetitions expanded: `(?:ab){3}` counts as
    `ababab`."""
    groups = [0]
    last = 0
    for match in token.finditer(pattern):
        found = match.group()
        if found == "(":
            groups.append(0)
            last = 0
        elif found == ")":
            last = groups.pop() if len(groups) > 1 else groups[0]
            groups[-1] += last
        elif match.group(1) is not None:
            # More digits than any number of repetitions has.
            least = int(match.group(1)[:9])
            groups[-1] += last * max(0, least - 1)
            last *= max(1, least)
        elif found not in "*+?":
            groups[-1] += 1
            last = 1
    return sum(groups)
