"""Several expected answers to one question: which one counts, and where it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.project import Project, evaluations
from tests.suite.folders import complaints
from tests.tables import walk

ANSWERS = ["The cat sat on the mat.", "A cat was sitting on a mat", "There is a cat on the mat"]
REPLY = "there is a cat on a mat"
TEXT = ("bleu", "rouge", "meteor", "f1_score", "equality")


def _scores(project: Project, expected: Any, metrics: list[dict[str, Any]]) -> dict[str, Any]:
    project.suite([{"name": "cat", "input": "What is there?", **expected}], metrics)
    project.answers([{"case": "cat", "response": REPLY}])
    project.policy(target="recorded:answers.jsonl")
    _, record = project.evaluate()
    return {found.evaluator_name: found for found in evaluations(record)}


def _libraries(answers: list[str]) -> dict[str, list[float]]:
    """The scores of the libraries that define the metrics, for each of the answers."""
    from holodeck_action.extensions.reference.reference import reference_scores

    metrics = ("bleu", "rouge", "meteor")
    return {name: [reference_scores(name, REPLY, text)["score"] for text in answers] for name in metrics}


@pytest.mark.full
@pytest.mark.needs("reference")
@pytest.mark.proves("CaseEntry: ground_truths", "EveryAnswer: all")
def test_the_best_match_counts_or_the_worst_as_the_libraries_score_them(project: Project) -> None:
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import meteor_score
    from rouge_score.rouge_scorer import RougeScorer

    from holodeck_action.extensions.reference.reference import TableWordNet

    metrics = [{"type": "standard", "metric": name} for name in TEXT]
    of_each = _libraries(ANSWERS)
    best = _scores(project, {"ground_truths": ANSWERS}, metrics)
    worst = _scores(project, {"ground_truths": {"all": ANSWERS}}, metrics)
    for name, scores in of_each.items():
        assert (best[name].score, worst[name].score) == (pytest.approx(max(scores)), pytest.approx(min(scores))), name
        assert best[name].metadata["reference"] == ANSWERS[scores.index(max(scores))]
        assert worst[name].metadata["reference"] == ANSWERS[scores.index(min(scores))]
    # The definitions for several references that ROUGE and METEOR have.
    several = RougeScorer(["rougeL"]).score_multi(ANSWERS, REPLY)["rougeL"].fmeasure
    assert best["rouge"].score == pytest.approx(several)
    *tokens, replied = (word_tokenize(text, preserve_line=True) for text in (*ANSWERS, REPLY))
    assert best["meteor"].score == pytest.approx(meteor_score(tokens, replied, wordnet=TableWordNet()))
    # The verdicts can be computed again by the libraries.
    assert project.run("verify", "out/results.json").code == 0


def test_every_report_names_the_answer_that_counts(project: Project) -> None:
    metrics: list[dict[str, Any]] = [
        {"type": "standard", "metric": "equality", "case_insensitive": True},
        {"type": "standard", "metric": "f1_score", "threshold": 0.9},
        {
            "type": "composite",
            "name": "both",
            "metrics": [{"type": "standard", "metric": "f1_score", "threshold": 0.9}],
        },
    ]
    found = _scores(project, {"ground_truths": ["no", "there is a Cat on A mat"]}, metrics)
    counted = "expected answer 2 of 2 is the best match: there is a Cat on A mat"
    assert [each.score for each in found.values()] == [1.0, 1.0, 1.0]
    assert all(counted in (each.explanation or "") for each in (found["equality"], found["f1_score"]))
    assert project.verdict()["outcome"] == "passed"

    found = _scores(project, {"ground_truths": {"all": ["there is a cat on a mat", "seven"]}}, metrics)
    finished = project.run("run", "agent.yaml", "-o", "out")
    assert finished.code == 1
    worst = "expected answer 2 of 2 is the worst match: seven"
    for text in (finished.stdout, (project.out / "report.md").read_text(), (project.out / "report.html").read_text()):
        assert "there is a cat on a mat" in text
        assert worst in text
    assert "f1\\_score 0, needs 0.90: Token F1" in (project.out / "report.md").read_text()


@walk(
    ("expected", "sentence"),
    [
        ("ground_truths: [a], ground_truth: b", "ground_truths: has all expected answers: leave out ground_truth"),
        ("ground_truths: []", "ground_truths: must have at least one entry"),
        ("ground_truths: Leeds", "ground_truths: must be a list"),
        ("ground_truths: {any: [a]}", "ground_truths.any: unknown key (allowed: all)"),
        ("ground_truths: ['a', ' ']", "ground_truths[1]: must not be blank"),
    ],
)
def test_expected_answers_that_cannot_be_read_are_refused(tmp_path: Any, expected: str, sentence: str) -> None:
    agent = (
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: x}\n"
        "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
        f"test_cases: [{{input: q, {expected}}}]\n"
    )
    assert sentence in "\n".join(complaints(tmp_path, agent, {"agent.yaml": agent}))


def test_numbers_and_columns_of_tables_give_several_answers(project: Project) -> None:
    project.suite([], [{"type": "standard", "metric": "numeric"}, {"type": "standard", "metric": "equality"}])
    agent = json.loads((project.folder / "agent.yaml").read_text())
    del agent["test_cases"]
    project.write("agent.yaml", json.dumps({**agent, "test_cases_file": "squad.jsonl"}))
    rows = [{"id": "q1", "question": "How many?", "answers": {"text": ["1.10", "about one"]}, "plausible": 1}]
    project.write("squad.jsonl", "\n".join(map(json.dumps, rows)))
    project.policy(
        target="recorded:answers.jsonl",
        columns={"question": "input", "answers.text": "ground_truths", "*": None},
    )
    project.answers([{"case": "q1", "response": "1.10"}])
    finished, record = project.evaluate()
    assert finished.code == 0
    assert "so no answer passes" not in finished.stdout
    assert [each.metadata["reference"] for each in evaluations(record)] == ["1.10", "1.10"]
    (turn,) = record.turns
    assert turn.ground_truth == "1.10\nor: about one"


@pytest.mark.proves("CaseOverlay: ground_truths")
def test_the_policy_file_has_several_answers_in_place_of_one(project: Project) -> None:
    """HoloDeck refuses them in agent.yaml. In a conversation they are those of the last turn."""
    turns = [{"input": "What is there?", "ground_truth": REPLY}, {"input": "And?", "ground_truth": "A dog"}]
    cases: list[dict[str, Any]] = [
        {"name": "cat", "input": "What?", "ground_truth": "A dog"},
        {"name": "talk", "turns": turns},
    ]
    project.suite(cases, [{"type": "standard", "metric": "equality"}])
    project.answers(
        [{"case": "cat", "response": REPLY}, *({"case": "talk", "turn": n, "response": REPLY} for n in (0, 1))]
    )
    project.policy(target="recorded:answers.jsonl")
    before, alone = project.evaluate()
    answers = {"ground_truths": ["A dog", REPLY]}
    project.policy(target="recorded:answers.jsonl", cases={"cat": answers, "talk": answers})
    after, both = project.evaluate()
    assert (before.code, after.code) == (1, 0), after.stdout
    assert [turn.ground_truth for turn in both.turns] == [f"A dog\nor: {REPLY}", REPLY, f"A dog\nor: {REPLY}"]
    assert all(one.content_hash != other.content_hash for one, other in zip(alone.cases, both.cases, strict=True))
