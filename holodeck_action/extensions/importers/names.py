"""Unique names of cases, folders and graders."""

from __future__ import annotations


class Names:
    """Makes names unique by appending a number to names that are already taken."""

    def __init__(self, form: str) -> None:
        """Start with no names taken; `form` is the format of a name with a number, such as `{} ({})`."""
        self._form = form
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Return the name, with a number if it is already taken, and mark the result as taken."""
        made = name
        while made in self._taken:
            # Counting goes on from the last number, so that many equal names stay fast.
            number = self._numbers[name] = self._numbers.get(name, 1) + 1
            made = self._form.format(name, number)
        self._taken.add(made)
        return made
