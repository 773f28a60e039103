"""The identity of cases: ids, and hashes of their content."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holodeck_action.suite.model.cases import CaseEntry, TurnEntry
from holodeck_action.suite.values import ExpectedTool, ToolExpectation

MAX_SLUG = 80
_SHORT, _UNNAMED = 8, 12
"""Number of hexadecimal digits of the hash in an id: after a name, and without a name."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and without white space, as UTF-8."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def slug(name: str) -> str:
    """Return a name as lower-case words joined by hyphens, at most 80 characters; empty if it has no letters or
    digits."""
    plain = unicodedata.normalize("NFKC", name).lower()
    return re.sub(r"[\W_]+", "-", plain).strip("-")[:MAX_SLUG].rstrip("-")


def question_hash(case: CaseEntry, expectations: Sequence[ToolExpectation | None]) -> str:
    """Return the SHA-256, in hex, of a case's content in agent.yaml except its name and metrics.

    Args:
        case: the case as written.
        expectations: `expected_tools` of each of its turns.
    """
    turns: Iterable[CaseEntry | TurnEntry] = case.turns if case.turns is not None else (case,)
    content = [_turn_content(turn, expected) for turn, expected in zip(turns, expectations, strict=True)]
    asked: dict[str, Any] = {"conversation": case.turns is not None, "turns": content}
    if case.simulate is not None:
        asked["simulate"] = case.simulate.identity()
    return hashlib.sha256(canonical_json(asked)).hexdigest()


def content_hash(question: str, trajectory: Sequence[ExpectedTool] | None, gains: Mapping[str, float] | None) -> str:
    """Return the content hash of a case: its question hash `question` or, if the policy file adds a trajectory or
    gains, a hash over all of them."""
    if trajectory is None and gains is None:
        return question
    added = {
        "asked": question,
        "trajectory": [_tool_content(tool) for tool in trajectory or ()],
        "chunks": dict(gains or {}),
    }
    return hashlib.sha256(canonical_json(added)).hexdigest()


def question_with_answers(question: str, case: CaseEntry) -> str:
    """Return the question hash of a case that has its expected answers from the policy file."""
    answers = (case if case.turns is None else case.turns[-1]).references
    return hashlib.sha256(canonical_json({"asked": question, "answers": answers})).hexdigest()


def _turn_content(turn: CaseEntry | TurnEntry, expected: ToolExpectation | None) -> dict[str, Any]:
    found: dict[str, Any] = {"input": turn.input}
    if turn.expected_answer is not None:
        found["ground_truth"] = turn.expected_answer
    if expected is not None:
        found["expected_tools"] = {"order": expected.order, "tools": [_tool_content(tool) for tool in expected.tools]}
    if turn.files:
        found["files"] = [file.model_dump(exclude_none=True) for file in turn.files]
    if turn.retrieval_context is not None:
        found["retrieval_context"] = turn.retrieval_context
    if isinstance(turn, TurnEntry) and turn.turn_config:
        found["turn_config"] = turn.turn_config
    return found


def _tool_content(tool: ExpectedTool) -> list[Any]:
    args = {name: [matcher.kind, matcher.value] for name, matcher in (tool.args or {}).items()}
    return [tool.name, args, tool.count, tool.max_count, tool.match]


def case_ids(cases: Sequence[tuple[str | None, str]], explicit_ids: Sequence[str | None] = ()) -> list[str]:
    """Return a unique id for every case, independent of the order of different cases.

    Args:
        cases: name and question hash of each case.
        explicit_ids: for each case the unique id that its file gives (kept unchanged), or None; empty if no case has an
            id.

    Returns:
        The slug of the name, or `case-` and 12 hex digits of the hash if the slug is empty. Cases whose ids would be
        equal get `-` and 8 hex digits of their hash, and identical cases also a counter.
    """
    explicit_ids = explicit_ids or [None] * len(cases)
    plain = [
        own or slug(name or "") or f"case-{hash_[:_UNNAMED]}"
        for (name, hash_), own in zip(cases, explicit_ids, strict=True)
    ]
    hashes = [digest for _, digest in cases]
    taken = Counter(plain)
    ids = [
        # The id of an unnamed case carries its hash already.
        base if own or taken[base] == 1 or base == f"case-{hash_[:_UNNAMED]}" else f"{base}-{hash_[:_SHORT]}"
        for base, hash_, own in zip(plain, hashes, explicit_ids, strict=True)
    ]
    first: dict[str, str] = {}
    # Different questions whose short hashes are equal, or a name that looks like another case's id.
    shared = {found for found, digest in zip(ids, hashes, strict=True) if first.setdefault(found, digest) != digest}
    ids = [
        found if own or found not in shared else f"{base}-{digest}"
        for found, base, digest, own in zip(ids, plain, hashes, explicit_ids, strict=True)
    ]
    # An id that is given comes first, so that another one gets the counter.
    return _add_counters(ids, [(own is None, name or "") for (name, _), own in zip(cases, explicit_ids, strict=True)])


def _add_counters(ids: Sequence[str], order: Sequence[tuple[bool, str]]) -> list[str]:
    taken = set(ids)
    seen: Counter[str] = Counter()
    unique = list(ids)
    for index in sorted(range(len(ids)), key=lambda index: (ids[index], order[index])):
        found = ids[index]
        seen[found] += 1
        while seen[found] > 1 and f"{found}-{seen[found]}" in taken:
            seen[found] += 1
        if seen[found] > 1:
            unique[index] = f"{found}-{seen[found]}"
    return unique
