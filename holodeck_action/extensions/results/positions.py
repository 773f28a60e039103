"""Finds the lines at which cases are defined, in the files of the other programs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from holodeck_action.extensions.results.stored import Definition, StoredCase, StoredCheck, StoredResults
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import read_foreign_yaml
from holodeck_action.text.foreign import Foreign, ForeignError

_DOCUMENTS = (".yaml", ".yml", ".json")
_REFERENCE = "file://"
_MOST_FILES = 200
"""Maximum number of files that one pattern may match."""


class _Place(NamedTuple):
    """Where a case is defined, with its data if it is in a document."""

    mark: SourceMark
    document: Document | None = None
    item: MarkedMap | None = None


def with_positions(results: StoredResults, checkout: Checkout) -> StoredResults:
    """Return results with the positions of cases and checks in the files of a checkout, as far as they are found."""
    files = _Files(checkout)
    return replace(results, cases=[_located(case, files) for case in results.cases])


def _located(case: StoredCase, files: _Files) -> StoredCase:
    if case.definition is None:
        return case
    names = dict.fromkeys(name for pattern in case.definition.files for name in files.matching(pattern))
    places = [place for name in names for place in files.places(name, case.definition)]
    if len(places) != 1:
        # Of several places, none is known to be the right one.
        return case
    trials = tuple(
        replace(trial, checks=tuple(_with_mark(check, places[0]) for check in trial.checks)) for trial in case.trials
    )
    return replace(case, source=places[0].mark, trials=trials)


def _with_mark(check: StoredCheck, place: _Place) -> StoredCheck:
    if place.document is None or place.item is None:
        return check
    listed = (place.item.get(key) for key in ("assert", "graders"))
    for graders in (each for each in listed if isinstance(each, MarkedList)):
        for index, grader in enumerate(graders):
            if isinstance(grader, MarkedMap) and _defines(grader, check):
                return replace(check, source=place.document.mark(*graders.value_position(index)))
    return check


def _defines(entry: MarkedMap, check: StoredCheck) -> bool:
    if "name" in entry:
        return bool(entry["name"] == check.name)
    return "type" in entry and all(entry.get(key) == check.settings.get(key) for key in ("type", "value"))


class _Files:
    """The files of a checkout, each read once."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._contents: dict[str, Foreign | None] = {}
        self._documents: dict[str, Document] = {}
        self._matching: dict[str, list[str]] = {}

    def matching(self, pattern: str) -> list[str]:
        """Return the files that a pattern matches, relative to the checkout's folder and inside it."""
        folder = self._checkout.folder
        if pattern not in self._matching:
            relative = os.path.relpath(folder / pattern, folder)
            try:
                found = sorted(glob.glob(relative, root_dir=folder, recursive=True))
            except ValueError:
                # No file has such a name: it has a null character, or half of another one.
                found = []
            inside = not relative.startswith("..") and len(found) <= _MOST_FILES
            self._matching[pattern] = [name for name in found if (folder / name).is_file()] if inside else []
        return self._matching[pattern]

    def places(self, name: str, definition: Definition) -> Iterator[_Place]:
        """Yield the places in a file that fit a definition."""
        content = self._read(name)
        if content is None:
            return
        if definition.function:
            starts = tuple(f"{word} {definition.function}(".encode(errors="replace") for word in ("def", "async def"))
            for number, line in enumerate(content.lines(), start=1):
                if line.parse(lambda data: data.lstrip().startswith(starts)):
                    yield _Place(SourceMark(name, number, 1))
        elif not name.endswith(_DOCUMENTS):
            yield _Place(SourceMark(name, 1, 1))
        else:
            document = self._document(name, content)
            if definition.test is None and isinstance(document.root, MarkedMap):
                yield _Place(SourceMark(name, 1, 1), document, document.root)
            elif definition.test is not None:
                yield from self._tests(document, definition.test)

    def _tests(self, document: Document, test: Mapping[str, Any]) -> Iterator[_Place]:
        root = document.root
        listed = root.get("tests", root.get("stimuli")) if isinstance(root, MarkedMap) else root
        items = listed if isinstance(listed, MarkedList) else MarkedList()
        for text in (listed, *items) if isinstance(root, MarkedMap) else ():
            if isinstance(text, str) and text.startswith(_REFERENCE):
                name = os.path.join(os.path.dirname(document.file), text.removeprefix(_REFERENCE))
                for file in filter(lambda name: name.endswith(_DOCUMENTS), self.matching(name)):
                    content = self._read(file)
                    tests = None if content is None else self._document(file, content)
                    if tests is not None and isinstance(tests.root, MarkedList):
                        yield from self._tests(tests, test)
        for index, item in enumerate(items):
            if isinstance(item, MarkedMap) and _is_test(item, test):
                yield _Place(document.mark(*items.value_position(index)), document, item)

    def _document(self, name: str, content: Foreign) -> Document:
        if name not in self._documents:
            self._documents[name] = read_foreign_yaml(content, file=name)
        return self._documents[name]

    def _read(self, name: str) -> Foreign | None:
        if name not in self._contents:
            try:
                self._contents[name] = self._checkout.read(name, MOST_YAML)
            except (OSError, ForeignError):
                self._contents[name] = None
        return self._contents[name]


def _is_test(item: MarkedMap, test: Mapping[str, Any]) -> bool:
    """Return whether a test of promptfoo's configuration became a given test, or whether a stimulus of Vally is a given
    one. Defaults add variables to a test, and a list of values makes a test of each."""
    if "name" in test:
        return bool(item.get("name") == test["name"])
    given, written = test.get("vars") or {}, item.get("vars") or {}
    if item.get("description") != test.get("description") or not isinstance(written, dict):
        return False
    return all(
        key in given and (given[key] == value or (isinstance(value, list) and given[key] in value))
        for key, value in written.items()
    )
