"""The YAML reader against PyYAML's safe loader and node marks."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.yaml.document import MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import MAX_ALIASED, MAX_DEPTH, read_yaml
from holodeck_action.text.foreign import Foreign
from tests.tables import walk


class TextDates(yaml.CSafeLoader):
    """The safe loader with dates left as text."""


TextDates.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ["yes", "~", "0x1F", "017", "1:30", "1_000", "1e5", "1.5e+3", ".inf", "2027-01-31", "<<", "=", "a: b"]
    )
)
KEYS = st.text(min_size=1, max_size=6)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
PLAIN_SCALARS = st.text("0123456789+-_.:xbeEinfaNAyestruoOFlL~", min_size=1, max_size=9)
SNIPPETS = st.text("ab:- \n,[]{}&*#'\"|>!?0.~<=%\t", max_size=24)


def read(text: str) -> Any:
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    assert document.readable, document.problems
    assert not document.problems
    return document.root


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, NaN equal to itself."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and same(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))


@given(DATA, st.sampled_from([True, False, None]), st.sampled_from([None, "'", '"', "|", ">"]))
def test_reads_what_the_safe_loader_reads(data: Any, flow: bool | None, style: str | None) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, default_style=style, allow_unicode=True)
    assert same(read(text), yaml.load(text, TextDates)), text


@given(PLAIN_SCALARS)
def test_unquoted_scalars_mean_what_they_mean_to_the_safe_loader(scalar: str) -> None:
    text = f"x: {scalar}\n"
    try:
        expected = yaml.load(text, TextDates)
    except (yaml.YAMLError, ValueError):
        return
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    assert same(document.root, expected), text


@given(SNIPPETS)
def test_any_text_is_read_alike_or_refused(text: str) -> None:
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    try:
        expected = yaml.load(text, TextDates)
    except (yaml.YAMLError, ValueError, AttributeError):
        assert document.problems, text
        return
    assert document.problems or same(document.root, expected), text


def positions(node: yaml.Node, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Position of every value below a node, and under `(*path, key, "key")` of every key."""
    found = {path: (node.start_mark.line + 1, node.start_mark.column + 1)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, key.value)
            found[(*here, "key")] = (key.start_mark.line + 1, key.start_mark.column + 1)
            found.update(positions(value, here))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            found.update(positions(value, (*path, index)))
    return found


def marks(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], tuple[int, int]]:
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    if isinstance(value, MarkedMap | MarkedList):
        found[path] = (value.line, value.column)
    if isinstance(value, MarkedMap):
        for key, child in value.items():
            here = (*path, key)
            found[(*here, "key")] = value.key_position(key)
            found[here] = value.value_position(key)
            found.update(marks(child, here))
    elif isinstance(value, MarkedList):
        for index, child in enumerate(value):
            found[(*path, index)] = value.value_position(index)
            found.update(marks(child, (*path, index)))
    return found


NO_KEY = "a mapping or list cannot be a key (allowed: text): put a value that begins with { or [ in quotes"
KEYS = st.text("abcé漢🙂 ", min_size=1, max_size=5).map(lambda text: f"k{text}k")
TREES = st.recursive(
    st.text("abé漢🙂\n :'\"", max_size=12) | st.integers(0, 99),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.full
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4), st.sampled_from([True, False, None]))
def test_every_key_and_value_knows_its_line_and_column(data: Any, flow: bool | None) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    root = yaml.compose(text, yaml.SafeLoader)
    assert root is not None
    assert marks(read(text)) == positions(root), text


def test_merge_keys_anchors_and_aliases() -> None:
    text = """\
base: &base {a: 1, b: 1}
other: &other {b: 2, c: 2}
one: {<<: *base, b: 3}
two: {<<: [*base, *other]}
three: {<<: {z: 0}}
list: &list [1, *base]
same: *list
"""
    root = read(text)
    assert root == yaml.safe_load(text)
    assert root["one"].value_position("b") == (3, 21)
    assert root["one"].value_position("a") == (1, 17)
    assert root["same"] is root["list"]


@walk(
    ("text", "expected"),
    [
        ("a:\n\t- b\n", "f.yaml:2:1: a tab cannot indent YAML: use spaces"),
        (
            "a: [1, 2",
            "f.yaml:1:4: is not valid YAML: the list that begins here is not closed: add ], or put the value in quotes",
        ),
        ("a: b: c", "f.yaml:1:5: is not valid YAML: the value holds a colon: put the value in quotes"),
        ("x: @home", "f.yaml:1:4: a value cannot start with @: put it in quotes"),
        ("a: 1\n--- \nb: 2", "f.yaml:2:1: starts a second document (allowed: one, without a second ---)"),
        ("a: *nope", "f.yaml:1:4: a: the alias *nope is not defined above"),
        ("a: &x [1, {b: *x}]", "f.yaml:1:15: a[1].b: the alias *x refers to a value that contains it"),
        ("a: \x07", "f.yaml:1:4: is not valid YAML: it holds a control character: delete it"),
        ("é: 1\nü: \x07", "f.yaml:2:4: is not valid YAML: it holds a control character: delete it"),
        (
            "? [a]\n: 1",
            f"f.yaml:1:3: {NO_KEY}",
        ),
        ("[" * (MAX_DEPTH + 1), f"f.yaml:1:{MAX_DEPTH + 1}: {'[0]' * MAX_DEPTH}: is nested more than 100 levels deep"),
    ],
)
def test_what_is_not_one_yaml_document(text: str, expected: str) -> None:
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    assert not document.readable
    assert [str(problem) for problem in document.problems] == [expected]


