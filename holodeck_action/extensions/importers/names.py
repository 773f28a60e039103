"""Names of cases, folders and graders: no two are equal."""

from __future__ import annotations


class Names:
    """Gives names that are unique: what is taken gets a number."""

    def __init__(self, form: str) -> None:
        """Begin with none; `form` puts a number behind a name, such as `{} ({})`."""
        self._form = form
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Take a name, or the next one like it that is free."""
        made = name
        while made in self._taken:
            # Counted on, so that many equal names take no longer than others.
            number = self._numbers[name] = self._numbers.get(name, 1) + 1
            made = self._form.format(name, number)
        self._taken.add(made)
        return made
