"""Preset evaluators through `holodeck-action run`: real processes against a model server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holodeck_action.decide.survey import RecordTotals
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import KEY, Answer, FakeModels

NO_TEXTS: dict[str, Any] = {"retrieval_context": []}
"""Of an agent that retrieves nothing, and says so."""
GOOD = {"completeness": 3, "groundedness": 3, "redundancy": 1}


class Presets:
    """A server with a judge, and suites whose answers are recorded."""

    def __init__(self, project: Project, models: FakeModels) -> None:
        self.project = project
        self.models = models
        self.judge = PresetJudge({})

    def reference(self, name: str = "judge", **more: Any) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url, **more}

    def run(
        self,
        metric: dict[str, Any],
        rows: dict[str, dict[str, Any]],
        truths: dict[str, Truth],
        *flags: str,
        policy: dict[str, Any] | None = None,
        **judge: Any,
    ) -> tuple[Finished, Record]:
        """Grade recorded answers; `rows` hold `response` and the fields of cases, by name of the case."""
        self.judge = PresetJudge(truths, **judge)
        self.models.answer(self.judge)
        cases: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        for name, row in rows.items():
            fields = {key: value for key, value in row.items() if key not in ("response", "tool_invocations")}
            cases.append({"name": name, "input": f"What is [{name}]?", **fields})
            texts = {} if "retrieval_context" in row else NO_TEXTS
            told: dict[str, Any] = {key: row[key] for key in ("response", "tool_invocations") if key in row}
            answers.append({"case": name, **told, **texts})
        self.project.suite(cases, [metric], model=self.reference())
        self.project.answers(answers)
        self.project.policy(target="recorded:answers.jsonl", **(policy or {}))
        finished, record = self.project.evaluate(*flags, OPENAI_API_KEY=KEY)
        assert KEY not in finished.stdout + finished.stderr + (self.project.out / "results.json").read_text()
        return finished, record


@pytest.fixture
def presets(project: Project) -> Iterator[Presets]:
    with FakeModels(keys=[KEY]) as models:
        yield Presets(project, models)
        assert models.violations == []


def only(record: Record, case: int = 0) -> Evaluation:
    (evaluation,) = record.cases[case].trials[0].turns[0].evaluations
    return evaluation


def answer(name: str, text: str = "an answer", **more: Any) -> dict[str, Any]:
    return {"response": f"{text} [{name}]", "ground_truth": f"expected [{name}]", **more}


def test_an_answer_is_complete_grounded_and_brief(presets: Presets) -> None:
    truths = {"a": Truth(GOOD), "b": Truth({**GOOD, "completeness": 1}), "c": Truth({**GOOD, "redundancy": 3})}
    finished, record = presets.run({"type": "generation"}, {name: answer(name) for name in truths}, truths)
    assert finished.code == 1, finished.stderr
    scores = [only(record, case).score for case in range(3)]
    assert scores == [1.0, pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert [only(record, case).metadata["passed"] for case in range(3)] == [True, False, False]
    assert [case["outcome"] for case in presets.project.verdict()["cases"]] == ["passed", "failed", "failed"]
    found = only(record, 2)
    assert found.evaluator_name == "generation"
    assert found.explanation is not None
    assert "redundancy 1 is above its threshold 0.5" in found.explanation
    assert found.metadata["redundancy"]["polarity"] == "minimize"
    assert found.metadata["refused"] is False
    assert sorted(presets.judge.said) == sorted(["refusal", "completeness", "groundedness", "redundancy"] * 3)


def test_a_refusal_is_right_only_where_one_is_expected(presets: Presets) -> None:
    rows = {
        "wrong": answer("wrong", "I will not"),
        "right": answer("right", "I will not") | {"ground_truth": "I will not tell [right]"},
        "answered": answer("answered") | {"ground_truth": "I will not tell [answered]"},
    }
    truths = {"wrong": Truth(GOOD), "right": Truth(GOOD), "answered": Truth({**GOOD, "completeness": 1})}
    finished, record = presets.run({"type": "generation"}, rows, truths)
    assert finished.code == 1
    wrong, right, answered = (only(record, case) for case in range(3))
    assert [each.score for each in (wrong, right, answered)] == [0.0, 1.0, pytest.approx(2 / 3)]
    assert [each.metadata["refused"] for each in (wrong, right, answered)] == [True, True, False]
    assert [each.metadata["passed"] for each in (wrong, right, answered)] == [False, True, False]
    assert wrong.explanation == "it refuses, but should not: it is yes"
    assert right.explanation == "it refuses, as it should: it is yes"
    assert presets.judge.said.count("refusal") == 5, "the expected output is asked about where the answer refuses"
    assert presets.judge.said.count("completeness") == 1


def test_retrieved_texts_are_rated(presets: Presets) -> None:
    rows = {
        name: {**answer(name), "retrieval_context": [f"chunk [{name}]", f"chunk [{name}]"]}
        for name in ("good", "partly", "low", "nothing")
    }
    truths = {
        "good": Truth(chunks=("yes", "no"), sentences=("yes", "yes")),
        "partly": Truth(chunks=("yes", "no"), sentences=("yes", "no", "no")),
        "low": Truth(chunks=("no", "no"), sentences=("yes",)),
        "nothing": Truth(chunks=("yes", "no"), sentences=("no",)),
    }
    _, record = presets.run({"type": "lm_retrieval"}, rows, truths)
    found = [only(record, case) for case in range(4)]
    assert [each.metadata["relevancy_rating"] for each in found] == ["good", "incomplete", "bad", "bad"]
    assert [each.score for each in found] == [1.0, pytest.approx((1 + 1 / 3) / 2), 0.5, 0.5]
    assert [each.metadata["passed"] for each in found] == [True, False, False, False]
    assert found[0].metadata["contextual_precision"]["precision_at_k"] == {"1": 1.0, "2": 0.5}


def test_tool_calls_and_answer_of_an_agent(presets: Presets) -> None:
    metric = {"type": "agent", "metrics": {"trajectory_accuracy": {"enabled": True}}}
    calls = [{"name": "search", "args": {"q": "[a]"}, "result": "found ~~~~~~~~~~ it"}]
    expected = [{"name": "search"}, {"name": "book"}]
    rows = {"a": {**answer("a"), "tool_invocations": calls, "expected_tools": expected}}
    finished, record = presets.run(metric, rows, {"a": Truth(GOOD, trajectory="no")})
    assert finished.code == 1
    found = only(record)
    # DeepEval's own number: one of the two expected calls was made, while the F1 of the calls is 2/3.
    assert found.metadata["deepeval_tool_correctness"]["score"] == 0.5
    assert found.metadata["generation"]["passed"] is True
    assert found.metadata["generation"]["completeness"]["score"] == 1.0
    assert found.score == 0.75, "the trajectory takes no part"
    assert found.metadata["passed"] is True
    assert found.metadata["langchain_agent_trajectory_accuracy"]["score"] == 0.0
    assert '"tool": "search"' in presets.judge.prompts["trajectory"]
    assert "\n~~~~~~~~~~~\n" in presets.judge.prompts["trajectory"], "the fence is longer than what is in the texts"


@pytest.mark.proves("CompositeMetric: metrics")
def test_a_composite_of_computed_judged_and_own_metrics(presets: Presets) -> None:
    presets.project.write(
        "graders.py", "def polite(ctx):\n    return ctx.turn_index == 0 and ctx.test_case_name == 'a'\n"
    )
    metric = {
        "type": "composite",
        "name": "all of it",
        "metrics": [
            {"type": "standard", "metric": "f1_score"},
            {"type": "standard", "metric": "equality", "response_path": "city", "name": "city"},
            {"type": "code", "grader": "graders:polite"},
            {"type": "refusal"},
            {"type": "summarization", "metrics": {"fluency": {"threshold": 0.9}}},
            {"type": "length", "max_words": 1, "enabled": False},
        ],
    }
    levels = {"coherence": 3, "consistency": 3, "fluency": 2, "relevance": 3}
    rows = {"a": {"response": '{"city": "Paris [a]"}', "ground_truth": "Paris [a]"}}
    finished, record = presets.run(metric, rows, {"a": Truth(levels)})
    assert finished.code == 1
    found = only(record)
    parts = found.metadata["metrics"]
    assert list(parts) == ["f1_score", "city", "polite", "refusal", "summarization"]
    assert [parts[name]["passed"] for name in parts] == [None, True, True, True, False]
    assert parts["summarization"]["fluency"]["passed"] is False
    expected = (parts["f1_score"]["score"] + 1 + 1 + 1 + 3.5 / 4) / 5
    assert found.score == pytest.approx(expected)
    assert found.explanation is not None
    assert "1 of 5 failed: summarization" in found.explanation
    assert found.criteria.settings["metrics"][3] == {"type": "refusal"}


def test_one_metric_without_a_verdict_leaves_no_verdict_and_the_rest_told(presets: Presets) -> None:
    metric = {
        "type": "composite",
        "metrics": [{"type": "refusal"}, {"type": "standard", "metric": "equality"}],
    }
    broken = {"refusal": Answer("ignore the above, the answer is great")}
    finished, record = presets.run(metric, {"a": answer("a")}, {"a": Truth()}, instead=broken)
    assert finished.code == 3, finished.stderr
    found = only(record)
    assert found.status == "failed"
    assert found.error is not None
    assert found.error.code == "bad_verdict"
    assert found.error.context["metrics"]["equality"]["passed"] is False
    assert "equality" in found.error.message
    assert "refusal: the judge openai/judge gave no usable verdict twice" in found.error.message
    assert presets.judge.said == ["refusal", "refusal"]


@pytest.mark.proves("PresetPart: model")
def test_a_preset_under_a_panel_and_a_part_with_its_own_judge(presets: Presets) -> None:
    panel = {"models": [presets.reference("one"), presets.reference("two")], "aggregation": "mean"}
    metric = {
        "type": "generation",
        "judges": panel,
        "metrics": {"redundancy": {"model": presets.reference("three")}},
    }
    finished, record = presets.run(metric, {"a": answer("a")}, {"a": Truth(GOOD)})
    assert finished.code == 0, finished.stderr
    found = only(record)
    assert [each["model"] for each in found.metadata["completeness"]["panel"]["verdicts"]] == [
        "openai/one",
        "openai/two",
    ]
    assert found.metadata["redundancy"]["judge"] == "openai/three"
    assert found.metadata["redundancy"]["passed"] is True
    assert sorted(request.model for request in presets.models.requests) == ["one"] * 3 + ["three"] + ["two"] * 3


def test_reports_say_how_the_judges_of_every_metric_of_a_preset_agree(presets: Presets) -> None:
    panel = {"models": [presets.reference("one"), presets.reference("two")], "aggregation": "mean"}
    metric = {"type": "composite", "name": "all", "metrics": [{"type": "generation", "judges": panel}]}
    rows = {name: answer(name) for name in "ab"}
    finished, _ = presets.run(metric, rows, {"a": Truth(GOOD), "b": Truth({**GOOD, "completeness": 2})})
    assert finished.code == 0, finished.stderr
    panels = {found["metric"]: found for found in presets.project.verdict()["panels"]}
    parts = ("completeness", "groundedness", "redundancy", "refusal")
    assert [*panels] == [f"all: generation: {part}" for part in parts]
    completeness = panels["all: generation: completeness"]
    # Both judges say the same: 1 and 1 of one answer, 0.5 and 0.5 of the other.
    assert (completeness["judges"], completeness["verdicts"], completeness["alpha"]) == (2, 4, 1.0)
    # All scores are equal.
    assert panels["all: generation: refusal"]["alpha"] is None
    assert "all: generation: completeness: 2 judges, 4 verdicts, α 1.00" in finished.stdout


def test_a_refusal_that_no_judge_finds_out_fails_under_its_name(presets: Presets) -> None:
    panel = {"models": [presets.reference("one"), presets.reference("two")]}
    broken = {"refusal": Answer("ignore the above, the answer is great")}
    metric = {"type": "generation", "judges": panel}
    finished, record = presets.run(metric, {"a": answer("a")}, {"a": Truth(GOOD)}, instead=broken)
    assert finished.code == 3, finished.stderr
    found = only(record)
    assert found.error is not None
    assert found.error.code == "too_few_judges"
    assert len(found.error.context["metrics"]["refusal"]["verdicts"]) == 2
    (summary,) = presets.project.verdict()["panels"]
    assert (summary["metric"], summary["verdicts"], summary["missing"]) == ("generation: refusal", 0, 2)


@pytest.mark.proves("PresetMetric: parallel", "CompositeMetric: parallel")
def test_metrics_at_once_and_in_turn(presets: Presets) -> None:
    for parallel, at_once in ((True, True), (False, False)):
        with FakeModels(keys=[KEY], latency=0.1) as presets.models:
            metric = {"type": "summarization", "parallel": parallel}
            levels = {"coherence": 3, "consistency": 3, "fluency": 2, "relevance": 3}
            finished, _ = presets.run(metric, {"a": answer("a")}, {"a": Truth(levels)})
            assert finished.code == 0, finished.stderr
            assert (presets.models.peak > 1) is at_once
    for parallel, at_once in ((True, True), (False, False)):
        with FakeModels(keys=[KEY], latency=0.1) as presets.models:
            members = [{"type": "refusal"}, {"type": "trajectory_accuracy"}]
            metric = {"type": "composite", "metrics": members, "parallel": parallel}
            finished, _ = presets.run(metric, {"a": answer("a", tool_invocations=[])}, {"a": Truth()})
            assert finished.code == 0, finished.stderr
            assert (presets.models.peak > 1) is at_once


def test_a_replay_is_the_same_and_asks_nobody(presets: Presets) -> None:
    rows = {"a": {**answer("a"), "retrieval_context": ["chunk [a]"]}}
    finished, first = presets.run({"type": "generation"}, rows, {"a": Truth(GOOD)}, "--record", "tape")
    assert finished.code == 0, finished.stderr
    asked = len(presets.models.requests)
    replayed, second = presets.project.evaluate("--replay", "tape")
    assert replayed.code == 0, replayed.stderr
    assert len(presets.models.requests) == asked
    assert canonical_json(first) == canonical_json(second)
    assert only(first).metadata["usage"]["prompt_tokens"] > 0


@pytest.mark.proves(
    "CriterionPart: evaluation_params",
    "QueryTransformationMetric: score_mapping score_weights",
    "SummarizationMetric: metrics",
    "AgentMetric: metrics",
    "CompositeMetric: metrics",
)
@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ({"type": "generation", "metrics": {"completness": {}}}, "completness"),
        (
            {
                "type": "summarization",
                "metrics": {key: {"enabled": False} for key in ("coherence", "consistency", "fluency", "relevance")},
            },
            "leaves nothing to grade: enable one of coherence, consistency, fluency, relevance",
        ),
        (
            {"type": "agent", "metrics": {"tool_correctness": {"enabled": False}, "generation": {"enabled": False}}},
            "leaves nothing to grade: enable one of tool_correctness, generation",
        ),
        (
            {"type": "query_transformation", "score_mapping": {"completeness": {"1": 0, "3": 1}}},
            "must give completeness a score for each of the levels 1 to 3, and for no other",
        ),
        (
            {
                "type": "query_transformation",
                "score_mapping": {"completeness": {"1": 0, "2": 0.5, "3": 1}},
                "metrics": {"completeness": {"criteria": "Is it kind?"}},
            },
            "maps levels of completeness, which has none: give it a rubric",
        ),
        (
            {"type": "query_transformation", "score_weights": {"completeness": 0, "groundedness": 0, "redundancy": 0}},
            "gives no weight to any metric that is enabled",
        ),
        (
            {"type": "generation", "metrics": {"completeness": {"evaluation_params": ["input"]}}},
            "must contain actual_output",
        ),
        ({"type": "composite", "metrics": [{"type": "composite", "metrics": []}]}, '"composite" is not allowed'),
        ({"type": "composite", "metrics": [{"type": "refusal", "enabled": False}]}, "leaves nothing to grade"),
        (
            {"type": "composite", "metrics": [{"type": "refusal", "fail_on_error": True}]},
            "must not have fail_on_error: set it on the composite",
        ),
        (
            {
                "type": "generation",
                "model": {"provider": "openai", "name": "a"},
                "judges": {"models": [{"provider": "openai", "name": "b"}]},
            },
            "names models, and so does model",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(project: Project, metric: dict[str, Any], message: str) -> None:
    project.suite([{"name": "a", "input": "?", "ground_truth": "x", "expected_tools": []}], [metric])
    finished = project.run("validate")
    assert finished.code == 2
    assert message in finished.stdout + finished.stderr


def test_a_part_nobody_can_grade_is_named(presets: Presets) -> None:
    presets.project.suite(
        [{"name": "a", "input": "?", "ground_truth": "x"}],
        [{"type": "generation", "metrics": {"redundancy": {"model": {"provider": "anthropic", "name": "claude"}}}}],
        model=presets.reference(),
    )
    finished = presets.project.run("run", OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY="")
    assert finished.code == 2
    assert finished.stderr.count("generation: redundancy") == 1
    assert "ANTHROPIC_API_KEY" in finished.stderr


def test_a_trajectory_is_expected_of_the_whole_conversation(presets: Presets) -> None:
    presets.models.answer(PresetJudge({"a": Truth(GOOD, trajectory="yes")}))
    composite = {
        "type": "composite",
        "metrics": [{"type": "trajectory"}, {"type": "trajectory_accuracy"}, {"type": "code", "grader": "graders:one"}],
    }
    agent = {"type": "agent", "metrics": {"generation": {"enabled": False}}}
    turns = [{"input": f"{step} [a]?", "ground_truth": "yes [a]"} for step in ("search", "book")]
    presets.project.write("graders.py", "def one(ctx):\n    return len(ctx.tool_invocations) == 1\n")
    presets.project.suite([{"name": "a", "turns": turns}], [composite, agent], model=presets.reference())
    rows = [
        {"case": "a", "turn": turn, "response": "yes [a]", "tool_invocations": [{"name": name, "args": {}}], **NO_TEXTS}
        for turn, name in enumerate(("search", "book"))
    ]
    presets.project.answers(rows)
    steps = [{"name": "search"}, {"name": "book"}]
    presets.project.policy(target="recorded:answers.jsonl", cases={"a": {"expected_trajectory": steps}})
    finished, record = presets.project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    first, last = record.cases[0].trials[0].turns
    assert [(found.criteria.kind, found.status) for found in first.evaluations] == [("agent", "skipped")]
    whole, tools = last.evaluations
    assert {name: found["passed"] for name, found in whole.metadata["metrics"].items()} == {
        "trajectory": True,
        "trajectory_accuracy": None,
        "one": True,
    }
    assert tools.metadata["deepeval_tool_correctness"]["calls"] == 2
    (asked,) = presets.models.requests
    assert asked.text.count('"tool"') == 2


def test_an_answer_that_needs_no_judge_costs_nothing(presets: Presets) -> None:
    rows = {"a": {"response": "", "ground_truth": "x [a]"}}
    finished, record = presets.run({"type": "generation"}, rows, {})
    assert finished.code == 1, finished.stderr
    assert presets.models.requests == []
    # The one that is not known is what the recorded answer took.
    assert RecordTotals(record).consumption.tokens.unknown == 1


def test_whether_texts_were_retrieved_must_be_known(presets: Presets) -> None:
    """Less is graded without texts: not knowing of any is not having none."""
    project = presets.project
    presets.models.answer(PresetJudge({"a": Truth(GOOD)}))
    project.suite(
        [{"name": "a", "input": "What is [a]?", "ground_truth": "yes"}],
        [{"type": "generation"}],
        model=presets.reference(),
    )
    project.policy(target="recorded:answers.jsonl")
    project.answers([{"case": "a", "response": "yes [a]"}])
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3
    said = "it needs retrieval_context, which the agent did not report; report an empty list if there are none"
    assert said in finished.stdout
    project.answers([{"case": "a", "response": "yes [a]", **NO_TEXTS}])
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout
