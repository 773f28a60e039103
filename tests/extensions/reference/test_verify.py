"""`verify`: text scores of records, computed again by sacreBLEU, rouge-score and NLTK."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import TurnRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project

TRUTH = "The kettles are shipped from Leeds, usually within two days."
ANSWERS = [
    "Our kettle ships from Leeds within 2 days.",
    "The kettles are shipped from Leeds, usually within two days.",
    "",
    "Nothing in common!",
    "The \uff4bettles\u200b ship\u00ad from Leeds\u2028within 2\u00a0days \ue000.",
]
METRICS: list[dict[str, Any]] = [
    {"type": "standard", "metric": "equality"},
    {"type": "standard", "metric": "bleu"},
    {"type": "standard", "metric": "rouge"},
    {"type": "standard", "metric": "rouge", "variant": "rouge1", "use_stemmer": True, "name": "stems"},
    {"type": "standard", "metric": "meteor"},
    {
        "type": "composite",
        "name": "words",
        "metrics": [
            {"type": "standard", "metric": "bleu", "enabled": False},
            {"type": "standard", "metric": "f1_score"},
            {"type": "standard", "metric": "rouge", "variant": "rouge2"},
            {"type": "standard", "metric": "bleu", "response_path": "text"},
        ],
    },
]


def evaluated(project: Project, answers: list[str], **environ: str) -> None:
    """Run a suite whose cases get these answers; each is expected to be TRUTH."""
    cases = [{"name": f"case {at}", "input": "Where from?", "ground_truth": TRUTH} for at in range(len(answers))]
    project.suite(cases, METRICS)
    project.answers([{"case": f"case {at}", "response": answer} for at, answer in enumerate(answers)])
    assert project.run("run", "--target", "recorded:answers.jsonl", "-o", "out", **environ).code == 1


def changed(project: Project, change: Callable[[TurnRecord], TurnRecord]) -> None:
    """Write the record anew with another first turn of its first case."""
    record = read_record(project.out / "results.json")
    first, *others = record.cases
    (trial,) = first.trials
    first = replace(first, trials=(replace(trial, turns=(change(trial.turns[0]),)),))
    changed_record = replace(record, cases=(first, *others))
    write_results(project.out, changed_record, decide(changed_record))


def with_evaluation(turn: TurnRecord, name: str, change: Callable[[Evaluation], Evaluation]) -> TurnRecord:
    found = tuple(change(each) if each.evaluator_name == name else each for each in turn.evaluations)
    assert found != turn.evaluations
    return replace(turn, evaluations=found)


@pytest.mark.proves("verify: RESULTS")
def test_scores_of_a_run_are_those_of_the_libraries(project: Project) -> None:
    evaluated(project, [*ANSWERS, json.dumps({"text": ANSWERS[0]})])
    finished = project.run("verify", "out")
    # Six a case: four metrics, and two of the composite.
    assert finished == Finished(
        0,
        "✓ out/results.json: 36 of 36 text scores equal those of sacrebleu 2.6.0, rouge-score 0.1.2, nltk 3.10.4\n",
        "",
    )
    record = read_record(project.out / "results.json")
    scores = [each.score for case in record.cases for each in case.trials[0].turns[0].evaluations]
    assert len(set(scores)) > 10


def test_each_difference_is_named(project: Project) -> None:
    evaluated(project, ANSWERS)

    def lower(evaluation: Evaluation) -> Evaluation:
        return replace(evaluation, score=0.25)

    changed(project, lambda turn: with_evaluation(turn, "bleu", lower))
    finished = project.run("verify", "out/results.json")
    first, last = finished.stdout.splitlines()
    assert finished.code == 1
    assert first.startswith("✗ out/results.json: case case-0, trial 1, turn 1, metric bleu: recorded 0.25, computed 0.")
    assert last.startswith("✗ out/results.json: 29 of 30 text scores equal those of")


@pytest.mark.full
@pytest.mark.parametrize(
    ("metric", "change", "told"),
    [
        ("rouge", lambda each: replace(each, metadata={**each.metadata, "rouge2": 0.5}), "rouge2 recorded 0.5,"),
        ("rouge", lambda each: replace(each, metadata={}), "rouge1 recorded None, computed"),
        ("meteor", lambda each: replace(each, score=each.score + 2e-12), "metric meteor: recorded"),
        ("meteor", lambda each: replace(each, score=None), "metric meteor: recorded None"),
        ("bleu", lambda each: replace(each, score=True), "metric bleu: recorded True"),
        ("bleu", lambda each: replace(each, score="0\n::error::x" * 999), "metric bleu: recorded '0"),
        (
            "rouge",
            lambda each: replace(each, criteria=replace(each.criteria, settings={"variant": "rouge9"})),
            "with settings that do not fit the metric",
        ),
    ],
)
def test_a_small_difference_is_one_too(
    project: Project, metric: str, change: Callable[[Evaluation], Evaluation], told: str
) -> None:
    evaluated(project, ANSWERS[:1])
    changed(project, lambda turn: with_evaluation(turn, metric, change))
    finished = project.run("verify", "out")
    assert (finished.code, finished.stdout.count("✗"), finished.stdout.count("\n")) == (1, 2, 2)
    assert told in finished.stdout
    assert "\n::" not in finished.stdout
    assert max(map(len, finished.stdout.splitlines())) < 1200


def test_another_answer_or_none_is_a_difference(project: Project) -> None:
    evaluated(project, ANSWERS[:1])
    changed(project, lambda turn: replace(turn, response="Another kettle."))
    other = project.run("verify", "out")
    changed(project, lambda turn: replace(turn, response=None))
    none = project.run("verify", "out")
    assert (other.code, none.code) == (1, 1)
    assert "metric words, rouge" in other.stdout
    assert none.stdout.count("but the turn has no response") == 6


def test_what_was_redacted_is_skipped_and_no_success_alone(project: Project) -> None:
    evaluated(project, ["the key is planted-0815 of Leeds", ANSWERS[0]], SHOP_TOKEN="planted-0815")
    both = project.run("verify", "out")
    evaluated(project, ["the key is planted-0815 of Leeds"], SHOP_TOKEN="planted-0815")
    alone = project.run("verify", "out")
    assert both.code == 0
    assert both.stdout.startswith("✓ out/results.json: 6 of 6 text scores equal those of ")
    assert both.stdout.endswith("; 6 skipped: secrets were taken out of their texts (***)\n")
    assert alone.code == 1
    assert alone.stdout.startswith("✗ out/results.json: no text score could be verified; 6 skipped: ")


@pytest.mark.proves("verify: RESULTS")
def test_records_of_several_suites(project: Project) -> None:
    evaluated(project, ANSWERS[:1])
    project.copy_to(project.folder / "all/first")
    project.suite([{"name": "a", "input": "a", "ground_truth": "a"}])
    project.answers([{"case": "a", "response": "a"}])
    assert project.run("run", "--target", "recorded:answers.jsonl", "-o", "all/second").code == 0
    finished = project.run("verify", "all")
    assert finished.code == 0
    first, second = finished.stdout.splitlines()
    assert first.startswith("✓ all/first/out/results.json: 6 of 6")
    assert second == "✓ all/second/results.json: no text scores"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nowhere.json", "nowhere.json: cannot be read: No such file"),
        ("empty", "empty: holds no results.json; give the output folder of a run"),
        ("agent.yaml", "agent.yaml: not a results file"),
        ("out", "out/results.json: no score of bleu, rouge or meteor to verify"),
    ],
)
def test_what_cannot_be_verified_is_refused(project: Project, given: str, told: str) -> None:
    project.numbered(1)
    (project.folder / "empty").mkdir()
    assert project.run("run", "-o", "out").code == 0
    finished = project.run("verify", given)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"error: {told}")


def test_without_the_libraries_it_says_what_to_install(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(project, ANSWERS[:1])
    monkeypatch.delitem(sys.modules, "holodeck_action.extensions.reference.reference", raising=False)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    finished = project.run("verify", "out")
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.stderr == (
        "error: verify: the reference libraries are not installed (rouge_score.rouge_scorer); run pip install "
        "'holodeck-action[reference]'\n"
    )
