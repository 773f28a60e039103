"""What `import --prove` compares: each assertion with each recorded answer, for promptfoo and as a suite of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.text.plain import one_line

_SHOWN = 40
"""Characters of an answer, or of the type of an assertion."""


class Pair(Struct, frozen=True):
    """An assertion and an answer: the name of their case in both programs, the assertion's place and type."""

    name: str
    place: str
    kind: str
    answer: str


class Proof(Struct, frozen=True):
    """What both programs are given.

    Attributes:
        pairs: what is compared.
        files: our suite, by their names in its folder.
        theirs: the configuration of promptfoo, as JSON.
        left: assertions that cannot be compared without a model, or have no equal, with their places.
    """

    pairs: Sequence[Pair]
    files: Mapping[str, str]
    theirs: str
    left: Sequence[str]


def equality_table(proof: Proof, theirs: Mapping[str, bool], ours: Mapping[str, bool]) -> tuple[str, int]:
    """Return the table of all pairs with its totals, and how many differ."""
    rows = [("assertion", "answer", "promptfoo", "here", "equal")]
    words = {True: "passes", False: "fails"}
    for pair in proof.pairs:
        one, other = theirs[pair.name], ours[pair.name]
        place = f"{one_line(pair.place.rpartition(':')[0])} {one_line(pair.kind, _SHOWN)}"
        answer = one_line(json.dumps(pair.answer, ensure_ascii=False), _SHOWN)
        rows.append((place, answer, words[one], words[other], "yes" if one == other else "NO"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    differing = sum(theirs[pair.name] != ours[pair.name] for pair in proof.pairs)
    lines.append(f"{len(proof.pairs)} pairs: {len(proof.pairs) - differing} equal, {differing} different")
    lines += [f"not compared: {one_line(each, 200)}: it needs a model, or has no equal" for each in proof.left]
    return "".join(f"{line}\n" for line in lines), differing
