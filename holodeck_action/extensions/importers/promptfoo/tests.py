"""Reads the test cases of a promptfoo configuration: inline, in files and in scenarios."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.importers.import_report import Outcome, Row
from holodeck_action.extensions.importers.promptfoo.rows import case_rows
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.source import MOST_CASES, Place, Source, UnfitError, place_of, plain
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.yaml.document import MarkedList, MarkedMap

_MAX_CHAIN = 20
"""Most references, or files that include each other, in a chain."""


class WrittenAssertion(Struct, frozen=True):
    """One assertion as written in the configuration."""

    place: Place
    data: Mapping[str, Any]


class Test(Struct, frozen=True):
    """One test case, with the configuration's defaults applied.

    Attributes:
        place: position of the case in its file.
        data: keys of the case that are not in the other attributes.
        variables: values of the variables in prompts.
        assertions: assertions of the defaults, then those of the case.
        options: options of the case, merged with the default options.
        problem: reason why the case cannot be imported; empty if there is none.
    """

    place: Place
    data: Mapping[str, Any]
    variables: Mapping[str, Any]
    assertions: Sequence[WrittenAssertion]
    options: Mapping[str, Any]
    problem: str = ""

    @property
    def threshold(self) -> float | None:
        """Lowest passing mean score over all assertions; None if each assertion must pass."""
        found = self.data.get("threshold")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    @property
    def unsupported_setting(self) -> str:
        """The setting that prevents running the case, with a remedy; empty if there is no such setting."""
        if self.data.get("provider"):
            return "provider: the case has its own provider; write a separate suite for it"
        if self.data.get("assertScoringFunction"):
            return "assertScoringFunction: code combines the scores of all assertions; write a code grader that decides"
        for key in ("storeOutputAs", "transformVars"):
            if self.options.get(key):
                return f"options.{key}: its value is known only at run time"
        return ""


class TestReader:
    """Reads the cases of a configuration, and collects report rows for the cases that cannot be read."""

    __test__ = False

    def __init__(
        self, source: Source, templates: Templates, configuration: Mapping[str, Any], types: frozenset[str]
    ) -> None:
        """Store the configuration's data; `types` are the names of all assertion types."""
        self._source = source
        self._templates = templates
        self._root = configuration
        self._types = types
        self.rows: list[Row] = []
        self._named = 0
        self._default = self._read_default_test()

    def tests(self) -> Iterator[Test]:
        """Yield all cases, one for each combination of their variables' values.

        Raises:
            ConfigurationError: there are too many cases.
        """
        for number, test in enumerate(self._all_tests(), 1):
            if number > MOST_CASES:
                raise ConfigurationError([f"{self._source.shown}: has more than {MOST_CASES:,} cases; split it"])
            yield test

    def _all_tests(self) -> Iterator[Test]:
        written = self._root.get("tests")
        place = place_of(self._source.name, self._root, "tests" if written is not None else None)
        for test in itertools.chain(self._read_tests(written, place), self._scenario_tests()):
            yield from self._expand_combinations(self._with_defaults(test))

    def _read_default_test(self) -> Test:
        written = self._root.get("defaultTest")
        place = place_of(self._source.name, self._root, "defaultTest" if written is not None else None)
        if isinstance(written, str):
            try:
                path = self._source.file_named(written.removeprefix("file://"))
                written = self._source.data(path)
                if not isinstance(written, dict):
                    raise UnfitError(f"{self._source.relative(path)} does not contain a mapping")
                place = Place(self._source.relative(path), 1)
            except UnfitError as error:
                self._add_missing(place, "defaultTest", str(error))
                return replace(self._read_test({}, place), problem=f"defaultTest: {error}")
        return self._read_test(written if isinstance(written, dict) else {}, place)

    def _add_missing(self, place: Place, source: str, reason: str) -> None:
        row = Row(place.file, place.line, source, "", Outcome.MISSING, reason, asserts=False, column=place.column)
        self.rows.append(row)

    def _extend_chain(self, path: Path, chain: Sequence[Path]) -> Sequence[Path]:
        """Return the chain of files that include each other, with one more file added at the end.

        Raises:
            UnfitError: the chain is circular or too long.
            ConfigurationError: the configuration includes files too often.
        """
        if path in chain or len(chain) == _MAX_CHAIN:
            raise UnfitError(f"the file {self._source.relative(path)} is included by files that include each other")
        self._named += 1
        if self._named > MOST_CASES:
            text = f"its files include others more than {MOST_CASES:,} times; write their content out"
            raise ConfigurationError([f"{self._source.shown}: {text}"])
        return (*chain, path)

    def _read_tests(self, entry: Any, place: Place, chain: Sequence[Path] = ()) -> Iterator[Test]:
        """Yield the cases of `tests`; an entry that is not a case, a list or a file name becomes a case with a
        problem."""
        if entry is None:
            return
        if isinstance(entry, list):
            for index, item in enumerate(entry):
                marked = isinstance(entry, MarkedList)
                yield from self._read_tests(item, place_of(place.file, entry, index) if marked else place, chain)
            return
        if isinstance(entry, dict) and not ("path" in entry and "vars" not in entry and "assert" not in entry):
            yield self._read_test(self._resolve_reference(entry), place)
            return
        try:
            if not isinstance(entry, str):
                raise UnfitError("a program generates the cases; write them to a file and name that file")
            yield from self._read_files(entry, chain)
        except UnfitError as error:
            self._add_missing(place, "tests", str(error))
            yield Test(place, {}, {}, (), {}, f"tests: {error}")

    def _read_files(self, entry: str, chain: Sequence[Path]) -> Iterator[Test]:
        name = entry.removeprefix("file://")
        kind = name.rpartition(".")[2].lower()
        if "://" in name or kind not in ("csv", "yaml", "yml", "json", "jsonl"):
            raise UnfitError(f"cases of {entry}: only CSV, YAML, JSON and JSONL are read; convert them to one of these")
        for path in self._source.files_matching(name):
            file = self._source.relative(path)
            through = self._extend_chain(path, chain)
            if kind == "csv":
                for row in case_rows(self._source.text(path), self._types):
                    place = Place(file, row.line)
                    assertions = tuple(
                        WrittenAssertion(replace(place, column=number), data)
                        for number, data in enumerate(row.assertions, 1)
                    )
                    options = row.test.get("options", {})
                    yield Test(place, row.test, row.vars, assertions, options)
            elif kind == "jsonl":
                for number, text in enumerate(self._source.text(path).split("\n"), 1):
                    if text.strip():
                        place = Place(file, number)
                        yield self._read_test(self._parse_line(text, place), place, one_line=True)
            else:
                yield from self._read_tests(self._source.data(path), Place(file, 1), through)

    def _parse_line(self, text: str, place: Place) -> Mapping[str, Any]:
        try:
            data = self._source.parse(text, place.file)
        except UnfitError:
            data = None
        if not isinstance(data, dict):
            raise UnfitError(f"{place} is not a JSON object")
        return data

    def _read_test(self, entry: Mapping[str, Any], place: Place, *, one_line: bool = False) -> Test:
        """Return a case; `one_line` is whether the whole case is on one line of its file."""
        problem, variables = "", {}
        try:
            variables = self._read_variables(entry.get("vars"))
        except UnfitError as error:
            problem = f"vars: {error}"
            self._add_missing(place, "vars", str(error))
        options = entry.get("options")
        data = {key: value for key, value in entry.items() if key not in ("vars", "assert", "options")}
        assertions = tuple(self._read_assertions(entry.get("assert"), place.file, place.line if one_line else None))
        return Test(place, data, variables, assertions, plain(options) if isinstance(options, dict) else {}, problem)

    def _read_assertions(
        self, entry: Any, file: str, line: int | None, chain: Sequence[Path] = ()
    ) -> Iterator[WrittenAssertion]:
        if isinstance(entry, str):
            entry = [entry]
        if entry is not None and not isinstance(entry, list):
            yield WrittenAssertion(Place(file, line or 1), {"type": "assert", "problem": "it is not a list"})
            return
        for index, item in enumerate(entry or ()):
            place = place_of(file, entry, index)
            place = replace(place, line=line) if line else place
            if isinstance(item, str) and item.startswith("file://"):
                try:
                    path = self._source.file_named(item.removeprefix("file://"))
                    through = self._extend_chain(path, chain)
                    yield from self._read_assertions(
                        self._source.data(path), self._source.relative(path), None, through
                    )
                except UnfitError as error:
                    yield WrittenAssertion(place, {"type": item, "problem": str(error)})
            elif isinstance(item, dict):
                yield WrittenAssertion(place, self._resolve_reference(item))
            else:
                yield WrittenAssertion(place, {"type": str(item), "problem": "it must be a mapping with a type"})

    def _resolve_reference(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a mapping with its `$ref` replaced by the keys of the referenced mapping. If `$ref` is invalid, return
        a mapping with `type` and `problem`.
        """
        found: Any = entry
        for _ in range(_MAX_CHAIN):
            if not isinstance(found, dict) or "$ref" not in found:
                break
            pointer = str(found["$ref"])
            target: Any = self._root
            for part in pointer.removeprefix("#/").split("/"):
                target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            if not isinstance(target, dict) or not pointer.startswith("#/"):
                return {"type": pointer, "problem": f"the reference {pointer} does not resolve"}
            own = {key: value for key, value in found.items() if key != "$ref"}
            found = MarkedMap.at(*_position(found), {**target, **own})
        return found if isinstance(found, dict) else entry

    def _read_variables(self, entry: Any) -> dict[str, Any]:
        """Return the values of variables, including values that are in files."""
        if isinstance(entry, str) or (isinstance(entry, list) and all(isinstance(item, str) for item in entry)):
            made: dict[str, Any] = {}
            for name in [entry] if isinstance(entry, str) else entry:
                for path in self._source.files_matching(name.removeprefix("file://")):
                    data = self._source.data(path)
                    if not isinstance(data, dict):
                        raise UnfitError(f"{name} does not contain a mapping")
                    made.update(plain(data))
            return made
        if entry is not None and not isinstance(entry, dict):
            raise UnfitError("not a mapping")
        return {key: self._read_value(value) for key, value in plain(entry or {}).items()}

    def _read_value(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("file://"):
            paths = self._source.files_matching(value.removeprefix("file://"))
            return (
                self._read_value_file(paths[0]) if len(paths) == 1 else [self._read_value_file(path) for path in paths]
            )
        return value

    def _read_value_file(self, path: Path) -> Any:
        kind = path.suffix.lower()
        if kind in (".yaml", ".yml", ".json"):
            # promptfoo converts such data to JSON text.
            return json.dumps(plain(self._source.data(path)), ensure_ascii=False, separators=(",", ":"))
        if kind in (".txt", ".md", ".html", ".csv", ".xml", ".j2", ""):
            return self._source.text(path).strip()
        raise UnfitError(f"the file {path.name}: only texts, YAML and JSON are read, and no code is run")

    def _with_defaults(self, test: Test) -> Test:
        default = self._default
        assertions = test.assertions
        if test.options.get("disableDefaultAsserts") is not True:
            assertions = (*default.assertions, *assertions)
        return replace(
            test,
            data={**default.data, **test.data},
            variables={**default.variables, **test.variables},
            assertions=assertions,
            options={**default.options, **test.options},
            problem=test.problem or default.problem,
        )

    def _expand_combinations(self, test: Test) -> Iterator[Test]:
        """Yield one case for each combination of values of the variables that have a list of strings."""
        if test.options.get("disableVarExpansion") is True:
            yield self._fill_variables(test, test.variables)
            return
        several = [
            [(key, item) for item in value]
            if isinstance(value, list) and value and isinstance(value[0], str)
            # A list without texts is a single value.
            else [(key, value)]
            for key, value in test.variables.items()
        ]
        count = 1
        for each in several:
            count *= len(each)
        if count > MOST_CASES:
            self._add_missing(test.place, "vars", f"the values make {count:,} combinations, more than {MOST_CASES:,}")
            yield replace(test, problem="vars: too many combinations")
            return
        for values in itertools.product(*several):
            yield self._fill_variables(test, dict(values))

    def _fill_variables(self, test: Test, variables: Mapping[str, Any]) -> Test:
        """Render a case's variables and remove final line breaks; the case gets a `problem` if rendering fails."""
        variables = {
            key: value.removesuffix("\n") if isinstance(value, str) else value for key, value in variables.items()
        }
        try:
            return replace(test, variables=self._templates.render_value(variables, variables))
        except UnfitError as error:
            self._add_missing(test.place, "vars", str(error))
            return replace(test, variables=variables, problem=test.problem or f"vars: {error}")

    def _scenario_tests(self) -> Iterator[Test]:
        written = self._root.get("scenarios")
        for index, item in enumerate(written if isinstance(written, list) else ()):
            place = place_of(self._source.name, written, index)
            scenario = item
            try:
                if isinstance(item, str):
                    path = self._source.file_named(item.removeprefix("file://"))
                    scenario = self._source.data(path)
                    place = Place(self._source.relative(path), 1)
                if not isinstance(scenario, dict):
                    raise UnfitError("a scenario must be a mapping with config and tests")
            except UnfitError as error:
                self._add_missing(place, "scenario", str(error))
                yield Test(place, {}, {}, (), {}, f"scenario: {error}")
                continue
            configs = list(self._read_tests(scenario.get("config"), place))
            for config, test in itertools.product(configs, list(self._read_tests(scenario.get("tests"), place))):
                yield replace(
                    test,
                    data={"metadata": {"conversationId": f"scenario {index}"}, **config.data, **test.data},
                    variables={**config.variables, **test.variables},
                    assertions=(*config.assertions, *test.assertions),
                    options={**config.options, **test.options},
                    problem=test.problem or config.problem,
                )


def _position(value: Any) -> tuple[int, int]:
    return (value.line, value.column) if isinstance(value, MarkedMap) else (1, 1)
