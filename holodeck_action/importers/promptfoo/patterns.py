"""Regular expressions of JavaScript as Python's, where both mean the same."""

from __future__ import annotations

import re
import warnings

from holodeck_action.importers.source import UnfitError

_SPACES = r"\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""What `\\s` matches in JavaScript."""
_ALIKE = frozenset("tnrvfdDwWbB") | frozenset("^$\\.*+?()[]{}|/-\"'`,:;=!<>@#%&~_ ")
_HEX = {"x": 2, "u": 4}
_REPEATED = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")


def python_pattern(pattern: str) -> str:
    """Translate a pattern without flags, for `re.search` with `re.ASCII`.

    Raises:
        UnfitError: it is no pattern of JavaScript, or its meaning may differ.
    """
    made: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        character, rest = pattern[at], pattern[at:]
        taken = 1
        if character == "\\":
            translated, taken = _escape(rest, in_class)
        elif in_class:
            in_class = character != "]"
            # Python warns of what may mean a set one day.
            translated = f"\\{character}" if character in "[&|~" else character
        elif character == "[":
            in_class = True
            if rest.startswith(("[]", "[^]")):
                raise _unfit("an empty set of characters")
            taken = 2 if rest.startswith("[^") else 1
            translated = rest[:taken]
        elif character == ".":
            translated = r"[^\n\r\u2028\u2029]"
        elif character == "$":
            translated = r"\Z"
        elif rest.startswith("(?"):
            translated, taken = _group(rest)
        elif character == "{" and not _REPEATED.match(rest):
            # Where JavaScript sees a text, Python may see a number of repetitions.
            translated = r"\{"
        elif character in "*+?}" and rest[1:2] == "+":
            raise _unfit("a quantifier after a quantifier")
        else:
            translated = character
        made.append(translated)
        at += taken
    result = "".join(made)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(result, re.ASCII)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise _unfit(str(error)) from None
    return result


def _escape(rest: str, in_class: bool) -> tuple[str, int]:
    kind = rest[1:2]
    if kind in ("s", "S"):
        if in_class:
            if kind == "S":
                raise _unfit(r"\S in a set of characters")
            return _SPACES, 2
        return f"[{'^' if kind == 'S' else ''}{_SPACES}]", 2
    if in_class and kind == "B":
        raise _unfit(r"\B in a set of characters")
    if kind in _HEX:
        digits = rest[2 : 2 + _HEX[kind]]
        if re.fullmatch(f"[0-9a-fA-F]{{{_HEX[kind]}}}", digits) and not re.match(
            "[dD][89a-fA-F]", digits * (kind == "u")
        ):
            return f"\\{kind}{digits}", 2 + len(digits)
    elif kind in _ALIKE and kind:
        # A slash, quotes and the like need no escape in Python, which allows it.
        return rest[:2], 2
    elif kind == "0" and not rest[2:3].isdigit():
        return r"\x00", 2
    raise _unfit(f"\\{kind}")


def _group(rest: str) -> tuple[str, int]:
    for same in ("(?:", "(?=", "(?!", "(?<=", "(?<!"):
        if rest.startswith(same):
            return same, len(same)
    named = re.match(r"\(\?<([A-Za-z_]\w*)>", rest, re.ASCII)
    if named:
        return f"(?P<{named[1]}>", len(named[0])
    raise _unfit(rest[:4])


def _unfit(what: str) -> UnfitError:
    return UnfitError(f"the pattern may mean something else in Python ({what}); write a grader for it")
