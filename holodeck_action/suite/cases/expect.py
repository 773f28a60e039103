"""The keys `expect` and `stop`: checks of an answer in short form, as a list or as a mapping from type to value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from holodeck_action.suite.yaml.document import MarkedList, MarkedMap

EXPECT = "expect"
"""The key of cases, of turns, and of entries of the policy file's `cases`."""
STOP = "stop"
"""The key of `simulate` with checks that end the conversation."""


def normalize_checks(entries: Iterable[Any]) -> None:
    """Turn each `expect` and `stop` that is a mapping into a list with one mapping for each check.

    Args:
        entries: unvalidated cases or overlays, which are changed.
    """
    for entry in entries:
        turns = entry.get("turns") if isinstance(entry, MarkedMap) else None
        simulated = entry.get("simulate") if isinstance(entry, MarkedMap) else None
        if isinstance(simulated, MarkedMap) and isinstance(written := simulated.get(STOP), MarkedMap):
            simulated[STOP] = _list_of_checks(written)
        for part in chain((entry,), turns if isinstance(turns, MarkedList) else ()):
            if isinstance(part, MarkedMap) and isinstance(written := part.get(EXPECT), MarkedMap):
                part[EXPECT] = _list_of_checks(written)


def _list_of_checks(checks_map: MarkedMap) -> MarkedList:
    checks = MarkedList.at(checks_map.line, checks_map.column)
    for kind, value in checks_map.items():
        check = MarkedMap.at(*checks_map.key_position(kind), {kind: value})
        check.marks[kind] = positions = checks_map.positions(kind)
        checks.append(check)
        checks.marks.append(positions[:2])
    return checks


def raw_overlays(document: Any) -> Iterable[Any]:
    """Return the unvalidated entries of `cases` in a policy file; empty if it has none."""
    cases = document.get("cases") if isinstance(document, Mapping) else None
    return cases.values() if isinstance(cases, Mapping) else ()
