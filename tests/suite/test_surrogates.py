"""Characters above U+FFFF as `json.dumps` writes them: read as what they mean, where escapes mean anything."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign
from tests.commands.project import Project
from tests.tables import walk

# What YAML allows in a file; json.dumps writes DEL and the controls above it as they are.
TEXT = st.text(st.characters(exclude_characters="\x7f$", exclude_categories=("Cs", "Cc")), max_size=12)


def read(text: str) -> Any:
    document = read_yaml(Foreign(text.encode()), file="agent.yaml", environ={})
    assert not document.problems, document.problems
    return document.root


@given(st.dictionaries(TEXT.filter(lambda key: key != "<<"), st.lists(TEXT, max_size=3), max_size=4), st.booleans())
def test_what_json_dumps_writes_is_read_as_it_was(value: dict[str, list[str]], wide: bool) -> None:
    value["😀"] = ["\\ud83d\\ude00", "\\😀", '"😀']
    assert read(json.dumps(value, indent=1 if wide else None)) == value


MARKS = st.text(st.sampled_from("\U0010ff00\U0010ff3f\U0010ff40😀a"), max_size=6)


@given(st.lists(MARKS, max_size=4))
def test_the_private_characters_that_mark_pairs_are_read_too(value: list[str]) -> None:
    assert read(json.dumps({"a": value})) == {"a": value}


def test_where_escapes_mean_nothing_they_stay_as_written() -> None:
    document = read(
        'a: "\\ud83d\\ude00" # \\ud83d\\ude00\n'
        "b: '\\uD83D\\ude00'\n"
        "c: \\ud83d\\uDE00\n"
        "d: |\n  x \\ud83d\\ude00\n"
        '\\ud83d\\ude00: "\\U0001f600 \\\\ud83d\\\\ude00"\n'
    )
    assert document == {
        "a": "😀",
        "b": "\\uD83D\\ude00",
        "c": "\\ud83d\\uDE00",
        "d": "x \\ud83d\\ude00\n",
        "\\ud83d\\ude00": "😀 \\ud83d\\ude00",
    }


def test_places_stay_where_they_are_written() -> None:
    text = '{"a": "\\ud83d\\ude00", "b": 1, "b": 2}'
    (problem,) = read_yaml(Foreign(text.encode()), file="agent.yaml", environ={}).problems
    assert problem.mark is not None
    assert problem.mark.column == text.rindex('"b"') + 1


@walk("half", ["\\ud83d", "\\ude00", "\\ud83dx\\ude00", "\\ude00\\ud83d", "\\ud83d\\ude00\\ud83d"])
def test_half_a_character_is_an_error_with_its_place(half: str) -> None:
    (problem,) = read_yaml(Foreign(f'a: 1\nb: "{half}"\n'.encode()), file="agent.yaml", environ={}).problems
    found = half[-6:] if half.startswith("\\ud83d\\ude00") else half[:6]
    assert problem.message.startswith(f"{found} is one half of a character: write both halves")
    assert problem.mark is not None
    assert (problem.mark.line, problem.mark.column) == (2, 5 + half.rindex(found))


def test_a_suite_written_by_json_dumps_runs(project: Project) -> None:
    project.suite([], test_cases=None, test_cases_file="cases.json", description="a 😀")
    project.write("cases.json", json.dumps([{"name": "smile 😀", "input": "😀?", "ground_truth": "😀"}]))
    project.answers([{"case": "smile 😀", "response": "😀"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0, finished.stderr
    assert (record.cases[0].name, record.cases[0].trials[0].turns[0].input) == ("smile 😀", "😀?")
