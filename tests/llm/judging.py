"""A judge for the fake model server: it knows the truth about every case, and answers each kind of question from it.

Every text of a case names it (`case-17`), so that every prompt about it does.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm.models import Answer, Request

_CASE = re.compile(r"case-(\d+)")
_CHUNK = re.compile(r"chunk (\d+) of case-(\d+)")
_OPENINGS = {
    "For the provided list of statements": "statement_verdicts",
    "Based on the given claims": "claim_verdicts",
    "Given the input, expected output, and retrieval context": "chunk_verdicts",
    "For EACH sentence in the given expected output": "sentence_verdicts",
}


@dataclass(frozen=True)
class Truth:
    """What is true about one case; verdicts are yes, no or borderline.

    `chunk_statements` holds for every chunk the verdicts of its statements. `alternatives` are the probabilities of
    the scores (0 to 10) that could stand in place of `score`.
    """

    number: int
    claim_verdicts: tuple[str, ...] = ()
    statement_verdicts: tuple[str, ...] = ()
    chunk_statements: tuple[tuple[str, ...], ...] = ()
    chunk_verdicts: tuple[str, ...] = ()
    sentence_verdicts: tuple[str, ...] = ()
    score: int = 8
    alternatives: Mapping[str, float] = field(default_factory=dict)

    @property
    def case(self) -> dict[str, Any]:
        """The inputs of an evaluator."""
        return {
            "input": f"question of case-{self.number}",
            "actual_output": f"answer of case-{self.number}",
            "expected_output": f"expected answer of case-{self.number}",
            "retrieval_context": self.chunks,
        }

    @property
    def chunks(self) -> list[str]:
        return [f"chunk {index} of case-{self.number}" for index in range(len(self.chunk_verdicts))]

    @property
    def claims(self) -> list[str]:
        return [f"claim {index} of case-{self.number}" for index in range(len(self.claim_verdicts))]

    @property
    def statements(self) -> list[str]:
        return [f"statement {index} of case-{self.number}" for index in range(len(self.statement_verdicts))]


class Judge:
    """A rule for `FakeModels.answer`."""

    def __init__(self, *truths: Truth) -> None:
        self._truths = {truth.number: truth for truth in truths}

    def __call__(self, request: Request) -> Answer:
        text = request.text
        asked = asked_keys(request)
        if asked == {"steps"}:
            return Answer(json.dumps({"steps": ["Read the answer.", "Compare it with the criteria."]}))
        numbers = _CASE.findall(text)
        if asked == {"reason"}:
            return Answer(json.dumps({"reason": f"so it is{f' in case-{numbers[-1]}' if numbers else ''}"}))
        truth = self._truths[int(numbers[-1])]
        if "score" in asked:
            told = json.dumps({"reason": f"graded case-{truth.number}", "score": truth.score})
            return Answer(told, alternatives={str(truth.score): truth.alternatives} if truth.alternatives else {})
        if asked == {"verdicts"}:
            return Answer(json.dumps({"verdicts": _verdicts(truth, text)}))
        key = next(iter(asked))
        given = {"claims": truth.claims, "statements": truth.statements, "truths": truth.chunks}
        return Answer(json.dumps({key: given[key]}))


def asked_keys(request: Request) -> frozenset[str]:
    """The keys of the object that a judge is asked for, by schema or in words."""
    return frozenset(((request.schema or {}).get("properties") or {}).keys()) or _named_keys(request.text)


def some_truths(count: int, seed: int = 7) -> list[Truth]:
    """Make truths of all kinds, those without claims, statements or relevant chunks among them."""
    chance = random.Random(seed)

    def verdicts(least: int, words: str = "yes no") -> tuple[str, ...]:
        return tuple(chance.choice(words.split()) for _ in range(chance.randint(least, 5)))

    truths = []
    for number in range(count):
        chunks = verdicts(1)
        score = chance.randint(0, 10)
        rest = chance.random() * 0.4
        truths.append(
            Truth(
                number,
                claim_verdicts=verdicts(0, "yes no borderline"),
                statement_verdicts=verdicts(0, "yes no borderline"),
                chunk_statements=tuple(verdicts(0) for _ in chunks),
                chunk_verdicts=chunks,
                sentence_verdicts=verdicts(1),
                score=score,
                alternatives={str(score): 1 - rest, str(chance.choice([n for n in range(11) if n != score])): rest},
            )
        )
    return truths


def _verdicts(truth: Truth, text: str) -> list[dict[str, str]]:
    for opening, name in _OPENINGS.items():
        if text.startswith(opening):
            return [
                {"verdict": verdict, "reason": f"{name} {index} of case-{truth.number}"}
                for index, verdict in enumerate(getattr(truth, name))
            ]
    chunk = int(_CHUNK.findall(text)[-1][0])
    return [
        {"verdict": verdict, "statement": f"statement {index} of chunk {chunk}", "reason": "it is"}
        for index, verdict in enumerate(truth.chunk_statements[chunk])
    ]


def _named_keys(text: str) -> frozenset[str]:
    """Find the keys that a prompt asks for in words, for models that take no schema."""
    if text.lstrip().startswith(("You are an evaluator", "Given the evaluation steps, return a JSON with two keys")):
        return frozenset({"reason", "score"})
    for key in ("steps", "truths", "claims", "statements", "verdicts", "reason"):
        if re.search(rf"(?:the|with the) ['\"]{key}['\"] key", text):
            return frozenset({key})
    raise AssertionError(f"no judge's prompt: {text[:200]}")
