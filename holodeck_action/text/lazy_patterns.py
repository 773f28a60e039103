"""Patterns that are compiled when they are used first: most runs use few of the patterns that their modules declare."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_MEMBERS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn", "pattern", "flags", "groups")


class _LazyPattern:
    """Has the members of a compiled pattern from the first use of one of them."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _MEMBERS:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        # Python finds them there from now on, without this method.
        self.__dict__.update((member, getattr(compiled, member)) for member in _MEMBERS)
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that compiles itself at its first use; the arguments are those of `re.compile`.

    It is no argument for functions of `re`: call its own methods.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
