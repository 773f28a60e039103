"""What the preset evaluators ask: criteria, steps and levels of each metric, in our own words (evaluators §8)."""

from __future__ import annotations

from dataclasses import dataclass

from holodeck_action.results.evaluation import Polarity


@dataclass(frozen=True, slots=True)
class Criterion:
    """One metric of a preset.

    Attributes:
        name: the metric's name.
        params: what the judge sees, in the names of `GEvalEvaluator`.
        criteria: what is graded.
        steps: how the judge proceeds.
        levels: what an answer of level 1, 2 and 3 is like.
        polarity: whether high or low levels are good.
    """

    name: str
    params: tuple[str, ...]
    criteria: str
    steps: tuple[str, ...]
    levels: tuple[str, str, str]
    polarity: Polarity = "maximize"


_COMPARED = ("input", "actual_output", "expected_output")
_ANSWERED = ("input", "actual_output")

COMPLETENESS = Criterion(
    "completeness",
    _COMPARED,
    "How much of what the expected output says in reply to the input does the actual output say, too?",
    (
        "List the facts and instructions of the expected output that the input asks for.",
        "For each of them look whether the actual output says it, in whatever words, and without contradicting it.",
        "Leave out of account what the actual output says beyond them, how it is worded and how long it is.",
        "Choose the level by how many are there, and whether one that the input is mainly about is missing or wrong.",
    ),
    (
        "Nothing of it is there, or what the input is mainly about is missing or wrong.",
        "What the input is mainly about is there, but something else of it is missing or wrong.",
        "All of it is there.",
    ),
)
GROUNDEDNESS = Criterion(
    "groundedness",
    (*_ANSWERED, "retrieval_context"),
    "Does everything that the actual output states rest on the retrieval context or on the input?",
    (
        "List the statements of fact in the actual output; greetings, offers of help and questions are none.",
        "For each of them look for the part of the retrieval context, or of the input, that says it or from which it "
        "follows.",
        "What is true but stands in neither does not rest on them; what contradicts them is worse.",
        "Choose the level by the statements that rest on nothing, and by how much of the answer hangs on them.",
    ),
    (
        "It contradicts the texts, or its main statement rests on nothing in them.",
        "Its main statement rests on the texts, but another one does not.",
        "Every statement rests on the texts.",
    ),
)
GROUNDEDNESS_WITHOUT_CONTEXT = Criterion(
    "groundedness",
    _COMPARED,
    "Does everything that the actual output states agree with the expected output or the input?",
    (
        "List the statements of fact in the actual output; greetings, offers of help and questions are none.",
        "For each of them look whether the expected output or the input says it, or whether it follows from them.",
        "What is true but stands in neither has no ground here; what contradicts them is worse.",
        "Choose the level by the statements without a ground, and by how much of the answer hangs on them.",
    ),
    (
        "It contradicts the expected output, or its main statement has no ground.",
        "Its main statement has a ground, but another one has none.",
        "Every statement has a ground.",
    ),
)
REDUNDANCY = Criterion(
    "redundancy",
    _COMPARED,
    "How much does the actual output say twice, or say without need?",
    (
        "Find what the actual output says more than once, in the same words or in others.",
        "Find what neither the input asks for nor the expected output says, and what the answer could go without.",
        "A short greeting or closing is not counted.",
        "Choose the level by how much of the actual output is of these two kinds: a high level is bad.",
    ),
    (
        "Nothing, or next to nothing, could be left out.",
        "A sentence or two could be left out.",
        "Much of it repeats itself or is beside the point.",
    ),
    "minimize",
)
GENERATION = (COMPLETENESS, GROUNDEDNESS, REDUNDANCY)

QUERY_TRANSFORMATION = (
    Criterion(
        "completeness",
        _COMPARED,
        "Does the transformed query (actual output) ask for everything that the expected query asks for?",
        (
            "List what the expected output asks for: subjects, conditions, names, numbers, places and times.",
            "For each of them look whether the actual output asks for it, in whatever words; several queries count "
            "together.",
            "Choose the level by what is missing or changed.",
        ),
        (
            "The subject, or a condition that changes what is found, is missing or changed.",
            "The subject is there, but a lesser detail is missing or changed.",
            "All of it is asked for.",
        ),
    ),
    Criterion(
        "groundedness",
        _COMPARED,
        "Does the transformed query (actual output) ask only for what the input, or the expected query, asks for?",
        (
            "List the subjects and conditions that the actual output asks for.",
            "For each of them look whether the input or the expected output names or implies it; synonyms and names "
            "written out are implied.",
            "Choose the level by what has been added or assumed, and whether it would change what is found.",
        ),
        (
            "Something is added or assumed that changes what is found.",
            "Something is added that hardly changes what is found.",
            "Nothing is added or assumed.",
        ),
    ),
    Criterion(
        "redundancy",
        _COMPARED,
        "How much does the transformed query (actual output) repeat, or carry without need?",
        (
            "Find words and queries of the actual output that ask for the same thing again.",
            "Find what no search needs: politeness, filler, remarks about the query itself.",
            "Synonyms that help a search, and those in the expected output, are not counted.",
            "Choose the level by how much could be left out: a high level is bad.",
        ),
        (
            "Nothing, or next to nothing, could be left out.",
            "Some words could be left out.",
            "Much of it repeats itself or is of no use to a search.",
        ),
        "minimize",
    ),
)

SUMMARIZATION = (
    Criterion(
        "coherence",
        _ANSWERED,
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
        _ANSWERED,
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
        _ANSWERED,
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
        _ANSWERED,
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
