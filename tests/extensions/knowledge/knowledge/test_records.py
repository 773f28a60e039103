"""Records of JSON, JSON Lines, CSV and TSV."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.records import Record, RecordError, fields_text, read_records
from holodeck_action.suite.model.tools import VectorstoreTool


def layout(*fields: str, id_field: str = "id", **more: Any) -> VectorstoreTool:
    names = {"name": "shop", "type": "vectorstore", "description": "Products", "source": "products"}
    return VectorstoreTool.model_validate(
        {**names, "vector_field": [*(fields or ("text",))], "id_field": id_field, **more}
    )


def read(value: Any, suffix: str = ".json", **more: Any) -> list[Record]:
    text = value if isinstance(value, str) else json.dumps(value)
    return read_records(text, suffix, more.pop("layout", None) or layout(**more))


def failure(value: Any, suffix: str = ".json", **more: Any) -> str:
    with pytest.raises(RecordError) as caught:
        read(value, suffix, **more)
    return str(caught.value)


def test_a_list_of_objects() -> None:
    rows = [{"id": 1, "text": " a ", "size": 2, "gone": None}, {"id": "x", "text": "b", "tags": ["c"]}]
    assert read(rows) == [
        Record("1", "a", {"size": 2, "gone": None}),
        Record("x", "b", {"tags": ["c"]}),
    ]


def test_an_object_alone_is_a_record() -> None:
    assert read({"id": "a", "text": "b"}) == [Record("a", "b")]


def test_several_fields_are_joined_and_blank_ones_left_out() -> None:
    rows = [{"id": "a", "q": "Why?", "a": "So.", "n": None, "v": 3, "b": True, "l": [1, "ü"]}]
    fields = layout("q", "n", "a", "v", "b", "l", field_separator=" / ", meta_fields=())
    assert read(rows, layout=fields) == [Record("a", 'Why? / So. / 3 / true / [1, "ü"]')]


def test_fields_in_nested_objects() -> None:
    rows = [{"meta": {"id": 7, "by": {"name": "Ann"}}, "a.b": "whole key", "a": {"b": "no"}}]
    fields = layout("a.b", id_field="meta.id", meta_fields=("meta.by.name",))
    assert read(rows, layout=fields) == [Record("7", "whole key", {"meta.by.name": "Ann"})]


def test_a_path_goes_through_lists_and_knows_what_is_around() -> None:
    shops = [
        {"city": "Leeds", "stock": {"day": "Monday", "items": [{"id": 1, "text": "a", "day": "own"}]}},
        {"city": "York", "stock": {"day": "Friday", "items": [{"id": 2, "text": "b"}]}},
    ]
    fields = layout(
        record_path="shops.stock.items", meta_fields=("day", "city"), record_prefix="item_", meta_prefix="around_"
    )
    assert read({"shops": shops}, layout=fields) == [
        Record("1", "a", {"item_day": "own", "around_city": "Leeds"}),
        Record("2", "b", {"around_day": "Friday", "around_city": "York"}),
    ]


def test_a_prefix_of_records_is_for_all_their_fields() -> None:
    assert read([{"id": 1, "text": "a", "b": 2}], record_prefix="r.")[0].metadata == {"r.b": 2}


def test_json_lines() -> None:
    assert read('{"id": 1, "text": "a"}\n\n{"id": 2, "text": "b"}\n', ".jsonl") == [Record("1", "a"), Record("2", "b")]
    assert failure('{"id": 1, "text": "a"}\n{', ".ndjson").startswith("line 2: ")


@pytest.mark.parametrize(
    ("text", "suffix", "delimiter"),
    [
        ('id,text,n\n1,"a, ""b""",x\n', ".csv", None),
        ('id;text;n\n1;"a, ""b""";x\n\n', ".csv", None),
        ('\nid\ttext\tn\r\n1\ta, "b"\tx\r\n', ".csv", "\t"),
        ('id|text|n\n1|"a, ""b"""|x', ".csv", None),
        ('id\ttext\tn\n1\t"a, ""b"""\tx\n', ".tsv", ";"),
    ],
)
def test_tables(text: str, suffix: str, delimiter: str | None) -> None:
    assert read(text, suffix, delimiter=delimiter) == [Record("1", 'a, "b"', {"n": "x"})]


def test_a_cell_may_hold_lines() -> None:
    assert read('id,text\n1,"a\nb"\n', ".csv") == [Record("1", "a\nb")]


@pytest.mark.parametrize(
    ("value", "suffix", "told"),
    [
        ("{", ".json", "it is not JSON: "),
        ("[" * 300_000, ".json", "it is nested too deeply"),
        ("[1]", ".json", "a record must be an object, not a number"),
        ([{"id": 1}], ".json", 'record 1 has no field "text" (vector_field) (it has id)'),
        ([{"text": "a"}], ".json", 'record 1 has no field "id" (id_field) (it has text)'),
        ([{"id": 1, "text": "a"}, {"id": 2, "text": " "}], ".json", 'record 2 has no text in "text"'),
        ([{"id": " ", "text": "a"}], ".json", "record 1: its id must be a text or a number that is not blank"),
        ([{"id": None, "text": "a"}], ".json", "record 1: its id must be"),
        ([{"id": True, "text": "a"}], ".json", "record 1: its id must be"),
        ("id,id\n1,2\n", ".csv", "two columns have the same name"),
        ("id,text\n1\n", ".csv", "line 2 has 1 cells, the first line 2"),
        ('id,text\n1,"a', ".csv", "line 2: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(value: Any, suffix: str, told: str) -> None:
    assert told in failure(value, suffix)


def test_a_path_that_is_not_there() -> None:
    assert failure({"a": []}, record_path="b.c") == 'record_path: there is no key "b" (it has a)'


def test_a_meta_field_may_be_missing_in_some_records_but_not_in_all() -> None:
    rows = [{"id": 1, "text": "a", "size": 1}, {"id": 2, "text": "b"}]
    assert [record.metadata for record in read(rows, meta_fields=("size",))] == [{"size": 1}, {}]
    assert 'no record has the field "siez" of meta_fields (it has id, text, size)' in failure(
        rows, meta_fields=("siez",)
    )


def test_fields_as_they_are_read() -> None:
    assert fields_text({"a": 1, "b": None, "c": " x ", "d": " ", "e": {"f": "ü"}}) == 'a: 1\nc: x\ne: {"f": "ü"}'


@given(st.text(max_size=200), st.sampled_from([".json", ".jsonl", ".csv", ".tsv"]))
def test_no_file_breaks_more_than_itself(text: str, suffix: str) -> None:
    # Nothing else may be raised.
    with suppress(RecordError):
        assert all(record.id and record.text for record in read(text, suffix))
