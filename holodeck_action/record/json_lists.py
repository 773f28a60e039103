"""Writes JSON documents with long lists item by item. The bytes are the same as if the document were written at
once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def fill_lists(text: str, lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a JSON document piece by piece, with some of its empty lists filled.

    Args:
        text: the document, with an indent of 1.
        lists: for each empty list to fill, its items as JSON with an indent of 1. The key is the line of the list with
            its indent and without a comma, such as `  "evaluations": []`; no value can contain such a line, because
            JSON strings have no line breaks.
    """
    for number, line in enumerate(text.split("\n")):
        start = "\n" if number else ""
        bare = line.removesuffix(",")
        items = lists.get(bare)
        if items is None:
            yield f"{start}{line}"
            continue
        indent = "\n" + " " * (len(line) - len(line.lstrip(" ")))
        filled = False
        for item in items:
            before = "," if filled else f"{start}{bare[:-1]}"
            yield before + f"\n{item}".replace("\n", f"{indent} ")
            filled = True
        yield f"{indent}]{line[len(bare) :]}" if filled else f"{start}{line}"
