"""Whatever a text holds, it is shown as text: judged by two Markdown parsers and a reader of runner commands."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given

from holodeck_action.text.code_spans import EMPTY, cell, fence, inline_code
from holodeck_action.text.plain import lines_of, one_line
from tests.action.runner import read_log
from tests.reports.hostile import hostile_texts
from tests.reports.parsing import closed, parses, rows

INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(hostile_texts)
def test_plain_text_has_no_hidden_character_and_is_no_command(text: str) -> None:
    line, lines = one_line(text), lines_of(text)
    assert not {unicodedata.category(character) for character in line} & INVISIBLE
    assert {unicodedata.category(character) for character in lines} & INVISIBLE <= {"Cc"}
    assert not set(lines) & {chr(code) for code in range(32) if chr(code) not in "\t\n"}
    assert read_log(f"{line}\n{lines}".encode()).commands == ()
    assert len(line.split("\n")) == 1


@given(hostile_texts)
def test_text_that_hides_nothing_is_shown_as_it_is(text: str) -> None:
    harmless = "".join(character for character in text if character.isalnum() or character in "`*_<>@#[]()&;.,/\\")
    assert one_line(harmless, 9999) == lines_of(harmless, 9999) == harmless.replace("##[", "# #[")


@given(hostile_texts)
def test_a_code_span_is_one_code_node_wherever_it_stands(text: str) -> None:
    span = inline_code(text)
    for context in ("a {} b", "- {}", "#### {}", "1. {}", "{}", "a\n{}\nb", "**{}**"):
        for tokens in parses(context.format(span)):
            (inline,) = (token for token in tokens if token.type == "inline")
            codes = [token.content for token in inline.children or () if token.type == "code_inline"]
            assert {token.type for token in inline.children or ()} <= {
                *("text", "code_inline", "softbreak", "strong_open", "strong_close")
            }
            assert codes == ([] if span == EMPTY else [one_line(text).replace("|", "¦")])


@given(hostile_texts)
@pytest.mark.parametrize("show", [cell, inline_code])
def test_a_cell_never_ends_before_its_text_does(show: object, text: str) -> None:
    shown = show(text)  # type: ignore[operator]
    for tokens in parses(f"| a | b | c |\n| - | - | - |\n| 1 | {shown} | 3 |\n| 4 | 5 | 6 |\n"):
        head, row, last = rows(tokens)
        assert [len(head), len(row), len(last)] == [3, 3, 3]
        assert [token.content for token in row[2]] == ["3"]
        assert {token.type for token in row[1]} == ({"text"} if shown == EMPTY else {"code_inline"})


@given(hostile_texts)
def test_a_cell_shows_the_whole_line(text: str) -> None:
    line = one_line(text, 120)
    if line:
        for tokens in parses(f"| a |\n| - |\n| {cell(text)} |\n"):
            (_, ((code,),)) = rows(tokens)
            assert code.content == line.replace("\\|", "\\ |")


@given(hostile_texts)
def test_a_cell_has_no_separator_for_parsers_that_let_a_backslash_escape_a_backslash(text: str) -> None:
    shown = cell(text)
    position = 0
    while position < len(shown):
        assert shown[position] != "|"
        position += 2 if shown[position] == "\\" else 1


@given(hostile_texts)
def test_a_fence_holds_its_text_and_ends(text: str) -> None:
    block = fence(text)
    contexts = (
        ("a{}b", ["paragraph_open", "inline", "paragraph_close"]),
        ("<details>\n<summary>x</summary>{}</details>\n", ["html_block"]),
        ("| a |\n| - |\n| {} |\n", None),
        ("- item{}- item", None),
    )
    for context, around in contexts:
        for tokens in parses(context.format(block)):
            (found,) = (token for token in tokens if token.type == "fence")
            assert closed(found)
            assert found.content == (lines_of(text, wrapped=True) or EMPTY) + "\n"
            if around is not None:
                assert [token.type for token in tokens] == [*around, "fence", *around]


def test_long_lines_are_broken_at_spaces_and_only_there() -> None:
    words = "word " * 100
    shown = lines_of(words.strip(), wrapped=True)
    assert max(map(len, shown.split("\n"))) <= 110
    assert shown.replace("\n", " ") == words.strip()
    assert lines_of("x" * 1000, wrapped=True) == "x" * 1000


def test_a_wrapped_line_never_becomes_a_command() -> None:
    text = "word " * 20 + "::error::boo"
    assert read_log(lines_of(text, wrapped=True).encode()).commands == ()


def test_what_is_cut_says_how_long_it_was() -> None:
    assert one_line("x" * 5000, 10) == "xxxxxxxxxx … (5,000 characters)"
    assert lines_of("x" * 5000, 10) == "xxxxxxxxxx\n… (5,000 characters)"
    assert one_line("x" * 10, 10) == "x" * 10


def test_all_backticks_are_shown() -> None:
    for text in ("`", "``", "a`b", "` `", "```\nrm -rf\n```"):
        for tokens in parses(inline_code(text)):
            assert (tokens[1].children or [])[0].content == one_line(text)
