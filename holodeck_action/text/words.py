"""Words in a value: what a person made up is told from what a generator drew.

`data/words.txt` holds words of six letters or more from WordNet 3.0 (its licence is `metrics/data/LICENSE.WordNet`) and
a few more, sorted; `scripts/build_word_list.py` builds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holodeck_action.text.foreign import read_file

_SHORTEST = 6
_RUN = re.compile(rf"[a-z]{{{_SHORTEST},}}")


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where words are in a text of small letters: start and end, one word for each place where one begins."""
    for run in _RUN.finditer(text):
        start, end = run.span()
        for at in range(start, end - _SHORTEST + 1):
            word = next(
                (each for each in _beginning(text[at : at + _SHORTEST]) if text.startswith(each, at, end)), None
            )
            if word is not None:
                yield at, at + len(word)


def _beginning(letters: str) -> Iterator[str]:
    """Yield the words that begin with some letters. The list is searched as it is: to split it would take longer."""
    words = _words()
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
def _words() -> str:
    return read_file(Path(__file__).with_name("data") / "words.txt").text()
