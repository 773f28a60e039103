"""Selects the recorded conversations that become cases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from holodeck_action.extensions.trace_cases.conditions import REASONS, AttributeBelow, AttributeValue
from holodeck_action.extensions.traces.conversations import TraceConversation
from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_CHARACTERS = 100_000
"""Maximum characters of a conversation's inputs."""
_KEPT_TEXT = 2_000
_NOT_WORD = lazy_pattern(r"[\W_]+")


class Candidate(Struct, frozen=True):
    """A conversation that can be a case.

    Attributes:
        id: the conversation's id.
        ranks: strength of each applicable reason, by value of `--pick`; a higher rank is chosen first.
        text: the beginning of the masked inputs, used to compare conversations.
        key: digest of the masked inputs; equal for conversations with the same inputs.
        order: digest of seed and id, which sorts conversations with equal ranks.
    """

    id: str
    ranks: Mapping[str, float]
    text: str
    key: str
    order: str


class Candidates(Struct):
    """The candidates by key, and counts of the conversations left out.

    Attributes:
        found: one candidate per distinct inputs, by key.
        total: number of all conversations.
        repeated: number of conversations with the same inputs as another one.
        existing: number of conversations with the same inputs as an existing case, by the case's name.
        unknown: number of conversations with an input that is unknown or blank.
        long: number of conversations whose inputs exceed `MOST_CHARACTERS`.
    """

    found: dict[str, Candidate] = field(default_factory=dict)
    total: int = 0
    repeated: int = 0
    existing: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    long: int = 0


def collect(
    conversations: Iterable[TraceConversation],
    cases: Mapping[str, str],
    mask: Callable[[str], str],
    disliked: Sequence[AttributeValue],
    low: Sequence[AttributeBelow],
    seed: int,
) -> Candidates:
    """Return the conversations that can become cases.

    Args:
        conversations: the conversations.
        cases: names of existing cases by key of their masked inputs.
        mask: masks secrets and personal data in a text.
        disliked: attributes that show a thumbs down.
        low: attributes that show a low score.
        seed: seed of the random order of conversations with equal ranks.
    """
    made = Candidates()
    for conversation in conversations:
        made.total += 1
        inputs = [turn.input or "" for turn in conversation.turns]
        if not all(text.strip() for text in inputs):
            made.unknown += 1
            continue
        if sum(map(len, inputs)) > MOST_CHARACTERS:
            made.long += 1
            continue
        masked = [mask(text) for text in inputs]
        key = key_of(masked)
        if key in cases:
            made.existing[cases[key]] += 1
            continue
        candidate = Candidate(
            conversation.id,
            _ranks(conversation, disliked, low),
            "\n".join(masked)[:_KEPT_TEXT],
            key,
            hashlib.sha256(f"{seed}:{conversation.id}".encode("utf-8", "replace")).hexdigest(),
        )
        former = made.found.get(key)
        if former is not None:
            made.repeated += 1
            # The conversation that something went wrong in says more.
            candidate = candidate if len(candidate.ranks) > len(former.ranks) else former
        made.found[key] = candidate
    return made


def key_of(inputs: Iterable[str]) -> str:
    """Return a digest of inputs that ignores punctuation, white space and case."""
    texts = (_NOT_WORD.sub(" ", text.casefold()).strip() or text.strip() for text in inputs)
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()


def choose(
    candidates: Iterable[Candidate],
    reasons: Sequence[str],
    limit: int,
    sort_unlike: Callable[[Sequence[Candidate]], Sequence[Candidate]],
) -> list[tuple[Candidate, str]]:
    """Return the chosen candidates, each with its reason; each reason in turn chooses one candidate.

    Args:
        candidates: the candidates.
        reasons: values of `--pick`, in the order of their turns.
        limit: maximum number of candidates.
        sort_unlike: sorts candidates so that those least similar to existing cases, and to each other, come first.
    """
    left = sorted(candidates, key=lambda candidate: candidate.order)
    queues: dict[str, list[Candidate]] = {}
    for reason in REASONS:
        if reason == "unlike" and reason in reasons:
            queues[reason] = [*sort_unlike(left)]
        elif reason in reasons:
            having = [candidate for candidate in left if reason in candidate.ranks]
            queues[reason] = sorted(having, key=lambda candidate: -candidate.ranks[reason])
    chosen: dict[str, tuple[Candidate, str]] = {}
    while len(chosen) < limit and any(queues.values()):
        for reason, queue in queues.items():
            while queue and queue[0].key in chosen:
                queue.pop(0)
            if queue and len(chosen) < limit:
                candidate = queue.pop(0)
                chosen[candidate.key] = candidate, reason
    return [*chosen.values()]


def _ranks(
    conversation: TraceConversation, disliked: Sequence[AttributeValue], low: Sequence[AttributeBelow]
) -> dict[str, float]:
    turns = conversation.turns
    distances = [found for turn in turns for each in low if (found := each.distance(turn.attributes)) is not None]
    ranks = {
        "errors": sum(turn.error is not None for turn in turns),
        "low-scores": max(distances, default=0.0),
        "thumbs-down": sum(each.holds(turn.attributes) for turn in turns for each in disliked),
    }
    # More turns first, then longer inputs.
    size = sum(len(turn.input or "") for turn in turns)
    return {reason: rank for reason, rank in ranks.items() if rank} | {"longest": len(turns) + size / 1e6}
