"""`export`: a run in HoneyHive's data models, by the command line, valid by the schemas, and read back without loss."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.extensions.history.history_lines import history_line
from holodeck_action.extensions.honeyhive.honeyhive import to_honeyhive_kind
from holodeck_action.extensions.honeyhive.honeyhive_models import KINDS, HoneyHiveExport, LengthEvaluation
from holodeck_action.extensions.honeyhive.honeyhive_patterns import temporal_evaluations
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from holodeck_action.record.serialization import from_plain, to_json
from tests.commands.project import Finished, Project, evaluations
from tests.extensions.calibration.labelling import GEVAL, Bench
from tests.llm.models import KEY, FakeModels
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.shown import report_of
from tests.tables import walk

EQUALITY = {"type": "standard", "metric": "equality"}
LENGTH = {"type": "length", "max_words": 5}
F1 = {"type": "standard", "metric": "f1_score", "threshold": 0.6}
GRADER = """
from holodeck.lib.test_runner.code_grader import GraderResult

def tone(ctx):
    if "loud" in ctx.agent_response:
        raise ValueError("too loud")
    return GraderResult(score=len(ctx.agent_response) < 20, reason="by ear", confidence=0.75, details={"ear": 1})
"""


def documents(project: Project) -> Iterator[tuple[str, jsonschema.Draft202012Validator]]:
    """A validator for each document, from the schema that the command line prints."""
    for name in ("honeyhive", "evaluation-batch", "multi-evaluation-result"):
        schema = json.loads(project.run("schema", name).stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        yield name, jsonschema.Draft202012Validator(schema)


def exported(project: Project, *flags: str, results: str = "out/results.json") -> HoneyHiveExport:
    """Export, check the document against its schemas, and read it back."""
    finished = project.run("export", results, "--format", "honeyhive", *flags)
    assert finished.code == 0, finished.stderr
    document = json.loads(finished.stdout)
    schemas = dict(documents(project))
    schemas["honeyhive"].validate(document)
    schemas["evaluation-batch"].validate(document["evaluation_batch"])
    for result in document["multi_evaluation_results"]:
        schemas["multi-evaluation-result"].validate(result)
    return read_export(finished.stdout)


def read_evaluation(values: dict[str, Any]) -> Evaluation:
    """An exported evaluation, of the kind whose fields it has."""
    all_kinds: tuple[type[Evaluation], ...] = (*KINDS.values(), Evaluation)
    kinds = {frozenset(kind.__struct_fields__): kind for kind in all_kinds}
    return from_plain(values, kinds[frozenset(values)])


def read_export(text: str | bytes) -> HoneyHiveExport:
    document = json.loads(text)
    answers = document["multi_evaluation_results"]
    found = from_plain(document, HoneyHiveExport)
    batch = tuple(map(read_evaluation, document["evaluation_batch"]["evaluations"]))
    return replace(
        found,
        evaluation_batch=replace(found.evaluation_batch, evaluations=batch),
        multi_evaluation_results=tuple(
            replace(answer, evaluations=tuple(map(read_evaluation, values["evaluations"])))
            for answer, values in zip(found.multi_evaluation_results, answers, strict=True)
        ),
    )


def as_recorded(found: Evaluation) -> Evaluation:
    """An exported evaluation as the record has it: what HoneyHive names for its kind is in the metadata."""
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    common = {field.name: values.pop(field.name) for field in fields(Evaluation)}
    facts = json.loads(to_json(values))
    return Evaluation(**{**common, "metadata": {**common["metadata"], **facts}})


@pytest.fixture
def shop(project: Project) -> Project:
    """Cases with scores of every type, an evaluation that fails, one that is skipped, two turns, and trials."""
    project.write("graders.py", GRADER)
    code = {"type": "code", "grader": "graders:tone", "name": "tone"}
    project.suite(
        [
            {"name": "good", "input": "?", "ground_truth": "Paris", "expected_tools": ["look_up"]},
            {"name": "loud", "input": "?", "ground_truth": "Lima"},
            {"name": "unjudged", "input": "?", "evaluations": [EQUALITY, LENGTH]},
            {"name": "talk", "turns": [{"input": "a", "ground_truth": "A"}, {"input": "b", "ground_truth": "B"}]},
            {"name": "silent", "input": "?", "ground_truth": "x"},
        ],
        [EQUALITY, LENGTH, F1, code],
    )
    project.answers(
        [
            {"case": "good", "response": "Paris", "tool_invocations": [{"name": "look_up", "args": {}}]},
            {"case": "loud", "response": "loud and much too long for five words"},
            {"case": "unjudged", "response": "?"},
            {"case": "talk", "turn": 0, "response": "A"},
            {"case": "talk", "turn": 1, "response": "nothing"},
        ]
    )
    project.policy(target="recorded:answers.jsonl")
    project.run("run", "-o", "out")
    return project


@pytest.mark.full
@pytest.mark.proves("export: RESULTS --format --output")
def test_every_evaluation_is_there_and_nothing_is_lost(shop: Project) -> None:
    made = read_record(shop.out / "results.json")
    found = exported(shop)
    batch = found.evaluation_batch
    assert [as_recorded(each) for each in batch.evaluations] == evaluations(made)
    assert {each.status for each in batch.evaluations} >= {"completed", "failed", "pending"}
    assert {type(each.score) for each in batch.evaluations} >= {bool, float, type(None)}
    assert (batch.status, batch.batch_metadata.batch_size) == ("completed", len(evaluations(made)))
    assert batch.batch_metadata.processing_time_ms == made.run.duration_ms
    assert batch.batch_metadata.evaluator_versions["length"] == "1.0.0"
    assert tuple(each for answer in found.multi_evaluation_results for each in answer.evaluations) == batch.evaluations
    again = shop.run("export", "out/results.json", "--format", "honeyhive", "-o", "made.json")
    assert (again.code, again.stdout) == (0, "")
    assert read_export((shop.folder / "made.json").read_bytes()) == found
    assert shop.run("export", "out/results.json", "--format", "other").code == 2


@pytest.mark.full
def test_answers_have_their_place_and_their_tool_calls(shop: Project) -> None:
    answers = exported(shop).multi_evaluation_results
    places = [(each.target.case_name, each.target.trial, each.target.turn) for each in answers]
    assert places == [
        *(("good", 0, 0), ("loud", 0, 0), ("unjudged", 0, 0), ("talk", 0, 0), ("talk", 0, 1), ("silent", 0, 0)),
    ]
    assert [assertion.matched for assertion in answers[0].tool_assertions] == [True]
    assert all({each.target_event_id for each in answer.evaluations} == {answer.target_event_id} for answer in answers)
    assert len({answer.target_event_id for answer in answers}) == len(answers)


@pytest.mark.full
def test_a_kind_has_its_own_fields(shop: Project) -> None:
    lengths = [each for each in exported(shop).evaluation_batch.evaluations if each.evaluator_name == "length"]
    first, second = (each for each in lengths[:2] if isinstance(each, LengthEvaluation))
    assert (first.character_count, first.word_count, first.length_appropriateness) == (5, 1, "appropriate")
    assert (second.expected_length_range, second.length_appropriateness) == ({"max_words": 5}, "too_long")
    assert type(lengths[-1]) is Evaluation  # Nothing was answered.


@pytest.mark.parametrize(
    ("gate", "scores", "weights"),
    [
        ({"method": "minimum"}, [1.0, 0.0, 1.0], None),
        ({"method": "simple_average"}, [1.0, 1 / 3, 1.0], None),
        ({"method": "weighted_average", "weights": {"f1_score": 3, "length": 1}}, [1.0, 0.25, 1.0], True),
    ],
)
def test_answers_are_summed_up_as_the_gate_says(
    project: Project, gate: dict[str, Any], scores: list[float], weights: bool | None
) -> None:
    project.suite(
        [{"name": name, "input": "?", "ground_truth": name} for name in ("a", "b", "c")], [EQUALITY, LENGTH, F1]
    )
    project.answers([{"case": name, "response": said} for name, said in (("a", "a"), ("b", "x"), ("c", "c"))])
    project.policy(target="recorded:answers.jsonl", gates={"summary": {**gate, "min": 0.1}})
    project.run("run", "-o", "out")
    answers = exported(project).multi_evaluation_results
    assert [answer.summary_method for answer in answers] == [gate["method"]] * 3
    assert [answer.summary_score for answer in answers] == [pytest.approx(score) for score in scores]
    assert answers[0].weights == (gate["weights"] if weights else None)


@pytest.mark.full
def test_an_answer_with_a_missing_score_has_no_summary(shop: Project) -> None:
    assert {answer.summary_method for answer in exported(shop).multi_evaluation_results} == {None}
    shop.policy(target="recorded:answers.jsonl", gates={"summary": {"method": "minimum", "min": 0.1}})
    shop.run("run", "-o", "out")
    summaries = {each.target.case_name: each.summary_score for each in exported(shop).multi_evaluation_results}
    assert summaries == {"good": 1.0, "loud": None, "unjudged": None, "talk": 0.0, "silent": None}


@pytest.mark.full
def test_blocks_are_those_of_the_report(shop: Project) -> None:
    found = exported(shop)
    report = json.loads(shop.run("report", "out/results.json", "--format", "json").stdout)["evaluations"]
    performance, quality = report["performance"], report["quality"]
    block = found.evaluation_performance
    assert (block.total_evaluations, block.successful_evaluations) == (performance["total"], performance["successful"])
    assert (block.failed_evaluations, block.success_rate) == (performance["failed"], performance["success_rate"])
    assert (block.average_duration_ms, block.p95_duration_ms, block.total_cost_usd) == (
        performance["average_duration_ms"], performance["p95_duration_ms"], performance["total_cost_usd"]
    )  # fmt: skip
    assert found.evaluation_quality.evaluator_agreement == quality["agreement"]
    shares = found.evaluation_quality.confidence_distribution
    assert (shares.high_confidence, shares.medium_confidence, shares.low_confidence) == (0.0, 1.0, 0.0)


@pytest.mark.full
def test_correlations_are_named_by_their_metrics(project: Project) -> None:
    project.numbered(12, frozenset({3, 7}))
    project.suite([{"name": f"case {n}", "input": "?", "ground_truth": str(n)} for n in range(12)], [EQUALITY, F1])
    project.run("run", "-o", "out")
    assert exported(project).evaluation_quality.inter_evaluator_correlation == {
        "equality_vs_f1_score": pytest.approx(1.0)
    }


@pytest.mark.proves("export: RESULTS --format --output")
def test_a_run_that_stopped_is_a_failed_batch(project: Project) -> None:
    stored(project, record(case("P"), case(""), stopped="a signal"))
    batch = exported(project).evaluation_batch
    assert (batch.status, batch.batch_metadata.verdict) == ("failed", "stopped")


def stored(project: Project, made: Record) -> None:
    project.out.mkdir(exist_ok=True)
    write_results(project.out, made, decide(made))


# -- kinds

FACTS: dict[str, dict[str, Any]] = {
    "quality": {"dimensions": {"relevance": 1, "coherence": 0.5, "clarity": 0.25, "completeness": 1.0, "accuracy": 0}},
    "factual_accuracy": {
        "factual_claims": [{"claim": "Paris", "verified": True, "reason": "yes", "sources": ["a"]}],
        "citation_accuracy": None,
        "hallucination_detected": False,
    },
    "toxicity": {"toxicity_categories": {"profanity": 0.1}, "overall_toxicity": 0.1, "content_warnings": ["mild"]},
    "relevance": {"query_intent_match": 0.9, "topic_alignment": 1.0, "information_completeness": 0.4},
    "length": {
        "character_count": 5, "word_count": 1, "sentence_count": 1, "expected_length_range": {"min_words": 2},
        "length_appropriateness": "too_short",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", FACTS)
def test_facts_of_every_kind_go_out_and_come_back(project: Project, kind: str) -> None:
    facts = {**FACTS[kind], "judge": "openai/judge"}
    stored(project, record(case_of(turn(evaluation(0.9, kind=kind, metadata=facts)))))
    (found,) = exported(project).evaluation_batch.evaluations
    assert type(found) is KINDS[kind]
    assert found.metadata == {"judge": "openai/judge"}
    assert as_recorded(found).metadata == facts


@pytest.mark.full
@pytest.mark.parametrize("kind", FACTS)
def test_other_facts_under_the_same_names_stay_in_the_metadata(project: Project, kind: str) -> None:
    first = next(iter(FACTS[kind]))
    for facts in (
        {**FACTS[kind], first: "something else"},
        {first: FACTS[kind][first]} if len(FACTS[kind]) > 1 else {},
    ):
        stored(project, record(case_of(turn(evaluation(0.9, kind=kind, metadata=facts)))))
        (found,) = exported(project).evaluation_batch.evaluations
        assert type(found) is Evaluation
        assert found.metadata == facts


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.full
@given(st.sampled_from(sorted(FACTS)), st.data())
@settings(max_examples=80)
def test_whatever_a_record_holds_comes_back(kind: str, data: st.DataObject) -> None:
    facts = {name: data.draw(st.just(value) | JSON) for name, value in FACTS[kind].items()}
    facts |= data.draw(st.dictionaries(st.text(), JSON, max_size=2))
    score = data.draw(st.none() | st.booleans() | st.integers(0, 1) | st.floats(0, 1) | st.text(max_size=5))
    made = evaluation(score, kind=kind, metadata=facts)
    sent = to_json(to_honeyhive_kind(made))
    back = as_recorded(read_evaluation(json.loads(sent)))
    assert back == made
    assert type(back.score) is type(made.score)


@pytest.mark.full
def test_a_document_that_is_wrong_does_not_fit_its_schema(shop: Project) -> None:
    text = shop.run("export", "out/results.json", "--format", "honeyhive").stdout
    validator = dict(documents(shop))["honeyhive"]
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda it: it["evaluation_batch"].pop("batch_id"),
        lambda it: it["evaluation_batch"].update(status="done"),
        lambda it: it["evaluation_batch"]["evaluations"][0].update(status="maybe"),
        lambda it: it["multi_evaluation_results"][0].pop("target_event_id"),
        lambda it: it["multi_evaluation_results"][0].update(summary_method="guess"),
        lambda it: it["evaluation_performance"].update(success_rate="all"),
        lambda it: it["temporal_evaluations"][0].update(trend="up"),
    ]
    for change in changes:
        document = json.loads(text)
        change(document)
        assert not validator.is_valid(document)


# -- against the base


def compared(project: Project, base_wrong: set[int], head_wrong: set[int], count: int = 20) -> HoneyHiveExport:
    project.numbered(count, frozenset(base_wrong))
    project.run("run", "-o", "before")
    project.numbered(count, frozenset(head_wrong))
    shutil.copy(project.folder / "before" / "results.json", project.folder / "base.json")
    project.policy(target="recorded:answers.jsonl", baseline={"source": "file:base.json"})
    project.run("run", "-o", "out")
    return exported(project)


@pytest.mark.full
def test_a_comparison_with_the_base_is_an_ab_test(project: Project) -> None:
    found = compared(project, {0, 1, 2}, {2, 3})
    rate, equality = found.ab_test_comparisons
    assert (rate.metric, equality.metric) == ("pass_rate", "equality")
    data = rate.comparison_data
    # Better in two cases, worse in one, equal in seventeen.
    assert data.preference_score == rate.score == pytest.approx((2 + 17 / 2) / 20)
    assert (data.sample_size, data.mean_a, data.mean_b) == (20, 0.9, 0.85)
    assert data.confidence_interval is not None
    low, high = data.confidence_interval
    assert low < data.preference_score < high
    assert not data.statistical_significance
    comparison = json.loads(project.run("report", "out/results.json", "--format", "json").stdout)["comparison"]
    assert (data.variant_a_event_id, data.variant_b_event_id) == (
        comparison["head"]["record_digest"], comparison["base"]["record_digest"]
    )  # fmt: skip
    change = comparison["pass_rate"]
    assert [low, high] == [pytest.approx(0.5 + change[end] / 2) for end in ("low", "high")]


@pytest.mark.full
def test_a_clear_difference_is_significant(project: Project) -> None:
    data = compared(project, set(), set(range(10))).ab_test_comparisons[0].comparison_data
    assert (data.preference_score, data.statistical_significance, data.state) == (0.25, True, "regressed")


@pytest.mark.full
def test_a_base_is_a_point_in_time(project: Project) -> None:
    found = compared(project, set(range(10)), set())
    rate = found.temporal_evaluations[0]
    assert (rate.metric, rate.historical_scores, rate.current_score) == ("pass_rate", (0.5, 1.0), 1.0)
    assert (rate.trend, rate.change_rate, rate.stability_score) == ("improving", 0.5, 0.5)
    base = read_record(project.folder / "base.json")
    head = read_record(project.out / "results.json")
    assert rate.historical_timestamps == (base.run.started_at, head.run.started_at)


@pytest.mark.full
def test_without_a_base_there_is_no_comparison_and_no_trend(shop: Project) -> None:
    found = exported(shop)
    assert (found.ab_test_comparisons, found.human_ai_comparisons) == ((), ())
    (rate,) = (each for each in found.temporal_evaluations if each.metric == "pass_rate")
    assert (rate.trend, rate.change_rate, rate.stability_score) == (None, None, None)
    assert rate.historical_scores == (rate.current_score,)


@walk(
    ("earlier", "now", "polarity", "trend", "rate"),
    [
        ([0.2, 0.4], 0.6, "maximize", "improving", 0.2),
        ([0.2, 0.4], 0.6, "minimize", "degrading", 0.2),
        ([0.8, 0.7], 0.6, "maximize", "degrading", -0.1),
        ([0.6, 0.65], 0.62, "maximize", "stable", 0.01),
        ([0.2], 0.6, "neutral", None, 0.4),
    ],
)
def test_trends(earlier: list[float], now: float, polarity: str, trend: str | None, rate: float) -> None:
    made = record(*[case_of(turn(evaluation(now + 0.1 * (-1) ** n, polarity=polarity))) for n in range(12)])
    runs = []
    for number, mean in enumerate(earlier, start=1):
        past = record(*[case_of(turn(evaluation(mean, polarity=polarity))) for _ in range(12)])
        line = history_line(past, decide(past))
        runs.append(replace(line, time=f"2026-01-0{number}T00:00:00+00:00"))
    found = {each.metric: each for each in temporal_evaluations(report_of(made), made, runs)}["bleu"]
    assert found.trend == trend
    assert found.change_rate == pytest.approx(rate)
    scores = [*earlier, found.current_score]
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    assert found.stability_score == pytest.approx(1 - 2 * deviation)


@pytest.mark.full
@pytest.mark.proves("export: --history")
def test_a_history_is_time(project: Project) -> None:
    for wrong in (6, 4, 2, 0):
        project.numbered(12, frozenset(range(wrong)))
        project.run("run", "-o", "out", "--history", "past")
    rate, equality = exported(project, "--history", "past").temporal_evaluations
    assert rate.historical_scores == equality.historical_scores
    assert list(rate.historical_scores) == [pytest.approx(right / 12) for right in (6, 8, 10, 12)]
    assert rate.trend == "improving"
    assert rate.change_rate == pytest.approx(1 / 6)
    lines = [json.loads(line) for line in (project.folder / "past" / "history.jsonl").read_text().splitlines()]
    assert list(rate.historical_timestamps) == [line["time"] for line in lines]
    # The run itself keeps what its report shows.
    assert exported(project).temporal_evaluations == (rate, equality)
    # To an earlier run the later ones are no history.
    before = exported(project, "--history", "past", results="out/previous/results.json").temporal_evaluations[0]
    assert before.historical_scores == rate.historical_scores[:3]


@pytest.mark.full
def test_scores_of_other_judges_and_runs_of_some_cases_are_no_history(bench: Bench) -> None:
    project = bench.project
    for flags in (("--limit", "5"), (), ()):
        project.evaluate("--history", "past", *flags, OPENAI_API_KEY=KEY)
    rate, quality = exported(project, "--history", "past").temporal_evaluations
    assert len(rate.historical_scores) == len(quality.historical_scores) == 2
    bench.suite(20, {**GEVAL, "model": bench.model("other")})
    project.evaluate("--history", "past", OPENAI_API_KEY=KEY)
    rate, quality = exported(project, "--history", "past").temporal_evaluations
    assert (len(rate.historical_scores), len(quality.historical_scores)) == (3, 1)


def test_a_history_of_other_suites_is_refused(project: Project) -> None:
    project.numbered(2)
    project.run("run", "-o", "out", "--history", "past")
    text = (project.folder / "past" / "history.jsonl").read_text()
    project.write("past/history.jsonl", text.replace("agent.yaml", "other.yaml") + "not a line\n")
    said = refusal(project.run("export", "out/results.json", "--format", "honeyhive", "--history", "past"))
    assert "past/history.jsonl: holds no run of agent.yaml (it has runs of: other.yaml)" in said
    assert "note: past/history.jsonl: 1 line is skipped: line 2" in said


# -- people


@pytest.fixture
def bench(project: Project) -> Iterator[Bench]:
    with FakeModels(keys=[KEY]) as models:
        made = Bench(models, project)
        made.scores = {n: 9 if n < 15 else 2 for n in range(20)}
        made.suite(20)
        project.evaluate(OPENAI_API_KEY=KEY)
        made.labels([{"case": f"case {n}", "label": int(n < 12 or n == 15)} for n in range(20)])
        yield made


@pytest.mark.full
@pytest.mark.proves("export: --card")
def test_a_judge_card_is_people_against_a_judge(bench: Bench) -> None:
    card = bench.card("--results", "out/results.json", "-o", "card")
    (found,) = exported(bench.project, "--card", "card/judge-card.json").human_ai_comparisons
    assert (found.metric, found.sample_size) == ("quality", 20)
    assert found.agreement_score == found.score == card["judge"]["agreement"]["value"] == 0.8
    assert (found.human_evaluation.score, found.ai_evaluation.score) == (13 / 20, 15 / 20)
    assert found.ai_evaluation.model == "openai/judge"
    assert found.discrepancy_analysis.startswith(
        "the judge passes 3 of 7 answers that people fail, and fails 1 of 13 that people pass; Cohen's κ 0.5"
    )
    assert found.discrepancy_analysis.endswith("lines of the labels: 14, 15, 16, 17")


@pytest.mark.full
def test_a_card_of_the_suite_says_what_people_would_pass(bench: Bench) -> None:
    bench.card("--results", "out/results.json", "-o", "card")
    bench.project.policy(target="recorded:answers.jsonl", judges={"cards": ["card/judge-card.json"]})
    _, made = bench.project.evaluate(OPENAI_API_KEY=KEY)
    (summary,) = made.cards
    (found,) = exported(bench.project).human_ai_comparisons
    assert found.human_evaluation.score == summary.corrected.value
    assert (found.ai_evaluation.score, found.agreement_score) == (summary.pass_rate.value, 0.8)
    # The card itself knows more.
    (found,) = exported(bench.project, "--card", "card/judge-card.json").human_ai_comparisons
    assert found.human_evaluation.score == 13 / 20


@pytest.mark.full
@pytest.mark.proves("export: --labels --metric")
def test_labels_are_compared_answer_by_answer(bench: Bench) -> None:
    found = exported(bench.project, "--labels", "labels.csv", "--metric", "quality").human_ai_comparisons
    assert len(found) == 20
    events = {answer.target_event_id: answer for answer in exported(bench.project).multi_evaluation_results}
    for number, each in enumerate(found):
        human, judge = number < 12 or number == 15, number < 15
        assert events[each.target_event_id].target.case_name == f"case {number}"
        assert (each.human_evaluation.annotator_id, each.human_evaluation.score) == ("human_1", float(human))
        assert each.agreement_score == float(human == judge)
        assert each.ai_evaluation.score == pytest.approx(0.9 if judge else 0.2)
        words = {True: "passed", False: "failed"}
        told = (
            f"both say {words[human]}"
            if human == judge
            else f"people say {words[human]}, the judge says {words[judge]}"
        )
        assert each.discrepancy_analysis == told
    assert len({each.evaluation_id for each in found}) == 20


@pytest.mark.full
def test_scores_of_several_people_are_compared_by_distance(bench: Bench) -> None:
    bench.labels([{"case": "case 0", "label": 0.7, "label_2": 1.0}, {"case": "case 19", "label": 0.2, "label_2": ""}])
    found = exported(bench.project, "--labels", "labels.csv").human_ai_comparisons
    assert [each.human_evaluation.annotator_id for each in found] == ["human_1", "human_2", "human_1"]
    assert [each.agreement_score for each in found] == [pytest.approx(score) for score in (0.8, 0.9, 1.0)]
    assert found[0].discrepancy_analysis == "the judge's score is +0.2 from that of people"


@pytest.mark.full
def test_people_have_their_names_and_comments(bench: Bench) -> None:
    row = {
        "case": "case 0",
        "label": 1,
        "annotator": "ann",
        "comment": "good, but\nlong",
        "label_2": 0,
        "comment_2": "no",
    }
    bench.labels([row, {**dict.fromkeys(row, ""), "case": "case 1", "label": 1}])
    found = exported(bench.project, "--labels", "labels.csv").human_ai_comparisons
    humans = [each.human_evaluation for each in found]
    assert [(human.annotator_id, human.score, human.explanation) for human in humans] == [
        ("ann", 1.0, "good, but\nlong"),
        ("human_2", 0.0, "no"),
        ("human_1", 1.0, None),
    ]


# -- what cannot be used


def refusal(finished: Finished) -> str:
    assert (finished.code, finished.stdout) == (2, "")
    return finished.stderr


def test_what_cannot_be_used_is_refused_in_a_sentence(bench: Bench) -> None:
    project = bench.project
    bench.card("--results", "out/results.json", "-o", "card")
    card = json.loads((project.folder / "card" / "judge-card.json").read_text())
    project.write("other.json", json.dumps({**card, "metric": "tone"}))
    project.write("none.json", "{}")
    project.write("wrong.csv", "case,label\ncase 99,1\n")
    for flags, sentence in (
        (
            ("--card", "other.json"),
            "other.json: is about 'tone', which out/results.json does not have (it has: quality)",
        ),
        (("--card", "none.json"), "none.json: is not a judge card: it has no schema_version; create it again with"),
        (("--card", "gone.json"), "gone.json: cannot be read: No such file or directory; give the judge-card.json of"),
        (("--labels", "wrong.csv"), "wrong.csv:2: column `case`: out/results.json: there is no case 'case 99'"),
        (("--metric", "quality"), "--metric names the metric of the labels: give --labels, or leave out --metric"),
        (("-o", "no/such/folder.json"), "no/such/folder.json: cannot be written: No such file or directory"),
    ):
        assert sentence in refusal(project.run("export", "out/results.json", "--format", "honeyhive", *flags))
    assert "cannot be read" in refusal(project.run("export", "gone.json", "--format", "honeyhive"))


def test_no_text_is_a_command_for_the_runner(project: Project) -> None:
    made = record(case_of(turn(evaluation(0.9, explanation="##[error]x")), name="##[group]"))
    stored(project, replace(made))
    text = project.run("export", "out/results.json", "--format", "honeyhive").stdout
    assert "##[" not in text
    assert read_export(text).evaluation_batch.evaluations[0].explanation == "##[error]x"
