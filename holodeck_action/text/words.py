"""Words in a value, which distinguish names made up by people from random strings.

`data/words.txt` holds words of six letters or more from WordNet 3.0 (its licence is `metrics/data/LICENSE.WordNet`) and
a few more, sorted; `scripts/build_word_list.py` builds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holodeck_action.text.foreign import read_file
from holodeck_action.text.lazy_patterns import lazy_pattern

_SHORTEST = 6
_RUN = lazy_pattern(rf"[a-z]{{{_SHORTEST},}}")


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each word in a lower-case string, at most one word for each start."""
    for run in _RUN.finditer(text):
        start, end = run.span()
        for at in range(start, end - _SHORTEST + 1):
            word = next(
                (each for each in _words_with_prefix(text[at : at + _SHORTEST]) if text.startswith(each, at, end)), None
            )
            if word is not None:
                yield at, at + len(word)


def _words_with_prefix(letters: str) -> Iterator[str]:
    """Yield the words that begin with `letters`. The list is searched as one string, because splitting it takes
    longer."""
    words = _word_list()
    low, high = 0, len(words)
    while low < high:
        middle = words.rfind("\n", 0, (low + high) // 2) + 1
        after = words.find("\n", middle) + 1
        if words[middle : after - 1] < letters:
            low = after
        else:
            high = middle
    while words.startswith(letters, low):
        after = words.find("\n", low)
        yield words[low:after]
        low = after + 1


@cache
def _word_list() -> str:
    return read_file(Path(__file__).with_name("data") / "words.txt").text()
