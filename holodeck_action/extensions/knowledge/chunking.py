"""Long texts in overlapping pieces that end where the text pauses, measured in tokens.

Models count by tables of their own, which would have to be downloaded. Here a token is a word of up to eight letters
and digits, a piece of eight of a longer word, one Chinese, Japanese or Korean character, or one other visible
character: English text has about as many of them as a model counts, and every text has the same number everywhere.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W\u3040-\ud7af\uf900-\ufaff]{1,8}|\S")


def token_spans(text: str) -> list[tuple[int, int]]:
    """Return where each token begins and ends; together they hold every character that is no blank."""
    return [match.span() for match in _TOKEN.finditer(text)]


def count_tokens(text: str) -> int:
    """Return how many tokens a text has."""
    return sum(1 for _ in _TOKEN.finditer(text))


CHUNK_SIZE = 512
CHUNK_OVERLAP = 50
"""What holds where the suite gives none, in tokens."""

_STOPS = frozenset(".!?…:;")
_FULL_STOPS = frozenset("。！？")
_CLOSING = "\"'”’»)]*_"


def chunk_text(text: str, *, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[str]:
    """Cut a text into pieces.

    A piece ends, in its second half, where the text pauses most: before a heading of Markdown, at a blank line, at the
    end of a line, of a sentence, of a word; else after `size` tokens. The next one begins `overlap` tokens before that.

    Args:
        size: most tokens of a piece, at least 1.
        overlap: tokens that a piece shares with the one before, less than `size`.

    Returns:
        The pieces in order, none of them blank; together they hold every visible character.

    Raises:
        ValueError: `overlap` is not less than `size`.
    """
    return [text[begin:end] for begin, end in chunk_spans(text, size=size, overlap=overlap)]


def chunk_spans(text: str, *, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return where the pieces of `chunk_text` begin and end, in characters."""
    if not 0 <= overlap < size:
        raise ValueError("the overlap must be less than the size")
    spans = token_spans(text)
    pieces: list[tuple[int, int]] = []
    begin = 0
    while begin < len(spans):
        end = _end(text, spans, begin, size, overlap)
        pieces.append((spans[begin][0], spans[end - 1][1]))
        if end == len(spans):
            break
        begin = end - overlap
    return pieces


def _end(text: str, spans: list[tuple[int, int]], begin: int, size: int, overlap: int) -> int:
    """Return the token before which the piece that begins at `begin` ends."""
    last = begin + size
    if last >= len(spans):
        return len(spans)
    # Later than the overlap, so that the next piece begins after this one.
    earliest = begin + max(size // 2, overlap) + 1
    return max(range(earliest, last + 1), key=lambda end: (_pause(text, spans, end), end), default=last)


def _pause(text: str, spans: list[tuple[int, int]], at: int) -> int:
    """Return how much the text pauses before a token: 0 (not at all) to 5 (a heading begins)."""
    gap = text[spans[at - 1][1] : spans[at][0]]
    lines = gap.count("\n")
    if lines and text.startswith("#", spans[at][0]):
        return 5
    if lines:
        return 4 if lines > 1 else 3
    before = text[max(0, spans[at - 1][1] - 4) : spans[at - 1][1]].rstrip(_CLOSING)[-1:]
    if before and (before in _FULL_STOPS or (gap and before in _STOPS)):
        return 2
    return 1 if gap else 0
