"""The input and the result table of `import --prove`, which compares the verdicts of promptfoo and of this program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.text.plain import one_line

_CELL_LIMIT = 40
"""Most characters of an answer, or of an assertion's type, in the table."""


class Pair(Struct, frozen=True):
    """An assertion and an answer that it grades.

    Attributes:
        name: name of the pair's case in both programs.
        place: position of the assertion.
        kind: type of the assertion.
        answer: the answer.
    """

    name: str
    place: str
    kind: str
    answer: str


class Proof(Struct, frozen=True):
    """The input of promptfoo and of this program for a comparison of their verdicts.

    Attributes:
        pairs: pairs of an assertion and an answer whose verdicts are compared.
        files: contents of the suite's files, by name.
        promptfoo_config: configuration for promptfoo, as JSON.
        not_compared: positions and types of the assertions that need a model or have no counterpart.
    """

    pairs: Sequence[Pair]
    files: Mapping[str, str]
    promptfoo_config: str
    not_compared: Sequence[str]


def verdict_table(
    proof: Proof, promptfoo_verdicts: Mapping[str, bool], own_verdicts: Mapping[str, bool]
) -> tuple[str, int]:
    """Return a table of all pairs with totals, and the number of pairs whose verdicts differ."""
    rows = [("assertion", "answer", "promptfoo", "here", "equal")]
    words = {True: "passes", False: "fails"}
    for pair in proof.pairs:
        one, other = promptfoo_verdicts[pair.name], own_verdicts[pair.name]
        place = f"{one_line(pair.place.rpartition(':')[0])} {one_line(pair.kind, _CELL_LIMIT)}"
        answer = one_line(json.dumps(pair.answer, ensure_ascii=False), _CELL_LIMIT)
        rows.append((place, answer, words[one], words[other], "yes" if one == other else "NO"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    differing = sum(promptfoo_verdicts[pair.name] != own_verdicts[pair.name] for pair in proof.pairs)
    lines.append(f"{len(proof.pairs)} pairs: {len(proof.pairs) - differing} equal, {differing} different")
    lines += [
        f"not compared: {one_line(each, 200)}: it needs a model or has no equivalent" for each in proof.not_compared
    ]
    return "".join(f"{line}\n" for line in lines), differing
