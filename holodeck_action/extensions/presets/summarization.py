"""The metric `type: summarization`, which grades coherence, consistency, fluency and relevance of a summary."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holodeck_action.extensions.presets.parts import ANSWER_PARAMS, Criterion, CriterionPart, PresetMetric, PresetParts
from holodeck_action.metrics.base import BuildContext
from holodeck_action.metrics.judging.probe_texts import FACT, GARBLED, OFF_TOPIC
from holodeck_action.metrics.metric_sets import TextEvaluator
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.model.probing import Exam

CRITERIA = (
    Criterion(
        "coherence",
        ANSWER_PARAMS,
        "Does the summary (actual output) hang together as one text?",
        (
            "Read the summary by itself, as somebody would who does not know the source.",
            "Look whether each sentence follows from those before it, whether it is clear what every pronoun and name "
            "stands for, and whether the order helps.",
            "Choose the level by how hard it is to follow.",
        ),
        (
            "The sentences stand beside each other, or it is often unclear what is meant.",
            "It can be followed, with a jump or an unclear reference.",
            "It reads as one text from beginning to end.",
        ),
    ),
    Criterion(
        "consistency",
        ANSWER_PARAMS,
        "Does the summary (actual output) say only what the source (input) says?",
        (
            "List the statements of the summary: who, what, when, how much, why.",
            "For each of them find the place in the source that says it.",
            "A statement that the source does not make is wrong here even if it is true.",
            "Choose the level by what has no place in the source or contradicts it.",
        ),
        (
            "It contradicts the source, or makes up something of weight.",
            "One detail has no place in the source or is not exact.",
            "Every statement has its place in the source.",
        ),
    ),
    Criterion(
        "fluency",
        ANSWER_PARAMS,
        "Is the summary (actual output) well written, sentence by sentence?",
        (
            "Read each sentence for grammar, spelling, punctuation and choice of words, in its own language.",
            "What it says, and whether it is true, plays no part.",
            "Choose the level by how much the mistakes get in the way of reading.",
        ),
        (
            "Mistakes make sentences hard to understand.",
            "There are mistakes, but every sentence is understood at once.",
            "It reads like a text by a good writer.",
        ),
    ),
    Criterion(
        "relevance",
        ANSWER_PARAMS,
        "Does the summary (actual output) hold what matters in the source (input), and not what does not?",
        (
            "List the points without which somebody would not know what the source is about.",
            "Look which of them the summary has.",
            "Look for details in it that somebody in a hurry could do without.",
            "Choose the level by what is missing and what is too much.",
        ),
        (
            "A main point is missing, or details take the place of the main points.",
            "The main points are there, but one that matters is missing, or details are too many.",
            "It holds what matters and nothing else.",
        ),
    ),
)


class SummarizationParts(PresetParts):
    """`metrics` of `summarization`."""

    COUNTED = ("coherence", "consistency", "fluency", "relevance")
    COMPARES = False

    coherence: CriterionPart = Field(default_factory=CriterionPart)
    """Whether the summary is well organised."""
    consistency: CriterionPart = Field(default_factory=CriterionPart)
    """Whether the summary agrees with the source."""
    fluency: CriterionPart = Field(default_factory=CriterionPart)
    """How well the summary is written."""
    relevance: CriterionPart = Field(default_factory=CriterionPart)
    """Whether the summary contains the important content."""


class SummarizationMetric(PresetMetric):
    """`type: summarization`: coherence, consistency, fluency and relevance of a summary of the input."""

    PLACE = 12
    ONLY_A_TURN = "a summary is the answer to one input; omit scope, or use geval"

    type: Annotated[Literal["summarization"], Role.KIND] = "summarization"
    metrics: SummarizationParts = Field(default_factory=SummarizationParts)
    """Settings of its metrics, by name. Example: `{fluency: {enabled: false}}`."""

    def _built_in_exam(self) -> Exam:
        source = f"{FACT} It was founded by Anna Berg in 1920 and sells bread."
        right = "The shop, which Anna Berg founded in 1920, sells bread and is open from 9 to 6."
        return Exam({"query": source, "response": right}, {"query": source, "response": f"{OFF_TOPIC} {GARBLED}"})

    def evaluator(self, building: BuildContext) -> TextEvaluator:
        """Return an evaluator with the enabled metrics."""
        members = self.criteria_members(self.metrics, CRITERIA, building)
        return TextEvaluator(self.name or self.type, members, **self.options(building))
