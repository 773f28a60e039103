"""Tokens as the sizes of chunks count them.

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
