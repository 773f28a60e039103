"""Regular expressions of a suite: whether they compile, and within a moment."""

from __future__ import annotations

import re

_SEGMENT = r"[A-Za-z_][\w-]*(?:\[[0-9]{1,9}\])*"
RESPONSE_PATH = rf"^{_SEGMENT}(?:\.{_SEGMENT})*$"
"""Grammar of `response_path`."""

MOST_PARTS = 50_000
"""Parts of a pattern with its repetitions written out, as the library does with their least numbers: about a second."""

_TOKEN = re.compile(r"\(\?#[^)]*\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|[()*+?]|.", re.DOTALL)
_PLAIN_TOKEN = re.compile(r"\\.|\{(\d+)(?:,\d*)?\}|[()*+?]|.", re.DOTALL)
"""As above, where brackets and comments are nothing special: what hides in one reading shows in the other."""


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used, a clause; None where it can."""
    if max(_parts(pattern, _TOKEN), _parts(pattern, _PLAIN_TOKEN)) > MOST_PARTS:
        return f"its repetitions inside each other come to more than {MOST_PARTS:,} parts"
    # Only suites with patterns pay for the import.
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        return str(error).partition("\n")[0] or "it is too deeply nested"
    return None


def _parts(pattern: str, token: re.Pattern[str]) -> int:
    """Estimate the parts of a pattern in which `(?:ab){3}` stands for `ababab`."""
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
