"""A judge for the fake model server that knows what is true about the cases of presets.

Every text of a case names it in square brackets (`[a]`), so that every prompt about it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holodeck_action.extensions.presets import generation, query_transformation, summarization
from tests.llm.models import Answer, Reply, Request

_CASE = re.compile(r"\[(\w+)\]")
_FENCED = re.compile(r"^(~{8,})\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_BUILT_IN = {
    asked.steps[0]: asked.name
    for preset in (generation, query_transformation, summarization)
    for criterion in preset.CRITERIA
    for asked in (criterion, criterion.without_context or criterion)
}


@dataclass(frozen=True)
class Truth:
    """What is true about one case: levels by metric, chunks and sentences as yes and no, soundness of the way."""

    levels: Mapping[str, float] = field(default_factory=dict)
    alternatives: Mapping[str, float] = field(default_factory=dict)
    chunks: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    trajectory: str = "yes"


@dataclass
class PresetJudge:
    """A rule for `FakeModels.answer`.

    `said` notes what was asked, one word for each question. A text refuses when it holds `I will not`. `steps` names
    metrics by their first step, for metrics with criteria of their own. `instead` is given instead of any answer that
    it has, by the word of the question.
    """

    truths: Mapping[str, Truth]
    steps: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, Reply] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    prompts: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)

    def __call__(self, request: Request) -> Reply:
        word, answer = self._answer(request)
        self.said.append(word)
        self.prompts[word] = request.text
        self.models[word] = request.model
        return self.instead.get(word, answer)

    def _answer(self, request: Request) -> tuple[str, Reply]:
        text = request.text
        truth = self.truths[_CASE.findall(text)[-1]] if _CASE.search(text) else Truth()
        if text.startswith("Decide whether an assistant refuses"):
            answer = _FENCED.findall(text)[-1][1]
            return "refusal", _told(verdict="yes" if "I will not" in answer else "no")
        if text.startswith("Judge the way"):
            return "trajectory", _told(verdict=truth.trajectory)
        if text.startswith("You are an evaluator"):
            name = next(name for step, name in {**_BUILT_IN, **self.steps}.items() if step in text)
            level = truth.levels[name]
            weighted = {str(level): truth.alternatives} if truth.alternatives else {}
            return name, Answer(json.dumps({"reason": f"{name} is {level}", "score": level}), alternatives=weighted)
        if "retrieval context" in text and text.startswith("Given the input, expected output"):
            return "chunks", _verdicts(truth.chunks)
        if text.startswith("For EACH sentence"):
            return "sentences", _verdicts(truth.sentences)
        if "evaluation steps" in text[:300] and '"steps"' in text:
            return "steps", Answer(json.dumps({"steps": ["Look at the tone."]}))
        return "reason", Answer(json.dumps({"reason": "so it is"}))


def _told(verdict: str) -> Answer:
    return Answer(json.dumps({"reason": f"it is {verdict}", "verdict": verdict}))


def _verdicts(verdicts: tuple[str, ...]) -> Answer:
    return Answer(json.dumps({"verdicts": [{"verdict": verdict, "reason": "it is"} for verdict in verdicts]}))
