"""`response_path` against an independent statement of its rule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.response_path import ResponsePathError, extract, parse_path
from holodeck_action.metrics.standard import StandardMetric
from tests.tables import walk

keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,4}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
documents = st.dictionaries(
    keys,
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
    ),
    min_size=1,
    max_size=3,
)


def leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    """Every path of a document with what stands there."""
    found = [(path, value)] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += leaves(inner, f"{path}.{key}" if path else key)
    if isinstance(value, list):
        for position, inner in enumerate(value):
            found += leaves(inner, f"{path}[{position}]")
    return found


@given(documents)
def test_every_scalar_is_found_and_nothing_else(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for path, value in leaves(document, ""):
        if isinstance(value, dict | list):
            with pytest.raises(ResponsePathError, match="not a text or number"):
                extract(text, path)
            missing = f"{path}.zzzzzz" if isinstance(value, dict) else f"{path}[{len(value)}]"
        else:
            assert extract(text, path) == str(value)
            missing = f"{path}.zzzzzz"
        with pytest.raises(ResponsePathError, match="has no"):
            extract(text, missing)


@walk(
    ("answer", "path", "leaf"),
    [
        ('{"a": true}', "a", "True"),
        ('{"a": null}', "a", "None"),
        ('{"a": 1.0}', "a", "1.0"),
        ('{"a": 1e2}', "a", "100.0"),
        ('{"a": ""}', "a", ""),
        ('{"a": 1, "a": 2}', "a", "2"),
        (' \n{"a-b_c": [[1, 2], {"x": "y"}]} ', "a-b_c[1].x", "y"),
        ('{"a": [[1, 2]]}', "a[0][1]", "2"),
        ('{"größe": 3}', "g", None),
        ('{"gr": 3}', "gr", "3"),
    ],
)
def test_leaves_are_written_as_python_writes_them(answer: str, path: str, leaf: str | None) -> None:
    if leaf is None:
        with pytest.raises(ResponsePathError):
            extract(answer, path)
    else:
        assert extract(answer, path) == leaf


@walk(
    "path",
    ["", "[0]", "a[-1]", "$.a", "a..b", "a.", ".a", "a[0", "a[x]", "a b", "a[0]b", "1a", "a[]", "a\n", "a[9999999999]"],
)
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        parse_path(path)
    with pytest.raises(ValueError, match="response_path"):
        StandardMetric(metric="numeric", response_path=path)


def test_steps() -> None:
    assert StandardMetric(metric="numeric", response_path="items[0][12].größe")
    assert parse_path("result.items[0][12].t_o-t4l") == ("result", "items", 0, 12, "t_o-t4l")


@walk(
    ("answer", "path", "sentence"),
    [
        ("60.94", "a", "the answer is a number, so it has no key a"),
        (
            "It is 5.",
            "a",
            "the answer 'It is 5.' is not JSON (Expecting value at line 1, column 1)",
        ),
        ("", "a", "the answer '' is not JSON (Expecting value at line 1, column 1)"),
        (
            '```json\n{"a": 1}\n```',
            "a",
            "the answer '```json\\n{\"a\": 1}\\n```' is not JSON (Expecting value at line 1, column 1)",
        ),
        ('{"b": 1, "c": 2}', "a", "the answer has no key a (keys: 'b', 'c')"),
        ("{}", "a", "the answer has no key a (it has no keys)"),
        ('{"a": {"x": 1}}', "a.y", "a has no key y (keys: 'x')"),
        ('{"a": {"x": 1}}', "a", "a is an object, not a text or number (keys: 'x')"),
        ('{"a": [1, 2]}', "a", "a is a list of 2 items, not a text or number"),
        ('{"a": [1]}', "a[1]", "a is a list of 1 item, so it has no item [1]"),
        ('{"a": {"x": 1}}', "a[0]", "a is an object (keys: 'x'), so it has no item [0]"),
        ('{"a": "t"}', "a.b", "a is a text, so it has no key b"),
        ('{"a": true}', "a.b", "a is true or false, so it has no key b"),
        ('{"a": [null]}', "a[0].b", "a[0] is null, so it has no key b"),
        ("[" * 200_000, "a", "the answer is JSON nested too deeply to read"),
        ('{"a": ' + "9" * 5000 + "}", "a", "the answer is JSON with a number too long to read"),
    ],
)
def test_what_is_wrong_with_the_answer(answer: str, path: str, sentence: str) -> None:
    with pytest.raises(ResponsePathError) as caught:
        extract(answer, path)
    assert str(caught.value) == sentence
    assert caught.value.code == "response_path"


def test_many_and_long_keys_are_cut() -> None:
    answer = json.dumps({f"key-{number}-" + "x" * 1000: 0 for number in range(1000)})
    with pytest.raises(ResponsePathError) as caught:
        extract(answer, "a")
    assert len(str(caught.value)) < 700
    assert str(caught.value).endswith("and 990 more)")
