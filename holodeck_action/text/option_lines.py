"""The lines of the Action's input `args`.

Uses only the standard library of Python 3.9 or newer, for `runner/start.py`.
"""

import re
from typing import NamedTuple, Optional

from holodeck_action.text.lazy_patterns import lazy_pattern

_OPTION = lazy_pattern(r"--([^\s=]+)(?:[\s=](.*))?", re.DOTALL)


class OptionLine(NamedTuple):
    """One line of `args`.

    Attributes:
        text: the whole line.
        option: the option's name without `--`; empty if the line is not an option.
        value: the text after the first white space or `=`; None if there is none.
    """

    text: str
    option: str
    value: Optional[str]  # noqa: UP045 - for Python 3.9

    @property
    def is_flag(self) -> bool:
        """Whether the line is an option without a value."""
        return bool(self.option) and self.value is None


def split_option_lines(text: str) -> tuple[OptionLine, ...]:
    """Return the lines of `args` that are not blank, without the white space around them.

    Nothing is unquoted, expanded or split further.
    """
    lines = (line.strip() for line in text.split("\n"))
    return tuple(_split_line(line) for line in lines if line)


def _split_line(line: str) -> OptionLine:
    found = _OPTION.fullmatch(line)
    if found is None:
        return OptionLine(line, "", None)
    return OptionLine(line, found[1], found[2] if found[2] is None else found[2].strip())
