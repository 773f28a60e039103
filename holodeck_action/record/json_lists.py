"""JSON whose long lists are written item by item, as if the whole had been made at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def with_items(text: str, lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield JSON piece by piece, some of its empty lists filled.

    Args:
        text: JSON with an indent of 1.
        lists: by the line that an empty list stands on, with its indent and without a comma behind it, such as
            `  "evaluations": []`; the items as JSON with an indent of 1. No text of a value looks like that line:
            JSON has no line ends in texts.
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
