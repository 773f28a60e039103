"""Splits long texts into overlapping chunks that end at boundaries in the text; their size is counted in tokens.

A model's own tokenizer would have to be downloaded. Here a token is a word of up to eight letters and digits, eight
characters of a longer word, one Chinese, Japanese or Korean character, or one other visible character. For English
text, the count is close to a model's count, and it is the same for every model.
"""

from __future__ import annotations

from holodeck_action.text.lazy_patterns import lazy_pattern

_TOKEN = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W\u3040-\ud7af\uf900-\ufaff]{1,8}|\S")


def token_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each token in characters; each character except white space is in a token."""
    return [match.span() for match in _TOKEN.finditer(text)]


def count_tokens(text: str) -> int:
    """Return the number of tokens in a text."""
    return sum(1 for _ in _TOKEN.finditer(text))


CHUNK_SIZE = 512
CHUNK_OVERLAP = 50
"""Default size and overlap of chunks, in tokens."""

_STOPS = frozenset(".!?…:;")
_FULL_STOPS = frozenset("。！？")
_CLOSING = "\"'”’»)]*_"


def chunk_text(text: str, *, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[str]:
    """Split a text into overlapping chunks.

    A chunk ends at the strongest boundary in its second half: before a Markdown heading, at a blank line, or at the end
    of a line, a sentence or a word. If there is no boundary, the chunk ends after `size` tokens. The next chunk begins
    `overlap` tokens before the end.

    Args:
        size: largest number of tokens in a chunk, at least 1.
        overlap: number of tokens that a chunk shares with the previous chunk, less than `size`.

    Returns:
        The chunks in order. No chunk is blank, and every visible character is in a chunk.

    Raises:
        ValueError: `overlap` is not less than `size`.
    """
    return [text[begin:end] for begin, end in chunk_spans(text, size=size, overlap=overlap)]


def chunk_spans(text: str, *, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return the start and end, in characters, of each chunk that `chunk_text` returns."""
    if not 0 <= overlap < size:
        raise ValueError("the overlap must be less than the size")
    spans = token_spans(text)
    chunks: list[tuple[int, int]] = []
    begin = 0
    while begin < len(spans):
        end = _chunk_end(text, spans, begin, size, overlap)
        chunks.append((spans[begin][0], spans[end - 1][1]))
        if end == len(spans):
            break
        begin = end - overlap
    return chunks


def _chunk_end(text: str, spans: list[tuple[int, int]], first_token: int, size: int, overlap: int) -> int:
    """Return the index of the first token after the chunk that begins at token `first_token`."""
    last = first_token + size
    if last >= len(spans):
        return len(spans)
    # The end is beyond the overlap, so that the next chunk begins after the start of this one.
    earliest = first_token + max(size // 2, overlap) + 1
    return max(range(earliest, last + 1), key=lambda end: (_boundary_strength(text, spans, end), end), default=last)


def _boundary_strength(text: str, spans: list[tuple[int, int]], position: int) -> int:
    """Return the strength of the boundary before token `position`: from 0 (no boundary) to 5 (a heading begins)."""
    gap = text[spans[position - 1][1] : spans[position][0]]
    lines = gap.count("\n")
    if lines and text.startswith("#", spans[position][0]):
        return 5
    if lines:
        return 4 if lines > 1 else 3
    before = text[max(0, spans[position - 1][1] - 4) : spans[position - 1][1]].rstrip(_CLOSING)[-1:]
    if before and (before in _FULL_STOPS or (gap and before in _STOPS)):
        return 2
    return 1 if gap else 0