@walk(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: a: occurs twice in one mapping (first on line 1)"),
        ("x:\n- {a: 1, a: 2}", "f.yaml:2:10: x[0].a: occurs twice in one mapping (first on line 2)"),
        ("a: !secret x", "f.yaml:1:4: a: the tag !secret is not supported (allowed: values without a tag)"),
        (
            "a: !!python/name:os.system x",
            "f.yaml:1:4: a: the tag tag:yaml.org,2002:python/name:os.system is not "
            "supported (allowed: values without a tag)",
        ),
        (
            "a: !!binary aGk=",
            "f.yaml:1:4: a: the tag tag:yaml.org,2002:binary is not supported (allowed: values without a tag)",
        ),
        ("a: !!int x", "f.yaml:1:4: a: looks like of type int but cannot be read as one: put it in quotes"),
        (f"a: {'9' * 5000}", "f.yaml:1:4: a: looks like a number but cannot be read as one: put it in quotes"),
        ("a: {<<: 3}", 'f.yaml:1:9: a["<<"]: must be a mapping or a list of mappings, usually an alias'),
        ("a: <<", "f.yaml:1:4: a: << can only be a key: put it in quotes"),
        ("a: =", "f.yaml:1:4: a: = can only be a key: put it in quotes"),
        ("- ! =", "f.yaml:1:3: [0]: = can only be a key: put it in quotes"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", 'f.yaml:1:17: a["<<"]: occurs twice in one mapping'),
    ],
)
def test_what_is_yaml_but_means_nothing_clear(text: str, expected: str) -> None:
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    assert document.readable
    assert [str(problem) for problem in document.problems] == [expected]


@walk("sign", ["<<", "="])
@walk(
    "text",
    [
        *("a: {0}", "- {0}", "{0}", "a: ! {0}", "a: &b {0}", "a: !!str {0}", "a: '{0}'", "a: {0}{0}", "a: {0} b"),
        *("{0}: {{}}", "! {0}: {{}}", "'{0}': 1", "!!str {0}: 1", "{{{0}: {{a: 1}}}}"),
    ],
)
def test_a_sign_that_means_something_as_a_key_is_read_where_the_safe_loader_reads_it(text: str, sign: str) -> None:
    text = text.format(sign)
    document = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        assert [problem.message for problem in document.problems] == [f"{sign} can only be a key: put it in quotes"]
    else:
        assert not document.problems
        assert same(document.root, expected)


def test_all_problems_of_a_file_are_found() -> None:
    document = read_yaml(Foreign(b"a: 1\na: 2\nb: ${X}\nc: !t 1\n"), file="f.yaml", environ={})
    assert [problem.field for problem in document.problems] == ["a", "b", "c"]


def test_text_that_is_not_utf_8_is_refused_at_its_first_bad_byte() -> None:
    document = read_yaml(Foreign("a: é\nb: ü".encode()[:-1]), file="f.yaml", environ={})
    assert [str(problem) for problem in document.problems] == ["f.yaml:2:4: is not UTF-8 text: save the file as UTF-8"]
    assert not read_yaml(Foreign("a: 1".encode("utf-16")), file="f.yaml", environ={}).readable


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter() -> None:
    document = read_yaml(Foreign(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"), file="f.yaml", environ={})
    assert document.root == {"a": 1, "b": 2}
    assert document.root.key_position("a") == (1, 1)
    assert document.root.key_position("b") == (2, 1)


def test_an_alias_bomb_is_refused_without_being_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    document = read_yaml(Foreign("\n".join(lines).encode()), file="f.yaml", environ={})
    assert not document.readable
    [problem] = document.problems
    assert problem.message == f"aliases expand to more than {MAX_ALIASED:,} values"


def test_an_empty_file_has_no_root() -> None:
    for text in (b"", b"# nothing\n", b"---\n"):
        document = read_yaml(Foreign(text), file="f.yaml", environ={})
        assert document.readable
        assert document.root is None


@walk(
    ("text", "value"),
    [
        ("ground_truth: 42", "42"),
        ("ground_truth: 1.10", "1.10"),
        ("ground_truth: yes", "yes"),
        ("ground_truth: 2027-01-31", "2027-01-31"),
        ("ground_truth: 0x1F", "0x1F"),
        ("ground_truth: 'null'", "null"),
        ("ground_truth: null", None),
        ("ground_truth: ~", None),
        ("ground_truth:", None),
        ("api_key: 0123", "0123"),
        ("env: {PORT: 8080, DEBUG: yes}", {"PORT": "8080", "DEBUG": "yes"}),
        ("headers: {X-Id: 7}", {"X-Id": "7"}),
        ("args: [-y, 8080]", ["-y", "8080"]),
        ("args: {port: 8080, ground_truth: 1}", {"port": 8080, "ground_truth": 1}),
        ("turn_config: {ground_truth: 1, api_key: 2}", {"ground_truth": 1, "api_key": 2}),
        ("ground_truth_chunk_ids: [007, 1.0]", ["007", "1.0"]),
        ("ground_truth_chunk_ids: {007: 2, yes: 1}", {"007": 2, "yes": 1}),
    ],
)
def test_what_is_kept_as_it_is_written(text: str, value: Any) -> None:
    assert same(next(iter(read(text).values())), value)
