"""Texts in pieces: nothing is lost, nothing is too long, and pieces end where the text pauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.chunking import chunk_text, count_tokens, token_spans

SIZES = st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(st.text(st.sampled_from("ab。.!# \n\t東"), max_size=300), SIZES)
def test_every_visible_character_is_in_a_piece(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = chunk_text(text, size=size, overlap=overlap)
    assert all(piece.strip() == piece != "" and count_tokens(piece) <= size for piece in pieces)
    tokens = [text[begin:end] for begin, end in token_spans(text)]
    rebuilt: list[str] = []
    for number, piece in enumerate(pieces):
        own = [piece[begin:end] for begin, end in token_spans(piece)]
        if number:
            assert own[:overlap] == rebuilt[len(rebuilt) - overlap :]
        rebuilt += own[overlap if number else 0 :]
    assert rebuilt == tokens


def test_a_text_that_fits_is_one_piece() -> None:
    assert chunk_text("  One.\n\nTwo.  ", size=4, overlap=0) == ["One.\n\nTwo."]
    assert chunk_text(" \n ") == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a b c. d\n\n# e f g h", ["a b c. d", "# e f g h"]),
        ("a b c.\n\nd e f\ng h", ["a b c.", "d e f\ng h"]),
        ("a b c.\nd. e f g h", ["a b c.", "d. e f g h"]),
        ("a b c. d e f g", ["a b c.", "d e f g"]),
        ("a b c d e f g h", ["a b c d e f", "g h"]),
        ("甲乙丙。丁戊己", ["甲乙丙。", "丁戊己"]),
        ("3.14 is 3.14 is", ["3.14 is", "3.14 is"]),
    ],
)
def test_a_piece_ends_where_the_text_pauses_most(text: str, pieces: list[str]) -> None:
    assert chunk_text(text, size=6, overlap=0) == pieces


def test_an_overlap_as_large_as_the_piece_is_refused() -> None:
    with pytest.raises(ValueError, match="less than the size"):
        chunk_text("a", size=3, overlap=3)
