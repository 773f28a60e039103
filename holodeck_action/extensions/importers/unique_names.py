"""Unique names of cases, folders and graders."""

from __future__ import annotations


class UniqueNames:
    """Makes names unique: appends a number to a name that is already taken."""

    def __init__(self, name_format: str) -> None:
        """Start with no names taken; `name_format` is the format of a name with a number, such as `{} ({})`."""
        self._form = name_format
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Return the name, with a number if it is already taken, and mark the result as taken."""
        made = name
        while made in self._taken:
            # The last number is stored per name, because trying all numbers again would be slow for many equal names.
            number = self._numbers[name] = self._numbers.get(name, 1) + 1
            made = self._form.format(name, number)
        self._taken.add(made)
        return made
