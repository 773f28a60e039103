"""The viewer's script reads what the report writes: pages hold exactly what its types say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import Record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.run_columns import RunColumn
from holodeck_action.reports.page.viewer import PageView, render_page
from tests.record.records import case, case_of, conversation, evaluation, record, turn
from tests.reports.pages import Page
from tests.reports.shown import full_record, varied
from tests.reports.test_viewer import compared

SOURCE = (Path(__file__).parents[2] / "viewer" / "src" / "data.ts").read_text(encoding="utf-8")
TOKEN = re.compile(r'"[^"]*"|\w+|\[\]|[^\s\w]')


class Types:
    """The types of a file of TypeScript, as far as data needs: objects, lists, unions, literals."""

    def __init__(self, source: str) -> None:
        bare = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
        self._tokens: list[str] = TOKEN.findall(re.sub(r"export (interface (\w+)|type (\w+) =)", r"; \2\3 ", bare))
        self.named: dict[str, Any] = {}
        while self._tokens:
            while self._tokens and self._tokens[0] == ";":
                self._take()
            if self._tokens:
                name = self._take()
                self.named[name] = self._union()

    def _take(self) -> str:
        return self._tokens.pop(0)

    def _next(self, token: str) -> bool:
        return self._tokens[:1] == [token] and bool(self._take())

    def _union(self) -> tuple[str, list[Any]]:
        several = [self._list()]
        while self._next("|"):
            several.append(self._list())
        return "any of", several

    def _list(self) -> Any:
        kind = self._one()
        while self._next("[]"):
            kind = ("list", kind)
        return kind

    def _one(self) -> Any:
        if self._next("("):
            inner = self._union()
            self._take()
            return inner
        if not self._next("{"):
            name = self._take()
            if self._next("<"):
                self._union(), self._take()
                inner, _ = self._union(), self._take()
                return "values", inner
            return "name", name
        fields = {}
        while not self._next("}"):
            name, optional = self._take(), self._next("?")
            self._take()
            fields[name] = (optional, self._union())
            self._next(";")
        return "fields", fields

    def problems(self, value: Any, kind: Any, place: str) -> Iterator[str]:
        """Yield what of a value is not of a kind, or is no part of it."""
        match kind:
            case "any of", several:
                found = [list(self.problems(value, one, place)) for one in several]
                yield from min(found, key=len)
            case "list", inner if isinstance(value, list):
                for at, item in enumerate(value):
                    yield from self.problems(item, inner, f"{place}[{at}]")
            case "values", inner if isinstance(value, dict):
                for name, item in value.items():
                    yield from self.problems(item, inner, f"{place}.{name}")
            case "fields", fields if isinstance(value, dict):
                yield from (f"{place}.{name} has no type" for name in value.keys() - fields.keys())
                for name, (optional, inner) in fields.items():
                    if name in value:
                        yield from self.problems(value[name], inner, f"{place}.{name}")
                    elif not optional:
                        yield f"{place}.{name} is missing"
            case "name", name if name in self.named:
                yield from self.problems(value, self.named[name], place)
            case "name", name if not _is(value, name):
                yield f"{place} is {value!r}, no {name}"
            case (("list" | "values" | "fields"), _):
                yield f"{place} is {value!r}"


def _is(value: Any, name: str) -> bool:
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {"string": str, "boolean": bool, "unknown": object, "null": type(None)}
    return isinstance(value, kinds[name]) if name in kinds else json.dumps(value) == name


TYPES = Types(SOURCE)


def late() -> Record:
    """A panel that could not vote, and turns that a target tells more of."""
    error = ErrorInfo("Late", "too late", "late", {"verdicts": [{"model": "b"}]})
    told = turn(evaluation(None, status="failed", error=error), model="m1", messages=({"role": "tool"},))
    return record(case_of(told), case("E"))


def talks() -> Record:
    """A conversation that passes, and one that fails."""
    turns = [turn(index=0), turn(evaluation(1.0), index=1)]
    return record(*(conversation(evaluation(score), turns=turns) for score in (1.0, 0.0)))


@pytest.mark.parametrize("made", [full_record, late, varied, talks])
def test_a_page_holds_what_the_script_reads(made: Callable[[], Record]) -> None:
    found = Page(compared(made(), made()))
    problems = [
        *TYPES.problems(found.head, ("name", "Head"), "head"),
        *TYPES.problems(found.blocks, ("list", ("name", "Block")), "blocks"),
        *TYPES.problems(list(found.details.values()), ("list", ("name", "Detail")), "details"),
    ]
    assert problems == []


def test_a_page_of_several_runs_holds_what_the_script_reads() -> None:
    first, second = conclude(full_record()), conclude(varied())
    runs = [RunColumn("one", first), RunColumn("two", second), RunColumn("three", first)]
    found = Page(b"".join(render_page(PageView([first], 1, results="one", runs=runs))).decode())
    problems = [
        *TYPES.problems(found.head, ("name", "Head"), "head"),
        *TYPES.problems(found.blocks, ("list", ("name", "Block")), "blocks"),
        *TYPES.problems(list(found.details.values()), ("list", ("name", "Detail")), "details"),
    ]
    assert problems == []
    assert all(len(detail["others"]) == 2 for detail in found.details.values())


def test_each_changed_file_has_its_part_of_the_difference() -> None:
    (detail,) = Page(compared(full_record(), full_record())).details.values()
    workspace = detail["trials"][0]["turns"][0]["workspace"]
    assert {file["path"]: file["difference"] for file in workspace["files"]} == {
        "app.py": "@@ -1,3 +1,3 @@\n def refund():\n--- a/notes.md\n+++ b/notes.md\n+    pass",
        "logo.png": None,
        "notes.md": "@@ -0,0 +1 @@\n+Paid back.",
    }


def test_a_page_has_a_conversation_beside_its_turns() -> None:
    found = Page(compared(talks(), talks()))
    bad, good = (detail["trials"][0] for detail in found.details.values())
    assert [(one["conversation"]["outcome"], len(one["conversation"]["problems"])) for one in (good, bad)] == [
        ("passed", 0),
        ("failed", 1),
    ]
    assert [each["score"] for each in bad["conversation"]["evaluations"]] == [0.0]
    assert ["evaluations" in bad, [turn["outcome"] for turn in bad["turns"]]] == [False, ["informational", "passed"]]


def test_another_value_is_a_problem() -> None:
    types = Types('export type Kind = "a" | "b";\nexport interface One { kind: Kind; of?: (number | null)[] }')
    one = ("name", "One")
    assert list(types.problems({"kind": "a", "of": [1, None]}, one, "it")) == []
    assert list(types.problems({"of": ["x"], "more": 1}, one, "it")) == [
        "it.more has no type",
        "it.kind is missing",
        "it.of[0] is 'x', no number",
    ]
    assert list(types.problems({"kind": "c"}, one, "it")) == ["""it.kind is 'c', no "a\""""]
